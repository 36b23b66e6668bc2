// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "grid.h"

#include <errno.h>
#include <time.h>

#include "clocks.h"
#include "fail.h"

struct grid grid_in_window(uint64_t begin_ns, uint64_t end_ns, uint64_t offset_ns, uint64_t period_ns)
{
    uint64_t first_ns = begin_ns + offset_ns;
    uint64_t count = first_ns < end_ns ? (end_ns - first_ns + period_ns - 1) / period_ns : 0;
    return (struct grid){.first_ns = first_ns, .period_ns = period_ns, .count = count};
}

bool grid_take(struct grid *grid, uint64_t *instant_ns)
{
    uint64_t now_ns = monotonic_ns();
    uint64_t passed = now_ns > grid->first_ns ? (now_ns - grid->first_ns) / grid->period_ns : 0;
    if (passed > grid->count)
        passed = grid->count;
    if (passed > grid->next) {
        grid->missed += passed - grid->next;
        grid->next = passed;
    }
    if (grid->next >= grid->count)
        return false;
    *instant_ns = grid->first_ns + grid->next++ * grid->period_ns;
    return true;
}

void sleep_until_ns(uint64_t instant_ns)
{
    struct timespec until = {
        .tv_sec = (time_t)(instant_ns / NS_PER_SECOND),
        .tv_nsec = (long)(instant_ns % NS_PER_SECOND),
    };
    int error;
    while ((error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) == EINTR)
        continue;
    if (error != 0) {
        errno = error;
        system_failed("sleep until the next event");
    }
}
