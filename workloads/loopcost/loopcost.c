// SPDX-License-Identifier: Apache-2.0 OR MIT
// What OpenMP loops themselves cost: many instances of a loop with nearly no work, timed. See --help.
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "team.h"
#include "truth.h"

// The number of iterations that a thread has executed. Each thread has a cache line of its own. Volatile:
// the compiler must not combine the iterations of a chunk.
struct share {
    _Alignas(128) volatile uint64_t iterations;
};

struct bench {
    struct share *shares;
    uint64_t iterations;
    uint64_t instances;
};

static struct bench bench;

// Executes all instances in the calling thread of a team. The loop ends with a barrier.
#define INSTANCES(name, clause)                                                                               \
    static void name(void)                                                                                    \
    {                                                                                                         \
        struct share *share = &bench.shares[omp_get_thread_num()];                                            \
        int64_t iterations = (int64_t)bench.iterations;                                                       \
        for (uint64_t i = 0; i < bench.instances; i++) {                                                      \
            _Pragma(clause) for (int64_t k = 0; k < iterations; k++) share->iterations++;                     \
        }                                                                                                     \
    }
INSTANCES(dynamic_loops, "omp for schedule(nonmonotonic : dynamic, 1)")
INSTANCES(guided_loops, "omp for schedule(nonmonotonic : guided)")
INSTANCES(runtime_loops, "omp for schedule(runtime)")
INSTANCES(static_loops, "omp for schedule(static)")

static const char *const names[] = {"dynamic", "guided", "runtime", "static", NULL};
static void (*const loops[])(void) = {dynamic_loops, guided_loops, runtime_loops, static_loops};

// Returns the time from a barrier before all instances to one after them, nanoseconds.
static uint64_t timed(void (*loop)(void))
{
    uint64_t begin_ns = 0, end_ns = 0;
#pragma omp parallel
    {
#pragma omp barrier
#pragma omp master
        begin_ns = monotonic_ns();
        loop();
#pragma omp barrier
#pragma omp master
        end_ns = monotonic_ns();
    }
    return end_ns - begin_ns;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    unsigned loop = 0;
    uint64_t threads = 0, repeats = 9;
    bench.iterations = 200;
    bench.instances = 2000;
    const struct option_spec options[] = {
        {"loop", OPTION_CHOICE, &loop, 0, 0, names, "NAME", "the loop's schedule (dynamic)", NULL},
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"iterations", OPTION_COUNT, &bench.iterations, 1, 1e9, NULL, "I",
         "iterations of an instance (200)", NULL},
        {"instances", OPTION_COUNT, &bench.instances, 1, 1e9, NULL, "C", "instances per repeat (2000)", NULL},
        {"repeats", OPTION_COUNT, &repeats, 1, 1e4, NULL, "R", "repeats, of which the median counts (9)", NULL},
    };
    const struct program program = {
        .name = "loopcost",
        .summary = "OpenMP loops with nearly no work in them, timed: dynamic,1, guided, runtime or static.\n"
                   "An iteration adds 1 to a counter of its thread.",
        .example = "loopcost --loop guided --threads 2\n"
                   "loopcost --loop dynamic --iterations 100000 --instances 1",
        .checked = "Each iteration was executed once.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    size_t size = team_prepare(threads);
    uint64_t *times_ns = malloc(repeats * sizeof *times_ns);
    bench.shares = aligned_alloc(_Alignof(struct share), size * sizeof *bench.shares);
    if (times_ns == NULL || bench.shares == NULL)
        system_failed("allocate %zu shares", size);
    for (size_t i = 0; i < size; i++)
        bench.shares[i].iterations = 0;

    struct team team;
    team_begin(&team, truth_wanted(&truth));
    // A warm-up, which starts the threads and allocates memory.
    timed(loops[loop]);
    uint64_t all_ns = 0;
    for (uint64_t i = 0; i < repeats; i++)
        all_ns += times_ns[i] = timed(loops[loop]);
    team_end(&team);
    uint64_t done = 0, wanted = (repeats + 1) * bench.instances * bench.iterations;
    for (size_t i = 0; i < size; i++)
        done += bench.shares[i].iterations;
    if (done != wanted)
        check_failed("%" PRIu64 " of %" PRIu64 " iterations were executed", done, wanted);
    qsort(times_ns, repeats, sizeof *times_ns, by_value);
    double each_ns = (double)times_ns[repeats / 2] / (double)bench.instances;

    printf("loopcost: %s, %zu threads, %.1f ns per instance, %.2f ns per iteration\n", names[loop], size, each_ns,
           each_ns / (double)bench.iterations);
    truth_begin(&truth, "loopcost");
    truth_string(&truth, "loop", names[loop]);
    truth_u64(&truth, "iterations", bench.iterations);
    truth_u64(&truth, "instances", bench.instances);
    truth_u64(&truth, "elapsed_ns", all_ns);
    truth_double(&truth, "ns_each", each_ns);
    team_truth(&truth, &team);
    truth_end(&truth);
    free(times_ns);
    free(bench.shares);
    team_destroy(&team);
    return program_end();
}
