// SPDX-License-Identifier: Apache-2.0 OR MIT
// Clocks, and a meter by which a thread learns what the kernel did with it, without any tracer.
#ifndef COX_WORKLOADS_CLOCKS_H
#define COX_WORKLOADS_CLOCKS_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

uint64_t monotonic_ns(void);     // CLOCK_MONOTONIC
uint64_t thread_cpu_ns(void);    // CLOCK_THREAD_CPUTIME_ID of the caller

// Sleeps the whole time, also when signals interrupt it.
void sleep_for_ns(uint64_t duration_ns);

// Reads of the calling thread only. The schedstat file stays open, so a reading costs few system calls.
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

// Differences of two instants of one thread.
struct thread_span {
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t run_delay_ns;
    uint64_t voluntary_switches;
};

// Ends the program with 77 where the kernel has no per-thread schedstat.
void thread_meter_open(struct thread_meter *meter);
void thread_meter_close(struct thread_meter *meter);
struct thread_instant thread_meter_read(const struct thread_meter *meter);

struct thread_span span_between(struct thread_instant begin, struct thread_instant end);

// wall − CPU − run delay: what is left is time in which the thread could not run. Two things that
// are not quite blocking land here too: time stolen by a hypervisor while the thread ran, and, per
// wake-up, the time from the waker's call until the thread is on a run queue.
uint64_t span_blocked_ns(struct thread_span span);

#endif
