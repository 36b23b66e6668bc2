// SPDX-License-Identifier: Apache-2.0 OR MIT
// N threads work and wait for each other at a barrier, round after round. See --help.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "barrier.h"
#include "clocks.h"
#include "cpus.h"
#include "fail.h"
#include "options.h"
#include "task.h"
#include "truth.h"
#include "work.h"

// Result that a thread leaves before it arrives; the last thread to arrive reads it.
struct round_result {
    uint64_t rounds_done;
    uint64_t value;
};

struct worker {
    _Alignas(64) struct round_result result;
    _Alignas(64) struct run *run;
    size_t index;
    uint64_t iterations;           // per round
    struct work_answer answer;
    struct working_set set;
    pid_t tid;
    uint64_t wait_cpu_ns;
    struct thread_span span;
};

struct run {
    struct barrier barrier;
    size_t threads;
    uint64_t rounds;               // 0: run until `deadline_ns`
    uint64_t deadline_ns;
    bool measure;                  // read clocks around every wait
    // Written by the last thread to arrive before it releases the barrier, read by all threads after it.
    bool finished;
    uint64_t rounds_done;
    uint64_t checksum;
    struct worker *workers;
};

static const char *const wait_names[] = {"futex", "spin", "yield", "spin-futex", NULL};

// Runs in the last thread to arrive: all others have arrived, and none can have left.
static void complete_round(struct run *run)
{
    uint64_t round = run->rounds_done++;
    for (size_t i = 0; i < run->threads; i++) {
        const struct worker *worker = &run->workers[i];
        if (worker->result.rounds_done != run->rounds_done)
            check_failed("thread %zu arrived with round %" PRIu64 " while round %" PRIu64
                         " was at the barrier",
                         i, worker->result.rounds_done, run->rounds_done);
        if (worker->result.value != work_answer(worker->answer, work_seed(i, round)))
            check_failed("thread %zu has a wrong result in round %" PRIu64, i, round + 1);
        run->checksum += worker->result.value;
    }
    run->finished = run->rounds != 0 ? run->rounds_done == run->rounds
                                     : monotonic_ns() >= run->deadline_ns;
}

static void work_and_meet(struct worker *me)
{
    struct run *run = me->run;
    for (uint64_t round = 0;; round++) {
        me->result.value = calibrated_work(work_seed(me->index, round), me->iterations, &me->set);
        me->result.rounds_done = round + 1;
        uint32_t generation;
        if (barrier_arrive(&run->barrier, &generation)) {
            complete_round(run);
            barrier_release(&run->barrier);
        } else {
            uint64_t begin_ns = run->measure ? thread_cpu_ns() : 0;
            barrier_wait(&run->barrier, generation);
            if (run->measure)
                me->wait_cpu_ns += thread_cpu_ns() - begin_ns;
        }
        // `finished` does not change until this thread arrives again.
        if (run->finished)
            return;
    }
}

static void *worker_main(void *argument)
{
    struct worker *me = argument;
    if (!me->run->measure) {
        work_and_meet(me);
        return NULL;
    }
    me->tid = gettid();
    struct thread_meter meter;
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    work_and_meet(me);
    me->span = span_between(begin, thread_meter_read(&meter));
    thread_meter_close(&meter);
    return NULL;
}

// The calling thread is thread 0, as in an OpenMP team.
static void run_all(struct run *run)
{
    pthread_t *others = calloc(run->threads, sizeof *others);
    if (others == NULL)
        system_failed("allocate %zu threads", run->threads);
    for (size_t i = 1; i < run->threads; i++)
        others[i] = start_thread(worker_main, &run->workers[i], 0);
    worker_main(&run->workers[0]);
    for (size_t i = 1; i < run->threads; i++)
        join_thread(others[i]);
    free(others);
}

static void check_all(const struct run *run)
{
    for (size_t i = 0; i < run->threads; i++) {
        const struct worker *worker = &run->workers[i];
        if (worker->result.rounds_done != run->rounds_done)
            check_failed("thread %zu did %" PRIu64 " of %" PRIu64 " rounds", i,
                         worker->result.rounds_done, run->rounds_done);
        if (worker->set.cells != NULL &&
            working_set_touches(&worker->set) != worker->iterations * run->rounds_done)
            check_failed("thread %zu did not touch its working set in every iteration", i);
    }
}

// A lower bound: no schedule can be faster than the busiest thread, nor than all the work on the allowed
// CPUs.
static uint64_t ideal_ns(const struct run *run, double iterations_per_us, size_t cpus)
{
    uint64_t longest = 0, sum = 0;
    for (size_t i = 0; i < run->threads; i++) {
        uint64_t iterations = run->workers[i].iterations;
        sum += iterations;
        longest = iterations > longest ? iterations : longest;
    }
    double round_iterations = fmax((double)longest, (double)sum / (double)cpus);
    return (uint64_t)((double)run->rounds_done * round_iterations / iterations_per_us * NS_PER_US);
}

static void write_truth(struct truth *truth, const struct run *run, uint64_t elapsed_ns,
                        uint64_t bound_ns, double iterations_per_us)
{
    truth_begin(truth, "barriers");
    truth_string(truth, "wait", wait_names[run->barrier.mode]);
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < run->threads; i++) {
        const struct worker *worker = &run->workers[i];
        truth_object_begin(truth);
        truth_thread_span(truth, worker->tid, worker->span);
        truth_u64(truth, "wait_cpu_ns", worker->wait_cpu_ns);
        truth_object_end(truth);
    }
    truth_array_end(truth);
    truth_u64(truth, "elapsed_ns", elapsed_ns);
    truth_u64(truth, "ideal_ns", bound_ns);
    truth_u64(truth, "rounds", run->rounds_done);
    truth_double(truth, "iterations_per_us", iterations_per_us);
    truth_hex(truth, "checksum", run->checksum);
    truth_end(truth);
}

