// SPDX-License-Identifier: Apache-2.0 OR MIT
// What OpenMP tasks and barriers themselves cost: constructs with nearly no work, timed. See --help.
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "team.h"
#include "truth.h"
#include "work.h"

enum { CELLS = 1024 };

// The number of tasks that a thread has run, to detect lost tasks. Each thread has a cache line of its own.
struct trace {
    _Alignas(64) uint64_t tasks;
};

struct bench {
    struct trace *traces;
    size_t threads;
    uint64_t grain;    // iterations of work in each task
    char cells[CELLS];
};

static struct bench bench;

static void one(void)
{
    bench.traces[omp_get_thread_num()].tasks++;
}

static void one_grain(uint64_t seed)
{
    struct working_set none = {0};
    // Using the result prevents the compiler from removing the work.
    if (calibrated_work(seed, bench.grain, &none) != seed)
        one();
}

// One thread creates the tasks; the others help to run them.
static void by_one(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task
        one();
    }
}

// All threads create tasks.
static void by_all(uint64_t count)
{
#pragma omp parallel
#pragma omp for
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task
        one();
    }
}

static void depend_one(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task depend(inout : bench.cells[i % CELLS])
        one();
    }
}

static void depend_two(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task depend(inout : bench.cells[i % CELLS]) depend(in : bench.cells[(i + 1) % CELLS])
        one();
    }
}

static void depend_three(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task depend(inout : bench.cells[i % CELLS]) \
    depend(in : bench.cells[(i + 1) % CELLS], bench.cells[(i + CELLS - 1) % CELLS])
        one();
    }
}

static void at_once(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task if (0)
        one();
    }
}

static void waited(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task
        one();
#pragma omp taskwait
    }
}

static void grouped(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp taskgroup
        {
#pragma omp task
            one();
        }
    }
}

// A binary tree of `count` tasks, each of which waits for its two children.
static void branch(uint64_t count)
{
    one();
    if (count <= 1)
        return;
    uint64_t left = (count - 1) / 2, right = count - 1 - left;
    if (left > 0) {
#pragma omp task
        branch(left);
    }
#pragma omp task
    branch(right);
#pragma omp taskwait
}

static void tree(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    {
#pragma omp task
        branch(count);
    }
}

static void loop(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskloop grainsize(1)
        for (uint64_t i = 0; i < count; i++)
            one();
    }
}

static void grains(uint64_t count)
{
#pragma omp parallel
#pragma omp single
    for (uint64_t i = 0; i < count; i++) {
#pragma omp task
        one_grain(i);
    }
}

static void barriers(uint64_t count)
{
#pragma omp parallel
    for (uint64_t i = 0; i < count; i++) {
#pragma omp master
        one();
#pragma omp barrier
    }
}

static void regions(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
#pragma omp parallel
#pragma omp master
        one();
    }
}

static void loops(uint64_t count)
{
#pragma omp parallel
    for (uint64_t i = 0; i < count; i++) {
#pragma omp for schedule(dynamic)
        for (int k = 0; k < 1; k++)
            one();
    }
}

static void singles(uint64_t count)
{
#pragma omp parallel
    for (uint64_t i = 0; i < count; i++) {
#pragma omp single
        one();
    }
}

static const char *const names[] = {
    "by-one", "by-all", "depend-1", "depend-2", "depend-3", "if-0", "taskwait", "taskgroup",
    "tree",   "loop",   "grain",    "barrier",  "region",   "for",  "single",   NULL};
static void (*const rows[])(uint64_t) = {by_one, by_all,  depend_one, depend_two, depend_three,
                                         at_once, waited, grouped,    tree,       loop,
                                         grains, barriers, regions,   loops,      singles};

int main(int argc, char **argv)
{
    unsigned row = 0;
    uint64_t threads = 0, count = 100000, repeats = 5, grain_ns = 10 * NS_PER_US;
    const struct option_spec options[] = {
        {"row", OPTION_CHOICE, &row, 0, 0, names, "NAME", "what is timed (by-one)", NULL},
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"count", OPTION_COUNT, &count, 1, 1e9, NULL, "C", "constructs per repeat (100000)", NULL},
        {"repeats", OPTION_COUNT, &repeats, 1, 1e6, NULL, "R",
         "repeats, of which the fastest counts (5)", NULL},
        {"grain-us", OPTION_MICROS, &grain_ns, 0, 1e6, NULL, "W",
         "work of a task in the row grain, us (10)", NULL},
    };
    const struct program program = {
        .name = "taskcost",
        .summary = "OpenMP tasks, barriers and loops with nearly no work in them, timed.\n"
                   "by-one, by-all: independent tasks made by one thread or by all; depend-N: with N\n"
                   "dependences; tree: each task waits for two others; other rows as their names say.",
        .example = "taskcost --row tree --threads 2\n"
                   "taskcost --row grain --grain-us 100 --count 10000",
        .checked = "Each construct was executed once.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    bench.threads = team_prepare(threads);
    bench.traces = aligned_alloc(_Alignof(struct trace), bench.threads * sizeof *bench.traces);
    if (bench.traces == NULL)
        system_failed("allocate %zu lines", bench.threads);
    for (size_t i = 0; i < bench.threads; i++)
        bench.traces[i].tasks = 0;
    struct working_set none = {0};
    bench.grain = rows[row] == grains ? work_iterations(grain_ns, work_calibrate(&none)) : 0;

    struct team team;
    team_begin(&team, truth_wanted(&truth));
    // A warm-up, which starts the threads and allocates memory.
    rows[row](count);
    double best_ns = 0;
    uint64_t all_ns = 0;
    for (uint64_t i = 0; i < repeats; i++) {
        uint64_t begin_ns = monotonic_ns();
        rows[row](count);
        uint64_t elapsed_ns = monotonic_ns() - begin_ns;
        all_ns += elapsed_ns;
        double each_ns = (double)elapsed_ns / (double)count;
        if (i == 0 || each_ns < best_ns)
            best_ns = each_ns;
    }
    team_end(&team);
    uint64_t done = 0;
    for (size_t i = 0; i < bench.threads; i++)
        done += bench.traces[i].tasks;
    if (done != (repeats + 1) * count)
        check_failed("%" PRIu64 " of %" PRIu64 " constructs were executed", done, (repeats + 1) * count);

    printf("taskcost: %s, %zu threads, %.1f ns each\n", names[row], bench.threads, best_ns);
    truth_begin(&truth, "taskcost");
    truth_string(&truth, "row", names[row]);
    truth_u64(&truth, "count", count);
    truth_u64(&truth, "elapsed_ns", all_ns);
    truth_double(&truth, "ns_each", best_ns);
    team_truth(&truth, &team);
    truth_end(&truth);
    free(bench.traces);
    team_destroy(&team);
    return program_end();
}
