// SPDX-License-Identifier: Apache-2.0 OR MIT
// A child that stops itself and is continued by its parent after a known time.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "account.h"
#include "fail.h"
#include "pair.h"
#include "task.h"

// The child fills this in.
struct stopper {
    struct account account;
    uint64_t wall_ns;
};

static void stop_again_and_again(struct stopper *me, uint64_t rounds)
{
    struct thread_meter meter;
    name_thread("stopper");
    account_open(&me->account, "stopped");
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    for (uint64_t round = 0; round < rounds; round++)
        if (raise(SIGSTOP) != 0)
            system_failed("stop");
    struct thread_instant end = thread_meter_read(&meter);
    account_add(&me->account, begin, end, rounds);
    me->wall_ns = span_between(begin, end).wall_ns;
    _exit(0);
}

static void wait_until_stopped(pid_t child)
{
    int status;
    while (waitpid(child, &status, WUNTRACED) < 0)
        if (errno != EINTR)
            system_failed("wait for the child to stop");
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
        check_failed("the child did not stop: wait status 0x%x", (unsigned)status);
}

int main(int argc, char **argv)
{
    struct rounds rounds = {.total_ns = 600 * NS_PER_MS, .each_ns = 30 * NS_PER_MS};
    const struct option_spec options[] = {
        {"seconds", OPTION_SECONDS, &rounds.total_ns, 0.001, 86400, NULL, "S",
         "requested total time (0.6)", NULL},
        {"each-ms", OPTION_MILLIS, &rounds.each_ns, 0.01, 1e6, NULL, "MS",
         "time the child stays stopped per round, ms (30)", NULL},
    };
    const struct program program = {
        .name = "known-stopped",
        .summary = "A child 'stopper' stops itself with SIGSTOP, cause stopped; the main thread waits\n"
                   "for that, cause child_wait, sleeps, cause sleep, and continues the child.",
        .example = "known-stopped --seconds 1 --each-ms 100 --truth -",
        .checked = "The child stopped as often as asked, each time at least as long as the parent\n"
                   "slept, and exited with 0.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    uint64_t count = round_count(&rounds);
    struct stopper *stopper = shared_memory(sizeof *stopper);
    struct account waiting, sleeping;
    struct thread_meter meter;
    thread_meter_open(&meter);
    account_open(&waiting, "child_wait");
    account_open(&sleeping, "sleep");
    pid_t child = start_process();
    if (child == 0)
        stop_again_and_again(stopper, count);
    uint64_t held_ns = 0;
    for (uint64_t round = 0; round < count; round++) {
        struct thread_instant begin = thread_meter_read(&meter);
        wait_until_stopped(child);
        struct thread_instant seen = thread_meter_read(&meter);
        sleep_for_ns(rounds.each_ns);
        struct thread_instant slept = thread_meter_read(&meter);
        held_ns += slept.monotonic_ns - seen.monotonic_ns;
        if (kill(child, SIGCONT) != 0)
            system_failed("continue the child");
        account_add(&waiting, begin, seen, 1);
        account_add(&sleeping, seen, slept, 1);
    }
    struct thread_instant begin = thread_meter_read(&meter);
    reap_process(child, 0);
    account_add(&waiting, begin, thread_meter_read(&meter), 1);
    thread_meter_close(&meter);
    if (stopper->account.tid != child || stopper->account.calls != count)
        check_failed("the child did not report %" PRIu64 " stops", count);
    // Compare wall times: when the parent sees the child stopped, the child may still be waiting for a CPU.
    if (stopper->wall_ns < held_ns)
        check_failed("the child took %" PRIu64 " ns, but was seen stopped for %" PRIu64 " ns",
                     stopper->wall_ns, held_ns);
    const struct account accounts[] = {stopper->account, waiting, sleeping};
    accounts_report(&truth, program.name, accounts, COUNT_OF(accounts));
    return program_end();
}
