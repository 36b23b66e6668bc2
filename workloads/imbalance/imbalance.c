// SPDX-License-Identifier: Apache-2.0 OR MIT
// Static OpenMP loops in which one thread has more work than the others. See --help.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "team.h"
#include "truth.h"
#include "work.h"

struct share {
    // Each thread writes its own share in every loop: no false sharing.
    _Alignas(64) uint64_t iterations;
    struct work_answer answer;
    uint64_t loops_done;
    uint64_t wrong_results;
    uint64_t work_cpu_ns;
};

static void one_loop(struct share *shares, size_t threads, uint64_t round, bool measure)
{
#pragma omp parallel for schedule(static, 1)
    for (size_t i = 0; i < threads; i++) {
        struct working_set none = {0};
        uint64_t begin_ns = measure ? thread_cpu_ns() : 0;
        uint64_t seed = work_seed(i, round);
        uint64_t value = calibrated_work(seed, shares[i].iterations, &none);
        shares[i].wrong_results += value != work_answer(shares[i].answer, seed);
        shares[i].loops_done++;
        if (measure)
            shares[i].work_cpu_ns += thread_cpu_ns() - begin_ns;
    }
}

static void check_shares(const struct share *shares, size_t threads, uint64_t loops)
{
    for (size_t i = 0; i < threads; i++) {
        if (shares[i].loops_done != loops)
            check_failed("thread %zu did its share in %" PRIu64 " of %" PRIu64 " loops", i,
                         shares[i].loops_done, loops);
        if (shares[i].wrong_results != 0)
            check_failed("thread %zu computed %" PRIu64 " wrong results", i,
                         shares[i].wrong_results);
    }
}

static void write_truth(struct truth *truth, const struct team *team, const struct share *shares,
                        uint64_t loops, double factor, double lib_percent, uint64_t elapsed_ns)
{
    truth_begin(truth, "imbalance");
    truth_u64(truth, "loops", loops);
    truth_double(truth, "factor", factor);
    truth_double(truth, "lib_percent", lib_percent);
    truth_u64(truth, "elapsed_ns", elapsed_ns);
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < team->size; i++) {
        truth_object_begin(truth);
        truth_thread_span(truth, team->members[i].tid, team->members[i].span);
        truth_u64(truth, "work_cpu_ns", shares[i].work_cpu_ns);
        truth_object_end(truth);
    }
    truth_array_end(truth);
    truth_end(truth);
}

int main(int argc, char **argv)
{
    uint64_t threads = 0, duration_ns = NS_PER_SECOND, work_ns = 1000 * NS_PER_US, slow = 0;
    uint64_t rounds = 0;
    double factor = 2, iterations_per_us = 0;
    bool slow_given = false, rounds_given = false, seconds_given = false;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 2, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"factor", OPTION_NUMBER, &factor, 1, 10000, NULL, "F",
         "the slow thread does F times the work of the others (2)", NULL},
        {"slow-thread", OPTION_COUNT, &slow, 0, 4095, NULL, "I", "number of the slow thread (the last)",
         &slow_given},
        {"work-us", OPTION_MICROS, &work_ns, 0.1, 1e7, NULL, "W",
         "CPU work of each other thread per loop, us (1000)", NULL},
        {"rounds", OPTION_COUNT, &rounds, 1, 1e12, NULL, "R", "number of loops", &rounds_given},
        {"seconds", OPTION_SECONDS, &duration_ns, 0.001, 86400, NULL, "S",
         "instead of --rounds: run for S seconds (1)", &seconds_given},
        {"iterations-per-us", OPTION_NUMBER, &iterations_per_us, 0.001, 1e6, NULL, "K",
         "skip the calibration: K loop iterations are 1 us", NULL},
    };
    const struct program program = {
        .name = "imbalance",
        .summary = "OpenMP parallel loops, schedule(static,1), one iteration per thread, of which one\n"
                   "has F times the work. How the others wait is left to OMP_WAIT_POLICY.\n"
                   "Clocks are read around each share only with --truth.",
        .example = "OMP_WAIT_POLICY=passive imbalance --threads 2 --factor 3 --truth -",
        .checked = "Each thread did its share in every loop, with the right result.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (rounds_given && seconds_given)
        bad_input("give --rounds or --seconds, not both");
    threads = team_prepare(threads);
    if (threads < 2)
        not_possible_here("one thread cannot be out of balance; give --threads 2 or more");
    if (!slow_given)
        slow = threads - 1;
    if (slow >= threads)
        bad_input("--slow-thread must be below the number of threads, %" PRIu64, threads);
    struct working_set none = {0};
    if (iterations_per_us == 0)
        iterations_per_us = work_calibrate(&none);
    struct share *shares = aligned_alloc(_Alignof(struct share), threads * sizeof *shares);
    if (shares == NULL)
        system_failed("allocate %" PRIu64 " shares", threads);
    for (size_t i = 0; i < threads; i++) {
        double work = (double)work_iterations(work_ns, iterations_per_us);
        uint64_t iterations = (uint64_t)(i == slow ? work * factor : work);
        shares[i] = (struct share){.iterations = iterations,
                                   .answer = work_answer_for(iterations)};
    }

    struct team team;
    team_begin(&team, truth_wanted(&truth));
    uint64_t loops = 0, begin_ns = monotonic_ns(), elapsed_ns = 0;
    do {
        one_loop(shares, threads, loops++, truth_wanted(&truth));
        elapsed_ns = monotonic_ns() - begin_ns;
    } while (rounds_given ? loops < rounds : elapsed_ns < duration_ns);
    team_end(&team);
    check_shares(shares, threads, loops);

    // (1 − mean/max) · P/(P−1), computed from the requested work.
    double mean_share = ((double)(threads - 1) + factor) / (double)threads;
    double lib_percent =
        100 * (1 - mean_share / factor) * (double)threads / (double)(threads - 1);
    printf("imbalance: %" PRIu64 " threads, thread %" PRIu64 " with %g times the work, %" PRIu64
           " loops in %.4f s\nload imbalance %.1f %%\n",
           threads, slow, factor, loops, (double)elapsed_ns / NS_PER_SECOND, lib_percent);
    write_truth(&truth, &team, shares, loops, factor, lib_percent, elapsed_ns);
    free(shares);
    team_destroy(&team);
    return program_end();
}
