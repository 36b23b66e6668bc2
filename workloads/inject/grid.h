// SPDX-License-Identifier: Apache-2.0 OR MIT
// The instants at which events are due: first, first + period, … on CLOCK_MONOTONIC. The grid is absolute, so a
// late event does not move the next ones.
#ifndef COX_WORKLOADS_INJECT_GRID_H
#define COX_WORKLOADS_INJECT_GRID_H

#include <stdbool.h>
#include <stdint.h>

struct grid {
    uint64_t first_ns, period_ns;
    uint64_t count;     // instants in the window
    uint64_t next;      // number of the next instant
    uint64_t missed;    // instants that passed, with their whole period, before the thread was ready for them
};

// The instants of the window [begin_ns, end_ns).
struct grid grid_in_window(uint64_t begin_ns, uint64_t end_ns, uint64_t offset_ns, uint64_t period_ns);

// Takes the next instant, which may have passed if its period has not. Returns false if there is none left in
// the window.
bool grid_take(struct grid *grid, uint64_t *instant_ns);

// Sleeps until the instant; returns at once if it has passed.
void sleep_until_ns(uint64_t instant_ns);

#endif
