// SPDX-License-Identifier: Apache-2.0 OR MIT
// A lock convoy: threads that queue for one mutex.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "account.h"
#include "fail.h"
#include "options.h"
#include "task.h"
#include "work.h"

struct convoy {
    pthread_mutex_t mutex;
    pthread_barrier_t start;
    uint64_t rounds;
    uint64_t hold_iterations, gap_iterations;
    // Protected by the mutex.
    bool held;
    uint64_t acquisitions;
};

struct member {
    struct convoy *convoy;
    size_t index;
    struct account account;
};

static void do_work(uint64_t seed, uint64_t iterations)
{
    struct working_set none = {0};
    if (calibrated_work(seed, iterations, &none) != work_answer(work_answer_for(iterations), seed))
        check_failed("work has a wrong result");
}

static void *member_main(void *argument)
{
    struct member *me = argument;
    struct convoy *convoy = me->convoy;
    struct thread_meter meter;
    char name[16];
    snprintf(name, sizeof name, "convoy-%zu", me->index);
    name_thread(name);
    account_open(&me->account, "futex");
    thread_meter_open(&meter);
    // The wait for the other threads to start is part of the answer, too.
    struct thread_instant begin = thread_meter_read(&meter);
    pthread_barrier_wait(&convoy->start);
    account_add(&me->account, begin, thread_meter_read(&meter), 1);
    for (uint64_t round = 0; round < convoy->rounds; round++) {
        begin = thread_meter_read(&meter);
        pthread_mutex_lock(&convoy->mutex);
        account_add(&me->account, begin, thread_meter_read(&meter), 1);
        if (convoy->held)
            check_failed("two threads hold the mutex");
        convoy->held = true;
        do_work(work_seed(me->index, round), convoy->hold_iterations);
        convoy->acquisitions++;
        convoy->held = false;
        pthread_mutex_unlock(&convoy->mutex);
        do_work(work_seed(round, me->index), convoy->gap_iterations);
    }
    thread_meter_close(&meter);
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t threads = 3, hold_ns = 2 * NS_PER_MS, gap_ns = 200 * NS_PER_US;
    double iterations_per_us = 0;
    struct convoy convoy = {.mutex = PTHREAD_MUTEX_INITIALIZER, .rounds = 100};
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 2, 4096, NULL, "N", "threads in the convoy (3)", NULL},
        {"rounds", OPTION_COUNT, &convoy.rounds, 1, 1e9, NULL, "R",
         "times each thread takes the mutex (100)", NULL},
        {"hold-us", OPTION_MICROS, &hold_ns, 0, 1e7, NULL, "U",
         "CPU work while holding it, us (2000)", NULL},
        {"gap-us", OPTION_MICROS, &gap_ns, 0, 1e7, NULL, "U",
         "CPU work between release and next attempt, us (200)", NULL},
        {"iterations-per-us", OPTION_NUMBER, &iterations_per_us, 0.001, 1e6, NULL, "K",
         "skip the calibration: K loop iterations are 1 us", NULL},
    };
    const struct program program = {
        .name = "known-mutex",
        .summary = "Threads 'convoy-0', 'convoy-1', ... take one pthread mutex in turn, work while\n"
                   "holding it and queue again: blocked, cause futex. Measured around each lock.\n"
                   "Main joins, cause futex.",
        .example = "known-mutex --threads 4 --hold-us 1000 --rounds 200 --truth -",
        .checked = "Two threads never held the mutex; every thread got it every time; all work has\n"
                   "the right result; the threads did have to wait.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    struct working_set none = {0};
    if (iterations_per_us == 0)
        iterations_per_us = work_calibrate(&none);
    convoy.hold_iterations = work_iterations(hold_ns, iterations_per_us);
    convoy.gap_iterations = work_iterations(gap_ns, iterations_per_us);
    if (pthread_barrier_init(&convoy.start, NULL, (unsigned)threads) != 0)
        system_failed("make the start barrier");
    struct member *members = calloc(threads, sizeof *members);
    pthread_t *handles = calloc(threads, sizeof *handles);
    struct account *accounts = calloc(threads + 1, sizeof *accounts);
    if (members == NULL || handles == NULL || accounts == NULL)
        system_failed("allocate %" PRIu64 " threads", threads);

    struct thread_meter meter;
    thread_meter_open(&meter);
    account_open(&accounts[threads], "futex");
    for (size_t i = 0; i < threads; i++) {
        members[i] = (struct member){.convoy = &convoy, .index = i};
        handles[i] = start_thread(member_main, &members[i], 0);
    }
    struct thread_instant begin = thread_meter_read(&meter);
    for (size_t i = 0; i < threads; i++)
        join_thread(handles[i]);
    account_add(&accounts[threads], begin, thread_meter_read(&meter), threads);
    thread_meter_close(&meter);

    uint64_t wakeups = 0;
    for (size_t i = 0; i < threads; i++) {
        accounts[i] = members[i].account;
        wakeups += accounts[i].wakeups;
    }
    if (convoy.acquisitions != threads * convoy.rounds)
        check_failed("the mutex was taken %" PRIu64 " times instead of %" PRIu64,
                     convoy.acquisitions, threads * convoy.rounds);
    if (wakeups == 0)
        check_failed("no thread ever waited for the mutex");
    accounts_report(&truth, program.name, accounts, threads + 1);
    free(members);
    free(handles);
    free(accounts);
    return program_end();
}
