// SPDX-License-Identifier: Apache-2.0 OR MIT
// A process that blocks in vfork until its child exits.
#include <unistd.h>

#include "account.h"
#include "fail.h"
#include "pair.h"
#include "task.h"

// The child of vfork runs in the parent's memory while the parent is suspended in the kernel. The child
// only calls functions that make system calls and that write to their own frames or to `account`, and it
// ends by _exit. This is what Linux and glibc support.
__attribute__((noinline)) static pid_t vfork_sleeper(struct account *account, uint64_t duration_ns)
{
    pid_t child = vfork();
    if (child < 0)
        system_failed("vfork");
    if (child > 0)
        return child;
    struct thread_meter meter;
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
        .name = "known-vfork",
        .summary = "The main thread makes one child after the other by vfork and stays blocked in it\n"
                   "until the child exits, cause child_wait; each child sleeps, cause sleep.",
        .example = "known-vfork --seconds 1 --each-ms 100 --truth -",
        .checked = "Every child did its sleep before vfork returned, and exited with 0; the parent\n"
                   "really left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    uint64_t count = round_count(&rounds);
    struct account *accounts = shared_memory((count + 1) * sizeof *accounts);
    struct thread_meter meter;
    thread_meter_open(&meter);
    account_open(&accounts[0], "child_wait");
    struct thread_instant begin = thread_meter_read(&meter);
    for (uint64_t i = 1; i <= count; i++) {
        pid_t child = vfork_sleeper(&accounts[i], rounds.each_ns);
        if (accounts[i].tid != child || accounts[i].calls != 1)
            check_failed("vfork returned before child %d had slept", (int)child);
        reap_process(child, 0);
    }
    account_add(&accounts[0], begin, thread_meter_read(&meter), count);
    check_blocked(&accounts[0]);
    thread_meter_close(&meter);
    accounts_report(&truth, program.name, accounts, count + 1);
    return program_end();
}
