/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * cox_umt.h - which threads of this program block and unblock, by CPU
 *
 * The meaning of umt_enable() and umt_thread_ctrl() of User-Monitored Threads (A. Roca et al.), on a stock kernel, for any runtime. Two
 * backends, of which the first that works is taken:
 *
 *   bpf    in a session of `cox run --overlap=bpf -- ./program`: counters in memory that the kernel writes in the switch itself
 *   perf   without a session and without privileges (kernel.perf_event_paranoid <= 2): the kernel's records of one's own switches
 *
 * Link with -lcox_umt. All functions may be called by all threads; none from a signal handler. They set errno where they say that they fail.
 * Descriptors are the library's: poll them, do not read or close them. A child after fork() has it disabled.
 *
 * cox_umt(3) and docs/umt.md say more.
 */
#ifndef COX_UMT_SIGNAL_H
#define COX_UMT_SIGNAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What makes a CPU's descriptor readable. With perf it is each block, whatever is asked for. */
#define COX_UMT_BLOCKS 1u   /* a registered thread blocks there */
#define COX_UMT_UNBLOCKS 2u /* one is ready there again */
#define COX_UMT_IDLE 4u     /* one blocks, and no registered thread is ready there any more */

/*
 * What has happened on a CPU since it was read last. A thread that is registered unblocks. One that ends or is unregistered while it is ready blocks.
 * One that is ready and moved blocks on the one CPU and unblocks on the other. Preemption is neither. So the sum of unblocked - blocked
 * over all reads is the number of registered threads that are ready there.
 */
struct cox_umt_counts {
	uint32_t blocked;
	uint32_t unblocked;
	/* perf: times that a thread, of whatever CPU, switched more than 127 times between two reads: so many pairs are missing in both counts. */
	uint32_t lost;
};

/*
 * Begins. `flags` are the bits above, 0 is COX_UMT_BLOCKS. Returns the number of CPUs covered, which are those below it, or -1:
 * EINVAL other flags; EBUSY enabled already; EPERM, ENOTSUP no backend works for this user, or on this kernel; EMFILE, ENFILE, ENOMEM.
 */
int cox_umt_enable(unsigned int flags);

/* Ends it for all threads, and closes all descriptors. */
void cox_umt_disable(void);

/* "bpf", "perf" or, where it is not enabled, "off". */
const char *cox_umt_backend(void);

/*
 * The calling thread is monitored from now on (1), or no more (0), which a thread's end does, too. It sleeps for some microseconds in here, so
 * that it is counted when this returns. Returns 0, or -1: ENOTCONN not enabled; EAGAIN too many threads; EMFILE, ENFILE, ENOMEM, ENOSPC.
 */
int cox_umt_thread_ctrl(int on);

/*
 * A descriptor that is readable when something is to be read of this CPU, of one of all CPUs for -1: for poll(2), epoll(7), select(2).
 * It may be readable for nothing. With bpf it is readable, too, when the session has ended. Returns it, or -1:
 * ENOTCONN not enabled; EINVAL no such CPU; EMFILE, ENFILE, ENOMEM.
 */
int cox_umt_fd(int cpu);

/*
 * What has happened on this CPU since it was read last, by whichever thread, into `counts`, which may be NULL. Takes the descriptor's readiness away
 * before it looks, so what comes later makes it readable again. Who polls for all CPUs (-1) has to read all of them. Does not
 * wait for anything to happen. Returns 1; 0 nothing has; or -1: ENOTCONN not enabled; EINVAL no such CPU; ECONNRESET the session has
 * ended, and nobody counts any more: cox_umt_disable() and cox_umt_enable() go on with perf.
 */
int cox_umt_read(int cpu, struct cox_umt_counts *counts);

/*
 * Registered threads that are ready on this CPU now: running or waiting for it. With bpf two loads and no system call. With perf a look at the last
 * record of each thread, which counts from when it runs again. Returns it, or -1: ENOTCONN, EINVAL as above.
 */
int cox_umt_ready(int cpu);

#ifdef __cplusplus
}
#endif

#endif
