// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a known-answer program knows: per thread and cause, how long it was blocked (or spun).
//
// blocked = wall − CPU − run delay, each read by the thread itself, so it depends on no tracer.
// A thread that does nothing but one kind of blocking call is measured once around all of them;
// only a thread that blocks for several reasons, or works in between, is measured call by call.
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
    const char *cause;     // NULL: the time is spin, not blocked
    uint64_t ns;
    uint64_t calls;        // 0: nothing to tell, the account is not shown
    // Of the same spans. Time from a waker's call until the thread is on a run queue counts as
    // blocked here and as wake delay for a tracer: `ns + run_delay_ns` is free of that difference.
    uint64_t run_delay_ns;
    uint64_t wakeups;      // voluntary context switches
};

// Fills in the caller's tid and name; call it in the thread that the account is about.
void account_open(struct account *account, const char *cause);

// Adds the blocked part of begin → end, in which `calls` blocking calls were made.
void account_add(struct account *account, struct thread_instant begin, struct thread_instant end,
                 uint64_t calls);

// Prints one line per account and writes the truth.
void accounts_report(struct truth *truth, const char *program, const struct account *accounts,
                     size_t count);

// Exit 1 unless the thread left the CPU at least once: else there is no known answer to give.
void check_blocked(const struct account *account);

#endif
