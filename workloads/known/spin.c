// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that spins on a flag for a known time.
#include <stdatomic.h>
#include <stdbool.h>

#include "account.h"
#include "fail.h"
#include "options.h"
#include "task.h"
#include "work.h"

struct spinner {
    atomic_bool flag;
    struct account account;
    uint64_t seen_ns;    // time when it saw the flag
};

// A separate function, so that samples of the instruction pointer can identify spinning.
__attribute__((noinline)) static void spin_until(const atomic_bool *flag)
{
    while (!atomic_load_explicit(flag, memory_order_acquire))
        cpu_relax();
}

static void *spinner_main(void *argument)
{
    struct spinner *me = argument;
    struct thread_meter meter;
    name_thread("spinner");
    account_open(&me->account, NULL);
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    spin_until(&me->flag);
    struct thread_instant end = thread_meter_read(&meter);
    struct thread_span span = span_between(begin, end);
    me->seen_ns = end.monotonic_ns;
    me->account.ns = span.cpu_ns;
    me->account.calls = 1;
    me->account.run_delay_ns = span.run_delay_ns;
    me->account.wakeups = span.voluntary_switches;
    thread_meter_close(&meter);
    return NULL;
}

int main(int argc, char **argv)
{
    struct spinner spinner = {0};
    uint64_t duration_ns = 600 * NS_PER_MS;
    const struct option_spec options[] = {
        {"seconds", OPTION_SECONDS, &duration_ns, 0.001, 86400, NULL, "S",
         "time until the flag is set (0.6)", NULL},
    };
    const struct program program = {
        .name = "known-spin",
        .summary = "A thread 'spinner' loads a flag in a loop, in the function spin_until, while main\n"
                   "sleeps, cause sleep, and then sets it. The spinner's answer is its CPU time.",
        .example = "known-spin --seconds 1 --truth -",
        .checked = "The spinner used CPU time, and saw the flag no earlier than it was set.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    struct thread_meter meter;
    struct account sleeping;
    thread_meter_open(&meter);
    account_open(&sleeping, "sleep");
    pthread_t thread = start_thread(spinner_main, &spinner, 0);
    struct thread_instant begin = thread_meter_read(&meter);
    sleep_for_ns(duration_ns);
    account_add(&sleeping, begin, thread_meter_read(&meter), 1);
    uint64_t set_ns = monotonic_ns();
    atomic_store_explicit(&spinner.flag, true, memory_order_release);
    join_thread(thread);
    thread_meter_close(&meter);
    if (spinner.account.ns == 0)
        check_failed("the spinner used no CPU time");
    if (spinner.seen_ns < set_ns)
        check_failed("the spinner saw the flag before it was set");
    const struct account accounts[] = {spinner.account, sleeping};
    accounts_report(&truth, program.name, accounts, COUNT_OF(accounts));
    return program_end();
}
