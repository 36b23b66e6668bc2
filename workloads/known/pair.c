// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "pair.h"

#include <inttypes.h>

#include "account.h"
#include "fail.h"
#include "task.h"

struct pair_run {
    const struct pair *pair;
    const char *waiter_name;
    uint64_t rounds;
    uint64_t each_ns;
    struct account waiter, waker, main;
};

static void *waiter_main(void *argument)
{
    struct pair_run *run = argument;
    struct thread_meter meter;
    name_thread(run->waiter_name);
    account_open(&run->waiter, run->pair->cause);
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    for (uint64_t round = 0; round < run->rounds; round++) {
        unsigned char byte = run->pair->wait_for_byte(run->pair->context);
        if (byte != (unsigned char)round)
            check_failed("round %" PRIu64 " received byte %u", round, byte);
    }
    account_add(&run->waiter, begin, thread_meter_read(&meter), run->rounds);
    check_blocked(&run->waiter);
    thread_meter_close(&meter);
    return NULL;
}

static void *waker_main(void *argument)
{
    struct pair_run *run = argument;
    struct thread_meter meter;
    name_thread("waker");
    account_open(&run->waker, "sleep");
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    for (uint64_t round = 0; round < run->rounds; round++) {
        sleep_for_ns(run->each_ns);
        run->pair->send_byte(run->pair->context, (unsigned char)round);
    }
    account_add(&run->waker, begin, thread_meter_read(&meter), run->rounds);
    thread_meter_close(&meter);
    return NULL;
}

uint64_t round_count(const struct rounds *rounds)
{
    uint64_t count = (rounds->total_ns + rounds->each_ns / 2) / rounds->each_ns;
    return count > 0 ? count : 1;
}

void pair_run(const struct pair *pair, const struct rounds *rounds, const char *program,
              struct truth *truth)
{
    struct pair_run run = {
        .pair = pair,
        .waiter_name = program,
        .rounds = round_count(rounds),
        .each_ns = rounds->each_ns,
    };
    struct thread_meter meter;
    thread_meter_open(&meter);
    account_open(&run.main, "futex");
    pthread_t waiter = start_thread(waiter_main, &run, 0);
    pthread_t waker = start_thread(waker_main, &run, 0);
    struct thread_instant begin = thread_meter_read(&meter);
    join_thread(waiter);
    join_thread(waker);
    account_add(&run.main, begin, thread_meter_read(&meter), 2);
    thread_meter_close(&meter);
    const struct account accounts[] = {run.waiter, run.waker, run.main};
    accounts_report(truth, program, accounts, COUNT_OF(accounts));
}
