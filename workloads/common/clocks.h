// SPDX-License-Identifier: Apache-2.0 OR MIT
// Clocks, and a meter with which a thread measures its own CPU time, run delay and switches without a tracer.
#ifndef COX_WORKLOADS_CLOCKS_H
#define COX_WORKLOADS_CLOCKS_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

uint64_t monotonic_ns(void);     // CLOCK_MONOTONIC
uint64_t thread_cpu_ns(void);    // CLOCK_THREAD_CPUTIME_ID of the caller

// Sleeps for the whole time, even if signals interrupt the sleep.
void sleep_for_ns(uint64_t duration_ns);

// Can be read only by the thread that opened it. The schedstat file stays open, so a reading needs few system
// calls.
struct thread_meter {
    int schedstat_fd;
};

// What the calling thread has used up to one moment.
struct thread_instant {
    uint64_t monotonic_ns;
    uint64_t cpu_ns;
    uint64_t run_delay_ns;    // schedstat field 2: time spent runnable and waiting for a CPU
    uint64_t voluntary_switches;
};

// Differences between two instants of one thread.
struct thread_span {
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t run_delay_ns;
    uint64_t voluntary_switches;
};

// Ends the program with exit code 77 if the kernel has no per-thread schedstat.
void thread_meter_open(struct thread_meter *meter);
void thread_meter_close(struct thread_meter *meter);
struct thread_instant thread_meter_read(const struct thread_meter *meter);

struct thread_span span_between(struct thread_instant begin, struct thread_instant end);

// Wall time − CPU time − run delay: the time in which the thread could not run. This includes two times that
// are not blocking: hypervisor steal while the thread ran, and, for each wake-up, the time from the waker's
// call until the thread is on a run queue.
uint64_t span_blocked_ns(struct thread_span span);

#endif
