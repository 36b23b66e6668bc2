// SPDX-License-Identifier: Apache-2.0 OR MIT
// The answer of a known-answer program: for each thread and cause, how long it was blocked (or spun).
//
// Blocked time = wall time − CPU time − run delay. The thread reads all three itself, so the answer does
// not depend on any tracer. A thread that only makes one kind of blocking call is measured once around all
// calls. A thread that blocks for several causes, or works in between, is measured call by call.
#ifndef COX_WORKLOADS_KNOWN_ACCOUNT_H
#define COX_WORKLOADS_KNOWN_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "clocks.h"
#include "truth.h"

struct account {
    pid_t tid;
    char comm[16];
    const char *cause;     // NULL: the time is spin time, not blocked time
    uint64_t ns;
    uint64_t calls;        // 0: the account is empty and is not shown
    // Run delay in the same spans. The time from the waker's call until the thread is on a run queue
    // counts as blocked here, but as wake delay in a tracer. The sum `ns + run_delay_ns` includes it
    // in any case.
    uint64_t run_delay_ns;
    uint64_t wakeups;      // voluntary context switches
};

// Stores the caller's thread ID and name. Call it in the thread of the account.
void account_open(struct account *account, const char *cause);

// Adds the blocked time between begin and end, in which the thread made `calls` blocking calls.
void account_add(struct account *account, struct thread_instant begin, struct thread_instant end,
                 uint64_t calls);

// Prints one line per account, and writes the truth.
void accounts_report(struct truth *truth, const char *program, const struct account *accounts,
                     size_t count);

// Exit 1 unless the thread left the CPU at least once: otherwise there is no known answer.
void check_blocked(const struct account *account);

#endif
