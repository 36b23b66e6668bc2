// SPDX-License-Identifier: Apache-2.0 OR MIT
// A variability test: ranks do the same fixed work and meet, again and again. See --help.
//
// Each rank notes when it ends its work, ts[2i], and when it has met the others, ts[2i+1]. Then
// compute_i = ts[2i] - ts[2i-1] and sync_i = ts[2i+1] - ts[2i]. Noise makes some compute times longer, and each step
// takes as long as its slowest rank.
#include <inttypes.h>
#include <stdio.h>

#include "fail.h"
#include "group.h"
#include "options.h"
#include "series.h"
#include "work.h"

enum sync_kind { SYNC_ALLREDUCE, SYNC_BARRIER };

static const char *const sync_names[] = {"allreduce", "barrier", NULL};

// What no rank changes.
struct bsp {
    const struct program *program;
    struct truth *truth;
    uint64_t work_ns, steps;
    uint64_t warm_up;             // steps before the measured ones
    bool has_warm_up;
    unsigned sync;
    double iterations_per_us;     // 0: calibrate
    FILE *series;
};

static void meet(struct member *me, unsigned sync)
{
    if (sync == SYNC_BARRIER)
        group_barrier(me);
    else if (group_sum(me, 1) != (double)me->ranks)
        check_failed("a sum over all ranks is wrong");
}

static void do_work(uint64_t seed, uint64_t iterations, const struct work_answer *answer)
{
    struct working_set none = {0};
    if (calibrated_work(seed, iterations, &none) != work_answer(*answer, seed))
        check_failed("work has a wrong result");
}

// The shortest wall time of the work in some trials: noise only makes it longer.
static uint64_t shortest_ns(uint64_t iterations, uint64_t trials)
{
    const struct work_answer answer = work_answer_for(iterations);
    uint64_t best_ns = UINT64_MAX;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t begin_ns = monotonic_ns();
        do_work(trial, iterations, &answer);
        uint64_t took_ns = monotonic_ns() - begin_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    return best_ns;
}

// Trials of 20 ms together, but at least 5.
static uint64_t calibrated_iterations(uint64_t work_ns)
{
    struct working_set none = {0};
    uint64_t iterations = work_iterations(work_ns, work_calibrate(&none));
    uint64_t trials = 20 * NS_PER_MS / work_ns;
    uint64_t best_ns = shortest_ns(iterations, trials < 5 ? 5 : trials > 1000 ? 1000 : trials);
    return work_iterations(work_ns, (double)iterations * NS_PER_US / (double)best_ns);
}

// The iterations of rank 0, in all ranks.
static uint64_t common_iterations(struct member *me, const struct bsp *bsp)
{
    uint64_t iterations = 0;
    if (me->rank == 0)
        iterations = bsp->iterations_per_us > 0 ? work_iterations(bsp->work_ns, bsp->iterations_per_us)
                                                : calibrated_iterations(bsp->work_ns);
    return group_sum_u64(me, iterations);
}

static void report(const struct bsp *bsp, const struct summary *summary, uint64_t iterations)
{
    printf("%s: %zu ranks, %zu steps of %" PRIu64 " iterations (%g us), then %s\n", bsp->program->name,
           summary->ranks, summary->steps, iterations, (double)bsp->work_ns / NS_PER_US, sync_names[bsp->sync]);
    summary_print(summary);
    truth_begin(bsp->truth, bsp->program->name);
    truth_string(bsp->truth, "sync", sync_names[bsp->sync]);
    truth_u64(bsp->truth, "work_ns", bsp->work_ns);
    truth_u64(bsp->truth, "iterations", iterations);
    summary_truth(summary, bsp->truth);
    truth_end(bsp->truth);
}

static void rank_body(struct member *me, void *problem)
{
    const struct bsp *bsp = problem;
    const uint64_t iterations = common_iterations(me, bsp);
    const struct work_answer answer = work_answer_for(iterations);
    struct recording recording;
    recording_create(&recording, bsp->steps);
    // The last meeting of the warm-up is ts[-1].
    for (uint64_t step = 0; step < bsp->warm_up; step++) {
        do_work(work_seed(me->rank, step), iterations, &answer);
        meet(me, bsp->sync);
    }
    recording_begin(&recording);
    meet(me, bsp->sync);
    uint64_t met_ns = monotonic_ns();
    for (uint64_t step = 0; step < bsp->steps; step++) {
        do_work(work_seed(me->rank, step), iterations, &answer);
        uint64_t done_ns = monotonic_ns(), begin_ns = met_ns;
        meet(me, bsp->sync);
        met_ns = monotonic_ns();
        recording_add(&recording, step, done_ns - begin_ns, met_ns - done_ns);
    }
    recording_end(&recording, me);
    struct summary summary;
    if (series_collect(me, &recording, bsp->series, &summary)) {
        report(bsp, &summary, iterations);
        summary_destroy(&summary);
    }
    recording_destroy(&recording);
}

// Enough steps for 0.1 s, in which clock rates and caches settle.
static uint64_t default_warm_up(uint64_t work_ns)
{
    uint64_t steps = 100 * NS_PER_MS / work_ns;
    return steps < 10 ? 10 : steps > 10000 ? 10000 : steps;
}

int main(int argc, char **argv)
{
    static struct group_options group;
    struct bsp bsp = {.work_ns = NS_PER_MS, .steps = 1000};
    const char *series = NULL;
    const struct option_spec options[] = {
        GROUP_OPTIONS(&group),
        {"work-us", OPTION_MICROS, &bsp.work_ns, 0.1, 1e7, NULL, "W", "work of a step (1000)", NULL},
        {"steps", OPTION_COUNT, &bsp.steps, 1, SERIES_MAX_STEPS, NULL, "N", "steps (1000)", NULL},
        {"warm-up", OPTION_COUNT, &bsp.warm_up, 1, SERIES_MAX_STEPS, NULL, "N",
         "steps before the measured ones (0.1 s of work, 10 to 10000)", &bsp.has_warm_up},
        {"sync", OPTION_CHOICE, &bsp.sync, 0, 0, sync_names, "KIND",
         "how the ranks meet: allreduce, a sum of one value, or barrier (allreduce)", NULL},
        {"iterations-per-us", OPTION_NUMBER, &bsp.iterations_per_us, 0.001, 1e6, NULL, "I",
         "instead of calibrating", NULL},
        {"series", OPTION_TEXT, &series, 0, 0, NULL, "FILE", "writes rank,step,compute_ns,sync_ns of each step", NULL},
    };
    char name[16];
    snprintf(name, sizeof name, "bsp%s", group_suffix);
    const struct program program = {
        .name = name,
        .summary = "Ranks do the same fixed work and meet, step after step. Prints the quiet time of the work (the\n"
                   "shortest of all), the mean time of a step, and their quotient S, which noise raises above 1.",
        .example = "bsp --cpus 0-3 --threads 4 --work-us 1000 --steps 10000 --series series.csv --truth -\n"
                   "mpiexec -n 4 bsp-mpi --cpus 0-3 --work-us 1000",
        .checked = "All work has the right result, and all sums over the ranks are right.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    bsp.program = &program;
    bsp.truth = &truth;
    bsp.series = series_open("series", series);
    if (!bsp.has_warm_up)
        bsp.warm_up = default_warm_up(bsp.work_ns);
    group_run(&group, rank_body, &bsp);
    return program_end();
}
