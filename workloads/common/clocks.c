// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "clocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        system_failed("read clock %d", (int)clock);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void sleep_for_ns(uint64_t duration_ns)
{
    struct timespec rest = {
        .tv_sec = (time_t)(duration_ns / NS_PER_SECOND),
        .tv_nsec = (long)(duration_ns % NS_PER_SECOND),
    };
    int error;
    while ((error = clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest)) == EINTR)
        continue;
    if (error != 0) {
        errno = error;
        system_failed("sleep");
    }
}

void thread_meter_open(struct thread_meter *meter)
{
    meter->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (meter->schedstat_fd < 0)
        not_possible_here("this kernel has no /proc/thread-self/schedstat to measure with");
}

void thread_meter_close(struct thread_meter *meter)
{
    close(meter->schedstat_fd);
    meter->schedstat_fd = -1;
}

static uint64_t read_run_delay_ns(const struct thread_meter *meter)
{
    char text[96];
    ssize_t length = pread(meter->schedstat_fd, text, sizeof text - 1, 0);
    if (length <= 0)
        system_failed("read the thread's schedstat");
    text[length] = '\0';
    char *second;
    strtoull(text, &second, 10);
    return strtoull(second, NULL, 10);
}

static uint64_t read_voluntary_switches(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        system_failed("read the thread's resource usage");
    return (uint64_t)usage.ru_nvcsw;
}

struct thread_instant thread_meter_read(const struct thread_meter *meter)
{
    // The values cannot be read at the same time. If the run delay is the same before and after, the thread
    // did not wait for a CPU in between, so the values belong together. A thread that is preempted again
    // and again gets the values of its last try.
    enum { MAX_TRIES = 16 };
    struct thread_instant now = {.voluntary_switches = read_voluntary_switches()};
    uint64_t delay_after_ns = read_run_delay_ns(meter);
    int tries = 0;
    do {
        now.run_delay_ns = delay_after_ns;
        now.cpu_ns = thread_cpu_ns();
        now.monotonic_ns = monotonic_ns();
        delay_after_ns = read_run_delay_ns(meter);
    } while (delay_after_ns != now.run_delay_ns && ++tries < MAX_TRIES);
    return now;
}

struct thread_span span_between(struct thread_instant begin, struct thread_instant end)
{
    return (struct thread_span){
        .wall_ns = end.monotonic_ns - begin.monotonic_ns,
        .cpu_ns = end.cpu_ns - begin.cpu_ns,
        .run_delay_ns = end.run_delay_ns - begin.run_delay_ns,
        .voluntary_switches = end.voluntary_switches - begin.voluntary_switches,
    };
}

uint64_t span_blocked_ns(struct thread_span span)
{
    uint64_t used_ns = span.cpu_ns + span.run_delay_ns;
    // The clocks differ by some ten ns: without any blocking, the difference may be negative.
    return span.wall_ns > used_ns ? span.wall_ns - used_ns : 0;
}
