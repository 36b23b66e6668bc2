// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "tick.h"

// The timer signals after an hour of CPU time. Until then, the kernel looks at each tick whether it has expired.
static void arm_cpu_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec in_an_hour = {.it_value.tv_sec = 3600};
    timer_t timer;
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0)
        system_failed("create a CPU timer");
    if (timer_settime(timer, 0, &in_an_hour, NULL) != 0)
        system_failed("arm a CPU timer");
}

// The kernel adapts the period of an event with a frequency at each tick. Not that of an event which is a clock.
static void open_perf_event(void)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_PAGE_FAULTS,
        .freq = 1,
        .sample_freq = 1,
        .exclude_kernel = 1,
    };
    if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
        system_failed("open a perf event");
}

void keep_tick(enum keeper keeper)
{
    switch (keeper) {
    case KEEP_NONE: break;
    case KEEP_CPU_TIMER: arm_cpu_timer(); break;
    case KEEP_PERF_EVENT: open_perf_event(); break;
    }
}
