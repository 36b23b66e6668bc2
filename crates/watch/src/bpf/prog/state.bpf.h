/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of the clocks part, and the settings with which it is loaded. */
#ifndef COX_STATE_BPF_H
#define COX_STATE_BPF_H

#include "threads.bpf.h"

/* Settings. They are constant after loading, so the verifier drops the code of features that are off. */
const volatile u32 nr_cpus = 1;	    /* number of CPUs in an unrestricted mask: a mask with all of them means "anywhere" */
const volatile u32 mask_words = 1;  /* number of 64-bit words to read of an affinity mask */
const volatile u8 cause_of_syscall[512]; /* enum cox_cause or COX_BY_FD; filled from `arch` */
const volatile u32 exited_wake_bytes = 2 << 20; /* wake the reader when `exited` holds more than this */
const volatile u32 nr_sched_yield = 24;
const volatile u32 nr_io_uring_enter = 426;

struct cox_cpu cpus[COX_MAX_CPUS];
struct cox_tracked tracked;

/* Clocks (accounts of time) of threads that have died. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} exited SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} samples SEC(".maps");

/* Sum of the clocks (accounts of time) of dead threads whose clocks did not fit into the ring buffer `exited`. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cox_clock);
} unlisted SEC(".maps");

/*
 * The map `wakeups` is preallocated (5 MB), because its entries are created with interrupts off. Without preallocation, the kernel takes new entries
 * from a cache. The cache runs dry if many threads wake one another for the first time (seen with standby threads, in 1 run of 10).
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct cox_pair);
	__type(value, struct cox_pair_sum);
} wakeups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct cox_preemptor);
} preemptors SEC(".maps");

#define LOSE(what, n) __sync_fetch_and_add(&tracked.lost_##what, n)

/* Returns the clock (account of time) of a tracked thread; NULL if the thread is not tracked by the clocks part. */
COX_INLINE struct cox_clock *clock_in(struct cox_thread *thread)
{
	/* A clock without a start time is being enrolled on another CPU: the thread is not tracked yet. */
	return thread && thread->clock.since_ns ? &thread->clock : NULL;
}

COX_INLINE struct cox_clock *clock_of(struct task_struct *p)
{
	return clock_in(thread_of(p));
}

/* Returns this CPU's account; NULL if the CPU's number is too large. */
COX_INLINE struct cox_cpu *this_cpu(u32 *number)
{
	u32 cpu = bpf_get_smp_processor_id();

	*number = cpu;
	if (cpu >= COX_MAX_CPUS) {
		LOSE(cpus, 1);
		return NULL;
	}
	return &cpus[cpu];
}

/*
 * The run queue of a task's CPU. It is found through the task, because many kernels do not list the variable `runqueues` among their symbols. Every
 * task, of any scheduling class, has its group's cfs_rq if the kernel has group scheduling. HAVE_RQ tests the kernel's types and not the pointer,
 * because each test of a pointer doubles what the verifier has to check.
 */
#define HAVE_RQ bpf_core_field_exists(((struct sched_entity *)0)->cfs_rq)

COX_INLINE struct rq *rq_of(struct task_struct *p)
{
	return HAVE_RQ ? untrusted(p)->se.cfs_rq->rq : NULL;
}

/* Total time for which the hypervisor (`steal_clock`) or interrupts (`irq_clock`) have held a CPU, as the scheduler accounts it. */
COX_INLINE u64 steal_clock(struct rq *rq)
{
	return HAVE_RQ && bpf_core_field_exists(rq->prev_steal_time_rq) ? rq->prev_steal_time_rq : 0;
}

COX_INLINE u64 irq_clock(struct rq *rq)
{
	return HAVE_RQ && bpf_core_field_exists(rq->prev_irq_time) ? rq->prev_irq_time : 0;
}

#endif
