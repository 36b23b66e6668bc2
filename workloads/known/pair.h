// SPDX-License-Identifier: Apache-2.0 OR MIT
// A waiter that blocks, and a waker that sleeps for a known time and then wakes the waiter, round by round.
// The answers are the waiter's blocked time, the waker's sleep and the main thread's join.
#ifndef COX_WORKLOADS_KNOWN_PAIR_H
#define COX_WORKLOADS_KNOWN_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"

struct pair {
    const char *cause;      // cause of the waiter's blocking
    void *context;          // argument of both functions
    // Blocks until the round's message arrives, and returns its byte.
    unsigned char (*wait_for_byte)(void *context);
    // Sends a byte; must not block.
    void (*send_byte)(void *context, unsigned char byte);
};

// The two options of all programs that sleep in rounds.
struct rounds {
    uint64_t total_ns;
    uint64_t each_ns;
};

#define ROUNDS_DEFAULT {.total_ns = 600 * NS_PER_MS, .each_ns = 10 * NS_PER_MS}

// Option table rows for a `struct rounds`.
#define ROUNDS_OPTIONS(rounds)                                                                     \
    {"seconds", OPTION_SECONDS, &(rounds).total_ns, 0.001, 86400, NULL, "S",                       \
     "requested total time (0.6)", NULL},                                                         \
    {                                                                                              \
        "each-ms", OPTION_MILLIS, &(rounds).each_ns, 0.01, 1e6, NULL, "MS",                        \
            "requested time per round, ms (10)", NULL                                              \
    }

// Returns the number of rounds that fill the total time, at least one.
uint64_t round_count(const struct rounds *rounds);

// Runs both threads to their end, checks that every byte arrived in order and that the waiter really
// blocked, and reports. `program` is also the name of the waiter's thread; the waker's is "waker".
void pair_run(const struct pair *pair, const struct rounds *rounds, const char *program,
              struct truth *truth);

#endif
