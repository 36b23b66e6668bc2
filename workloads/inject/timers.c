// SPDX-License-Identifier: Apache-2.0 OR MIT
// Kind timers: a periodic timer, each expiry of which wakes a thread. An event lasts from the expiry's instant until
// the thread runs, so its length is the timer's latency and the wake-up's. Expirations that find the thread still
// busy with an earlier one count as missed.
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fail.h"
#include "inject.h"

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_SECOND), .tv_nsec = (long)(ns % NS_PER_SECOND)};
}

static void prepare(struct worker *me)
{
    me->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (me->fd < 0)
        system_failed("make a timer");
}

static void run(struct worker *me)
{
    struct grid *grid = &me->grid;
    const struct itimerspec settings = {.it_value = to_timespec(grid->first_ns),
                                        .it_interval = to_timespec(grid->period_ns)};
    if (timerfd_settime(me->fd, TFD_TIMER_ABSTIME, &settings, NULL) != 0)
        system_failed("set the timer");
    while (grid->next < grid->count) {
        uint64_t expirations;
        if (read(me->fd, &expirations, sizeof expirations) != (ssize_t)sizeof expirations)
            system_failed("wait for the timer");
        uint64_t now_ns = monotonic_ns(), left = grid->count - grid->next;
        // A late thread may also find expirations after the window.
        if (expirations > left)
            expirations = left;
        grid->next += expirations;
        grid->missed += expirations - 1;
        uint64_t newest_ns = grid->first_ns + (grid->next - 1) * grid->period_ns;
        if (now_ns < newest_ns)
            check_failed("the timer has expired before its time");
        events_add(&me->log, newest_ns, now_ns, me->tid);
    }
}

static void finish(struct worker *me)
{
    close(me->fd);
}

const struct kind kind_timers = {.name = "timers", .thread_name = "inject-timers", .prepare = prepare, .run = run,
                                 .finish = finish};
