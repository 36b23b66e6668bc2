// SPDX-License-Identifier: Apache-2.0 OR MIT
// Many instances of an OpenMP loop whose iterations are equal, in threads that may not be. See --help.
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

struct bench {
    uint64_t iterations;
    uint64_t steps;           // of an iteration, in the first half of the team
    uint64_t slow_steps;      // in the other half
    struct work_answer answer, slow_answer;
    uint64_t wrong_results;
    uint64_t done;
};

static void one_loop(struct bench *bench, uint64_t instance)
{
    uint64_t wrong = 0, done = 0;
#pragma omp parallel reduction(+ : wrong, done)
    {
        bool slow = 2 * omp_get_thread_num() >= omp_get_num_threads();
        uint64_t steps = slow ? bench->slow_steps : bench->steps;
        struct work_answer answer = slow ? bench->slow_answer : bench->answer;
        struct working_set none = {0};
#pragma omp for schedule(runtime)
        for (uint64_t i = 0; i < bench->iterations; i++) {
            uint64_t seed = work_seed(i, instance);
            wrong += calibrated_work(seed, steps, &none) != work_answer(answer, seed);
            done++;
        }
    }
    bench->wrong_results += wrong;
    bench->done += done;
}

int main(int argc, char **argv)
{
    struct bench bench = {.iterations = 1000};
    uint64_t threads = 0, work_ns = 20 * NS_PER_US, duration_ns = NS_PER_SECOND;
    double slow = 1, steps_per_us = 0;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"iterations", OPTION_COUNT, &bench.iterations, 1, 1e9, NULL, "I", "iterations of the loop (1000)", NULL},
        {"work-us", OPTION_MICROS, &work_ns, 0.01, 1e6, NULL, "W", "CPU work of an iteration, us (20)", NULL},
        {"slow", OPTION_NUMBER, &slow, 1, 1000, NULL, "F",
         "an iteration takes F times as long in the second half of the team (1)", NULL},
        {"seconds", OPTION_SECONDS, &duration_ns, 0.001, 86400, NULL, "S", "run for S seconds (1)", NULL},
        {"iterations-per-us", OPTION_NUMBER, &steps_per_us, 0.001, 1e6, NULL, "K",
         "skip the calibration: K loop iterations are 1 us", NULL},
    };
    const struct program program = {
        .name = "weights",
        .summary = "An OpenMP loop with schedule(runtime) and equal iterations, executed again and again.\n"
                   "With --slow, half of the threads are slower, as on a processor with cores of two kinds.",
        .example = "OMP_SCHEDULE=static weights --threads 2 --slow 2 --seconds 3",
        .checked = "Each iteration was executed once, with the right result.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    threads = team_prepare(threads);
    struct working_set none = {0};
    if (steps_per_us == 0)
        steps_per_us = work_calibrate(&none);
    bench.steps = work_iterations(work_ns, steps_per_us);
    bench.slow_steps = (uint64_t)((double)bench.steps * slow);
    bench.answer = work_answer_for(bench.steps);
    bench.slow_answer = work_answer_for(bench.slow_steps);

    struct team team;
    team_begin(&team, truth_wanted(&truth));
    uint64_t instances = 0, begin_ns = monotonic_ns(), elapsed_ns = 0;
    do {
        one_loop(&bench, instances++);
        elapsed_ns = monotonic_ns() - begin_ns;
    } while (elapsed_ns < duration_ns);
    team_end(&team);
    if (bench.wrong_results != 0)
        check_failed("%" PRIu64 " wrong results", bench.wrong_results);
    if (bench.done != instances * bench.iterations)
        check_failed("%" PRIu64 " of %" PRIu64 " iterations were executed", bench.done,
                     instances * bench.iterations);
    double each_ns = (double)elapsed_ns / (double)instances;
    // All threads at full speed, in balance.
    double half = (double)(threads / 2), speed = (double)threads - half + half / slow;
    double ideal_ns = (double)bench.iterations * (double)bench.steps / steps_per_us * NS_PER_US / speed;

    printf("weights: %" PRIu64 " threads, %" PRIu64 " loops, %.3f ms each\n", threads, instances, each_ns / 1e6);
    truth_begin(&truth, "weights");
    truth_u64(&truth, "loops", instances);
    truth_u64(&truth, "elapsed_ns", elapsed_ns);
    truth_double(&truth, "ns_each", each_ns);
    truth_double(&truth, "ideal_ns", ideal_ns);
    team_truth(&truth, &team);
    truth_end(&truth);
    team_destroy(&team);
    return program_end();
}
