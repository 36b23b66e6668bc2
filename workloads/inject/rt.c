// SPDX-License-Identifier: Apache-2.0 OR MIT
// Kind rt: a SCHED_FIFO thread that spins for a while at each instant, like a daemon with a higher priority.
#include <inttypes.h>

#include "fail.h"
#include "inject.h"
#include "work.h"

// Spins until `begin_ns` + `length_ns` and returns the time at the end.
static uint64_t spin(uint64_t begin_ns, uint64_t length_ns)
{
    uint64_t now_ns;
    while ((now_ns = monotonic_ns()) - begin_ns < length_ns)
        cpu_relax();
    return now_ns;
}

static void prepare(struct worker *me)
{
    spin(monotonic_ns(), me->injection->length_ns);
}

static void run(struct worker *me)
{
    uint64_t instant_ns, begin_ns = 0, end_ns = 0;
    bool has_next = grid_take(&me->grid, &instant_ns);
    while (has_next) {
        sleep_until_ns(instant_ns);
        uint64_t last_begin_ns = begin_ns;
        begin_ns = monotonic_ns();
        if (begin_ns < instant_ns)
            check_failed("woken %" PRIu64 " ns before the instant", instant_ns - begin_ns);
        // What is to be noted is noted here, not before the thread sleeps: it would use the CPU, and the log would not say so.
        if (end_ns != 0)
            events_add(&me->log, last_begin_ns, end_ns, me->tid);
        has_next = grid_take(&me->grid, &instant_ns);
        end_ns = spin(begin_ns, me->injection->length_ns);
    }
    if (end_ns != 0)
        events_add(&me->log, begin_ns, end_ns, me->tid);
}

const struct kind kind_rt = {.name = "rt", .thread_name = "inject-rt", .prepare = prepare, .run = run};
