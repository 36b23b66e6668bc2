/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * cox_umt.h - tells a runtime which of its threads block and unblock, by CPU
 *
 * The functions do what umt_enable() and umt_thread_ctrl() of User-Monitored Threads (A. Roca et al.) do, on a stock kernel, for any
 * runtime. There are two backends; the library takes the first one that works:
 *
 *   bpf    in a session of `cox run --overlap=bpf -- ./program`: the kernel counts in memory shared with the program, in the switch itself
 *   perf   without a session and without privileges (kernel.perf_event_paranoid <= 2): the library reads the kernel's records of the
 *          program's own switches
 *
 * Link with -lcox_umt. Any thread may call any function, but not from a signal handler. Functions that fail set errno.
 * Descriptors belong to the library: poll them, do not read or close them. After fork() the library is disabled in the child.
 *
 * See also cox_umt(3) and docs/umt.md.
 */
#ifndef COX_UMT_SIGNAL_H
#define COX_UMT_SIGNAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The events that make a CPU's descriptor readable. With the backend perf, every block makes it readable, whatever the flags say. */
#define COX_UMT_BLOCKS 1u   /* a registered thread blocks on that CPU */
#define COX_UMT_UNBLOCKS 2u /* a registered thread is ready on that CPU again */
#define COX_UMT_IDLE 4u     /* a registered thread blocks, and no other one is ready on that CPU */

/*
 * The counts of a CPU since the last read. Registering a thread counts as an unblock. A ready thread that ends or is unregistered counts
 * as a block. A ready thread that moves to another CPU blocks on the old one and unblocks on the new one. Preemption counts as neither.
 * So the sum of unblocked - blocked over all reads is the number of registered threads that are ready on that CPU.
 */
struct cox_umt_counts {
	uint32_t blocked;
	uint32_t unblocked;
	/*
	 * perf only: how often a thread, on any CPU, switched more than 127 times between two reads. Lost records contain equally many blocks and
	 * unblocks, which are missing from both counts above; so the difference of the counts is still correct.
	 */
	uint32_t lost;
};

/*
 * Enables the library for this process. `flags`: the bits above; 0 means COX_UMT_BLOCKS. Returns the number n of CPUs that are covered,
 * from 0 to n - 1, or -1 with errno set: EINVAL unknown flags; EBUSY already enabled; EPERM, ENOTSUP no backend works for this user, or on
 * this kernel; EMFILE, ENFILE, ENOMEM.
 */
int cox_umt_enable(unsigned int flags);

/* Disables the library: unregisters all threads and closes all descriptors. */
void cox_umt_disable(void);

/* Returns the name of the backend: "bpf" or "perf"; "off" if the library is not enabled. */
const char *cox_umt_backend(void);

/*
 * Registers (1) or unregisters (0) the calling thread. A thread that ends is unregistered. To register, the thread sleeps here for some
 * microseconds, so that it is already counted when this returns. Returns 0, or -1 with errno set: ENOTCONN not enabled; EAGAIN too many
 * threads; EMFILE, ENFILE, ENOMEM, ENOSPC.
 */
int cox_umt_thread_ctrl(int on);

/*
 * Returns a descriptor for poll(2), epoll(7) or select(2) that is readable when CPU `cpu` has counts to read; for -1, when any CPU has.
 * It may be readable although there is nothing to read. With bpf it is also readable when the session has ended. Returns -1 with errno
 * set on failure: ENOTCONN not enabled; EINVAL no such CPU; EMFILE, ENFILE, ENOMEM.
 */
int cox_umt_fd(int cpu);

/*
 * Stores in `counts` what was counted on CPU `cpu` since any thread last read it. `counts` may be NULL. Clears the descriptor's readiness
 * before it reads the counts, so later events make the descriptor readable again. If you poll for all CPUs (-1), read all of them. Never
 * waits. Returns 1 if something has happened, 0 if not, or -1 with errno set: ENOTCONN not enabled; EINVAL no such CPU; ECONNRESET the
 * session has ended, so blocks are no longer counted: call cox_umt_disable() and cox_umt_enable() to continue with perf.
 */
int cox_umt_read(int cpu, struct cox_umt_counts *counts);

/*
 * Returns the number of registered threads that are ready on CPU `cpu` now: running there, or waiting for it. With bpf, this costs two
 * loads and no system call. With perf, it reads the last record of each registered thread, and a woken thread counts only when it runs
 * again. Returns -1 with errno set on failure: ENOTCONN not enabled; EINVAL no such CPU.
 */
int cox_umt_ready(int cpu);

#ifdef __cplusplus
}
#endif

#endif
