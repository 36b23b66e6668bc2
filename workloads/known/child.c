// SPDX-License-Identifier: Apache-2.0 OR MIT
// A process that blocks in waitpid while its child sleeps.
#include <unistd.h>

#include "account.h"
#include "fail.h"
#include "pair.h"
#include "task.h"

static void sleep_and_exit(struct account *account, uint64_t duration_ns)
{
    struct thread_meter meter;
    name_thread("child");
    account_open(account, "sleep");
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    sleep_for_ns(duration_ns);
    account_add(account, begin, thread_meter_read(&meter), 1);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct rounds rounds = {.total_ns = 600 * NS_PER_MS, .each_ns = 30 * NS_PER_MS};
    const struct option_spec options[] = {
        {"seconds", OPTION_SECONDS, &rounds.total_ns, 0.001, 86400, NULL, "S",
         "requested total time (0.6)", NULL},
        {"each-ms", OPTION_MILLIS, &rounds.each_ns, 0.01, 1e6, NULL, "MS",
         "time each child sleeps, ms (30)", NULL},
    };
    const struct program program = {
        .name = "known-child",
        .summary = "The main thread forks one child after the other and waits for each in waitpid,\n"
                   "cause child_wait; each 'child' sleeps, cause sleep.",
        .example = "known-child --seconds 1 --each-ms 100 --truth -",
        .checked = "Every child did its sleep and exited with 0; the parent really left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    uint64_t count = round_count(&rounds);
    // The parent's account, followed by one per child, which the child itself fills in.
    struct account *accounts = shared_memory((count + 1) * sizeof *accounts);
    struct thread_meter meter;
    thread_meter_open(&meter);
    account_open(&accounts[0], "child_wait");
    struct thread_instant phase_begin = thread_meter_read(&meter);
    for (uint64_t i = 1; i <= count; i++) {
        pid_t child = start_process();
        if (child == 0)
            sleep_and_exit(&accounts[i], rounds.each_ns);
        reap_process(child, 0);
        if (accounts[i].tid != child || accounts[i].calls != 1)
            check_failed("child %d did not report its sleep", (int)child);
    }
    account_add(&accounts[0], phase_begin, thread_meter_read(&meter), count);
    check_blocked(&accounts[0]);
    thread_meter_close(&meter);
    accounts_report(&truth, program.name, accounts, count + 1);
    return program_end();
}
