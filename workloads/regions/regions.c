// SPDX-License-Identifier: Apache-2.0 OR MIT
// Short OpenMP parallel regions, one after the other; a marked part of them is timed. See --help.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "team.h"
#include "truth.h"
#include "work.h"

struct share {
    // Each thread writes its own share in every region: no false sharing.
    _Alignas(64) uint64_t regions_done;
    uint64_t wrong_results;
    uint64_t sum_of_results;
};

struct crowd {
    struct share *shares;
    size_t threads;
    uint64_t iterations;    // per thread and region
    struct work_answer answer;
};

static volatile sig_atomic_t asked_to_begin;

static void begin_now(int signal)
{
    (void)signal;
    asked_to_begin = 1;
}

static void one_region(const struct crowd *crowd, uint64_t number)
{
#pragma omp parallel for schedule(static, 1)
    for (size_t i = 0; i < crowd->threads; i++) {
        struct working_set none = {0};
        uint64_t seed = work_seed(i, number);
        uint64_t value = calibrated_work(seed, crowd->iterations, &none);
        crowd->shares[i].wrong_results += value != work_answer(crowd->answer, seed);
        crowd->shares[i].sum_of_results += value;
        crowd->shares[i].regions_done++;
    }
}

// Runs untimed regions until SIGUSR1 arrives. By then, a packer may have changed the threads' CPUs.
static uint64_t work_until_asked(const struct crowd *crowd)
{
    struct sigaction action = {.sa_handler = begin_now, .sa_flags = SA_RESTART};
    if (sigaction(SIGUSR1, &action, NULL) != 0)
        system_failed("wait for SIGUSR1");
    printf("regions: process %d waits for SIGUSR1\n", (int)getpid());
    fflush(stdout);
    uint64_t done = 0;
    while (!asked_to_begin)
        one_region(crowd, done++);
    return done;
}

static uint64_t check_shares(const struct crowd *crowd, uint64_t regions)
{
    uint64_t checksum = 0;
    for (size_t i = 0; i < crowd->threads; i++) {
        const struct share *share = &crowd->shares[i];
        if (share->regions_done != regions)
            check_failed("thread %zu did its share in %" PRIu64 " of %" PRIu64 " regions", i,
                         share->regions_done, regions);
        if (share->wrong_results != 0)
            check_failed("thread %zu computed %" PRIu64 " wrong results", i,
                         share->wrong_results);
        checksum += share->sum_of_results;
    }
    return checksum;
}

int main(int argc, char **argv)
{
    uint64_t threads = 0, regions = 1000, work_ns = 200 * NS_PER_US;
    double iterations_per_us = 0;
    bool on_signal = false;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"region-us", OPTION_MICROS, &work_ns, 0.1, 1e7, NULL, "W",
         "CPU work of each thread in a region, us (200)", NULL},
        {"regions", OPTION_COUNT, &regions, 1, 1e12, NULL, "R", "regions that are timed (1000)",
         NULL},
        {"on-signal", OPTION_FLAG, &on_signal, 0, 0, NULL, NULL,
         "run regions that are not timed until SIGUSR1 arrives", NULL},
        {"iterations-per-us", OPTION_NUMBER, &iterations_per_us, 0.001, 1e6, NULL, "K",
         "skip the calibration: K loop iterations are 1 us", NULL},
    };
    const struct program program = {
        .name = "regions",
        .summary = "OpenMP parallel regions with equal work for each thread, one after the other.\n"
                   "With --on-signal the threads work from the start, and the timed regions begin when\n"
                   "SIGUSR1 arrives: for example, after another program has changed their CPUs.",
        .example = "regions --threads 2 --region-us 200 --regions 5000\n"
                   "regions --on-signal & sleep 1; taskset -a -p -c 0 $!; kill -USR1 $!; wait",
        .checked = "Each thread did its share in every region, with the right result.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    struct crowd crowd = {.threads = team_prepare(threads)};
    if (iterations_per_us == 0) {
        struct working_set none = {0};
        iterations_per_us = work_calibrate(&none);
    }
    crowd.iterations = work_iterations(work_ns, iterations_per_us);
    crowd.answer = work_answer_for(crowd.iterations);
    crowd.shares = aligned_alloc(_Alignof(struct share), crowd.threads * sizeof *crowd.shares);
    if (crowd.shares == NULL)
        system_failed("allocate %zu shares", crowd.threads);
    for (size_t i = 0; i < crowd.threads; i++)
        crowd.shares[i] = (struct share){0};

    uint64_t before = on_signal ? work_until_asked(&crowd) : 0;
    struct team team;
    team_begin(&team, truth_wanted(&truth));
    uint64_t begin_ns = monotonic_ns();
    for (uint64_t number = before; number < before + regions; number++)
        one_region(&crowd, number);
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    team_end(&team);
    uint64_t checksum = check_shares(&crowd, before + regions);

    printf("regions: %zu threads, %" PRIu64 " regions in %.4f s, %.1f us each, %" PRIu64
           " before\n%.1f iterations/us, checksum 0x%016" PRIx64 "\n",
           crowd.threads, regions, (double)elapsed_ns / NS_PER_SECOND,
           (double)elapsed_ns / (double)regions / NS_PER_US, before, iterations_per_us, checksum);
    truth_begin(&truth, "regions");
    truth_u64(&truth, "regions", regions);
    truth_u64(&truth, "regions_before", before);
    truth_u64(&truth, "elapsed_ns", elapsed_ns);
    truth_double(&truth, "iterations_per_us", iterations_per_us);
    truth_hex(&truth, "checksum", checksum);
    team_truth(&truth, &team);
    truth_end(&truth);
    free(crowd.shares);
    team_destroy(&team);
    return program_end();
}
