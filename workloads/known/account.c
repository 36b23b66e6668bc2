// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "account.h"

#include <inttypes.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fail.h"

void account_open(struct account *account, const char *cause)
{
    *account = (struct account){.tid = gettid(), .cause = cause};
    if (prctl(PR_GET_NAME, account->comm) != 0)
        system_failed("read the thread's name");
}

void account_add(struct account *account, struct thread_instant begin, struct thread_instant end,
                 uint64_t calls)
{
    struct thread_span span = span_between(begin, end);
    account->ns += span_blocked_ns(span);
    account->calls += calls;
    account->run_delay_ns += span.run_delay_ns;
    account->wakeups += span.voluntary_switches;
}

static const char *state_of(const struct account *account)
{
    return account->cause != NULL ? "blocked" : "spin";
}

static void print_line(const char *program, const struct account *account)
{
    printf("%s: %s (%d) %s%s%s %.6f s in %" PRIu64 " calls\n", program, account->comm,
           (int)account->tid, state_of(account), account->cause != NULL ? " on " : "",
           account->cause != NULL ? account->cause : "", (double)account->ns / NS_PER_SECOND,
           account->calls);
}

static void write_account(struct truth *truth, const struct account *account)
{
    truth_object_begin(truth);
    truth_u64(truth, "tid", (uint64_t)account->tid);
    truth_string(truth, "comm", account->comm);
    truth_string(truth, "state", state_of(account));
    truth_string(truth, "cause", account->cause);
    truth_u64(truth, "ns", account->ns);
    truth_u64(truth, "calls", account->calls);
    truth_u64(truth, "run_delay_ns", account->run_delay_ns);
    truth_u64(truth, "wakeups", account->wakeups);
    truth_object_end(truth);
}

void accounts_report(struct truth *truth, const char *program, const struct account *accounts,
                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (accounts[i].calls != 0)
            print_line(program, &accounts[i]);
    truth_begin(truth, program);
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < count; i++)
        if (accounts[i].calls != 0)
            write_account(truth, &accounts[i]);
    truth_array_end(truth);
    truth_end(truth);
}

void check_blocked(const struct account *account)
{
    if (account->wakeups == 0)
        check_failed("thread %d never blocked", (int)account->tid);
}
