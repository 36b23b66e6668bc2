// SPDX-License-Identifier: Apache-2.0 OR MIT
// The triad kernel of the STREAM benchmark: a = b + s*c on arrays larger than the caches.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache.h"
#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "team.h"
#include "truth.h"

struct arrays {
    double *a, *b, *c;
    long count;
};

// Small integers: the result is exact in double, in any order.
static double b_value(long i)
{
    return (double)(i % 1021);
}

static double c_value(long i)
{
    return (double)(i % 509);
}

static double scalar_of(uint64_t repeat)
{
    return (double)(3 + repeat % 7);
}

static double *map_array(long count)
{
    void *memory = mmap(NULL, (size_t)count * sizeof(double), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        system_failed("map an array of %ld numbers", count);
    return memory;
}

// Uses the schedule of the triad itself, so that the first touch places pages where they are used.
static void fill(const struct arrays *arrays)
{
    double *a = arrays->a, *b = arrays->b, *c = arrays->c;
#pragma omp parallel for schedule(runtime)
    for (long i = 0; i < arrays->count; i++) {
        a[i] = -1;
        b[i] = b_value(i);
        c[i] = c_value(i);
    }
}

static void triad(const struct arrays *arrays, double scalar)
{
    double *restrict a = arrays->a;
    const double *restrict b = arrays->b;
    const double *restrict c = arrays->c;
#pragma omp parallel for schedule(runtime)
    for (long i = 0; i < arrays->count; i++)
        a[i] = b[i] + scalar * c[i];
}

// Per element, as STREAM counts: a multiplication and an addition; two numbers are read and one is written.
static const uint64_t operations_each = 2, bytes_each = 24;

static void check(const struct arrays *arrays, double scalar)
{
#pragma omp parallel for schedule(runtime)
    for (long i = 0; i < arrays->count; i++) {
        double expected = b_value(i) + scalar * c_value(i);
        if (arrays->a[i] != expected)
            check_failed("a[%ld] is %g instead of %g", i, arrays->a[i], expected);
    }
}

// Four times the last-level cache, as STREAM requires, but for all three arrays at most 3/16 of memory.
static uint64_t default_bytes(void)
{
    uint64_t wanted = 4 * last_level_cache_bytes();
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t most = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 16
                                                : wanted;
    return wanted < most ? wanted : most;
}

int main(int argc, char **argv)
{
    uint64_t bytes = 0, repeats = 20, seconds_ns = 0, threads = 0;
    bool repeats_given = false, seconds_given = false;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"bytes", OPTION_BYTES, &bytes, 1024, 1099511627776.0, NULL, "BYTES",
         "size of each of the three arrays (4 x last-level cache)", NULL},
        {"repeats", OPTION_COUNT, &repeats, 1, 1e9, NULL, "R", "triads, at least 1 (20)",
         &repeats_given},
        {"seconds", OPTION_SECONDS, &seconds_ns, 0.001, 86400, NULL, "S",
         "instead of --repeats: run for S seconds", &seconds_given},
    };
    const struct program program = {
        .name = "triad",
        .summary = "OpenMP STREAM triad, a[i] = b[i] + s*c[i], schedule(runtime): what OMP_SCHEDULE\n"
                   "says, else static. Prints the best rate, counting 24 bytes for each i as STREAM\n"
                   "does.",
        .example = "OMP_NUM_THREADS=2 triad --repeats 50\n"
                   "OMP_SCHEDULE=dynamic,4096 triad --bytes 64M --seconds 1 --truth -",
        .checked = "Every element of a after the last triad, exactly; s differs from one triad to\n"
                   "the next, so that results of an earlier one are noticed.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (repeats_given && seconds_given)
        bad_input("give --repeats or --seconds, not both");
    if (bytes == 0)
        bytes = default_bytes();

    threads = team_prepare(threads);
    long count = (long)(bytes / sizeof(double));
    const struct arrays arrays = {map_array(count), map_array(count), map_array(count), count};
    fill(&arrays);
    struct team team;
    team_begin(&team, truth_wanted(&truth));
    uint64_t best_ns = UINT64_MAX, done = 0;
    uint64_t begin_ns = monotonic_ns(), now_ns = begin_ns;
    while (seconds_given ? now_ns - begin_ns < seconds_ns : done < repeats) {
        triad(&arrays, scalar_of(done++));
        uint64_t end_ns = monotonic_ns();
        best_ns = end_ns - now_ns < best_ns ? end_ns - now_ns : best_ns;
        now_ns = end_ns;
    }
    uint64_t elapsed_ns = now_ns - begin_ns;
    team_end(&team);
    check(&arrays, scalar_of(done - 1));

    double best_mb_per_s = (double)bytes_each * (double)count / 1e6 / ((double)best_ns / NS_PER_SECOND);
    char schedule[32];
    runtime_schedule_text(schedule, sizeof schedule);
    printf("triad: 3 arrays of %.1f MiB, %" PRIu64 " repeats, %" PRIu64
           " threads, schedule %s: %.4f s\nbest %.0f MB/s\n",
           (double)bytes / 1048576, done, threads, schedule, (double)elapsed_ns / NS_PER_SECOND,
           best_mb_per_s);
    truth_begin(&truth, "triad");
    truth_u64(&truth, "array_bytes", bytes);
    truth_u64(&truth, "repeats", done);
    truth_string(&truth, "schedule", schedule);
    truth_u64(&truth, "elapsed_ns", elapsed_ns);
    truth_u64(&truth, "operations", operations_each * (uint64_t)count * done);
    truth_u64(&truth, "bytes", bytes_each * (uint64_t)count * done);
    truth_double(&truth, "best_mb_per_s", best_mb_per_s);
    team_truth(&truth, &team);
    truth_end(&truth);
    team_destroy(&team);
    return program_end();
}