int main(int argc, char **argv)
{
    uint64_t threads = 2, rounds = 0, seconds_ns = NS_PER_SECOND, work_ns = 100 * NS_PER_US;
    uint64_t spin_ns = 50 * NS_PER_US, set_bytes = 0;
    unsigned wait_mode = WAIT_FUTEX;
    double imbalance = 0, iterations_per_us = 0;
    bool no_pause = false, rounds_given = false, seconds_given = false;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads, the main thread among them (2)", NULL},
        {"rounds", OPTION_COUNT, &rounds, 1, 1e12, NULL, "R", "number of rounds", &rounds_given},
        {"seconds", OPTION_SECONDS, &seconds_ns, 0.001, 86400, NULL, "S",
         "instead of --rounds: run for S seconds (1)", &seconds_given},
        {"work-us", OPTION_MICROS, &work_ns, 0, 1e7, NULL, "W",
         "CPU work of each thread per round, us (100)", NULL},
        {"wait", OPTION_CHOICE, &wait_mode, 0, 0, wait_names, "HOW",
         "futex, spin, yield or spin-futex (futex)", NULL},
        {"spin-us", OPTION_MICROS, &spin_ns, 0, 1e7, NULL, "U",
         "spin-futex: CPU time for which a thread spins before it sleeps, us (50)", NULL},
        {"no-pause", OPTION_FLAG, &no_pause, 0, 0, NULL, NULL,
         "spin without the pause instruction", NULL},
        {"working-set", OPTION_BYTES, &set_bytes, 0, 68719476736.0, NULL, "BYTES",
         "memory that the work of each thread walks through (0)", NULL},
        {"imbalance", OPTION_NUMBER, &imbalance, 0, 1000, NULL, "F",
         "thread i of N, from 0, does (1 + F*i/(N-1)) times the work (0)", NULL},
        {"iterations-per-us", OPTION_NUMBER, &iterations_per_us, 0.001, 1e6, NULL, "K",
         "skip the calibration: K loop iterations are 1 us", NULL},
    };
    const struct program program = {
        .name = "barriers",
        .summary = "N threads do calibrated CPU work and meet at a barrier, round after round.\n"
                   "Work is a number of loop iterations, so a preempted thread does no less work.\n"
                   "Clocks are read around each wait only with --truth.",
        .example = "barriers --threads 3 --rounds 2000 --work-us 100 --wait spin --truth -",
        .checked = "Every thread's result in every round, recomputed in closed form; every thread\n"
                   "did every round; none was a round ahead of the others; every iteration touched\n"
                   "the working set.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (rounds_given && seconds_given)
        bad_input("give --rounds or --seconds, not both");

    struct run run = {.threads = threads, .rounds = rounds, .measure = truth_wanted(&truth)};
    run.workers = aligned_alloc(_Alignof(struct worker), threads * sizeof *run.workers);
    if (run.workers == NULL)
        system_failed("allocate %" PRIu64 " threads", threads);
    for (size_t i = 0; i < threads; i++) {
        run.workers[i] = (struct worker){.run = &run, .index = i};
        working_set_create(&run.workers[i].set, set_bytes);
    }
    if (iterations_per_us == 0) {
        struct working_set sample;
        working_set_create(&sample, set_bytes);
        iterations_per_us = work_calibrate(&sample);
        working_set_destroy(&sample);
    }
    for (size_t i = 0; i < threads; i++) {
        double share = threads > 1 ? (double)i / (double)(threads - 1) : 0;
        run.workers[i].iterations =
            (uint64_t)((double)work_iterations(work_ns, iterations_per_us) *
                       (1 + imbalance * share));
        run.workers[i].answer = work_answer_for(run.workers[i].iterations);
    }
    run.barrier.threads = (uint32_t)threads;
    run.barrier.mode = (enum barrier_wait_mode)wait_mode;
    run.barrier.pause = !no_pause;
    if (wait_mode == WAIT_SPIN_FUTEX)
        run.barrier.spin_limit =
            (uint64_t)((double)spin_ns / NS_PER_US * barrier_loads_per_us(!no_pause));

    // Read the affinity mask now: a packer may narrow it while the program runs.
    static struct cpu_list allowed;
    cpu_list_allowed(&allowed);
    uint64_t begin_ns = monotonic_ns();
    run.deadline_ns = begin_ns + seconds_ns;
    run_all(&run);
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    check_all(&run);

    uint64_t bound_ns = ideal_ns(&run, iterations_per_us, allowed.count);
    printf("barriers: %" PRIu64 " threads, %" PRIu64 " rounds, %s: %.4f s, ideal %.4f s\n",
           threads, run.rounds_done, wait_names[wait_mode], (double)elapsed_ns / NS_PER_SECOND,
           (double)bound_ns / NS_PER_SECOND);
    printf("%.1f iterations/us, checksum 0x%016" PRIx64 "\n", iterations_per_us, run.checksum);
    write_truth(&truth, &run, elapsed_ns, bound_ns, iterations_per_us);
    for (size_t i = 0; i < threads; i++)
        working_set_destroy(&run.workers[i].set);
    free(run.workers);
    return program_end();
}
