// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that sleeps a known time.
#include "account.h"
#include "fail.h"
#include "pair.h"
#include "task.h"

struct sleeper {
    struct rounds rounds;
    struct account account;
};

static void *sleeper_main(void *argument)
{
    struct sleeper *me = argument;
    struct thread_meter meter;
    name_thread("sleeper");
    account_open(&me->account, "sleep");
    thread_meter_open(&meter);
    uint64_t rounds = round_count(&me->rounds);
    struct thread_instant begin = thread_meter_read(&meter);
    for (uint64_t round = 0; round < rounds; round++)
        sleep_for_ns(me->rounds.each_ns);
    struct thread_instant end = thread_meter_read(&meter);
    account_add(&me->account, begin, end, rounds);
    if (span_between(begin, end).wall_ns < rounds * me->rounds.each_ns)
        check_failed("slept for less than the requested time");
    check_blocked(&me->account);
    thread_meter_close(&meter);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sleeper sleeper = {.rounds = ROUNDS_DEFAULT};
    const struct option_spec options[] = {ROUNDS_OPTIONS(sleeper.rounds)};
    const struct program program = {
        .name = "known-sleep",
        .summary = "A thread 'sleeper' sleeps (clock_nanosleep) a known time, cause sleep; the main\n"
                   "thread waits in pthread_join, cause futex.",
        .example = "known-sleep --seconds 1 --each-ms 5 --truth -",
        .checked = "It slept for at least the requested time; it really left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    struct account main_account;
    struct thread_meter meter;
    thread_meter_open(&meter);
    account_open(&main_account, "futex");
    pthread_t thread = start_thread(sleeper_main, &sleeper, 0);
    struct thread_instant begin = thread_meter_read(&meter);
    join_thread(thread);
    account_add(&main_account, begin, thread_meter_read(&meter), 1);
    thread_meter_close(&meter);
    const struct account accounts[] = {sleeper.account, main_account};
    accounts_report(&truth, program.name, accounts, COUNT_OF(accounts));
    return program_end();
}
