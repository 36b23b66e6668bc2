/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the clocks' part keeps, and the settings it is loaded with. */
#ifndef COX_STATE_BPF_H
#define COX_STATE_BPF_H

#include "threads.bpf.h"

/* Settings: constant after load, so the verifier drops what is off. */
const volatile u32 nr_cpus = 1;	    /* CPUs that may be in a mask: one of them all means "anywhere" */
const volatile u32 mask_words = 1;  /* 64-bit words of an affinity mask to read */
const volatile u8 cause_of_syscall[512]; /* enum cox_cause or COX_BY_FD; filled from `arch` */
const volatile u32 finals_wake_bytes = 2 << 20; /* wake the reader at this fill of `finals` */
const volatile u32 nr_sched_yield = 24;
const volatile u32 nr_io_uring_enter = 426;

struct cox_cpu cpus[COX_MAX_CPUS];
struct cox_crew crew;

/* Final clocks of threads that died. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} finals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} samples SEC(".maps");

/* Sums of final clocks that found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cox_clock);
} unlisted SEC(".maps");

/*
 * Allocated beforehand, 5 MB: entries are made where interrupts are off, and the cache for those made on demand runs dry when
 * many threads wake one another for the first time (seen with standby threads: 1 run in 10).
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct cox_pair);
	__type(value, struct cox_pair_sum);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct cox_taker);
} takers SEC(".maps");

#define LOSE(what, n) __sync_fetch_and_add(&crew.lost_##what, n)

/* The clock of a tracked thread; NULL: it has none. */
COX_INLINE struct cox_clock *clock_in(struct cox_thread *thread)
{
	/* Without a start it is being enrolled on another CPU just now: no member yet. */
	return thread && thread->clock.since_ns ? &thread->clock : NULL;
}

COX_INLINE struct cox_clock *clock_of(struct task_struct *p)
{
	return clock_in(thread_of(p));
}

/* This CPU's account, or NULL on a CPU we have no room for. */
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
 * The run queue of the CPU a task is on. By way of the task because many kernels do not list the
 * variable `runqueues` among their symbols; every task has its group's cfs_rq, of any class, where
 * the kernel has group scheduling. Asked of the kernel's types and not of the pointer: each test of
 * a pointer doubles what the verifier has to read.
 */
#define HAVE_RQ bpf_core_field_exists(((struct sched_entity *)0)->cfs_rq)

COX_INLINE struct rq *rq_of(struct task_struct *p)
{
	return HAVE_RQ ? untrusted(p)->se.cfs_rq->rq : NULL;
}

/* How long the hypervisor and interrupts have held a CPU, as far as its scheduler has noticed. */
COX_INLINE u64 steal_clock(struct rq *rq)
{
	return HAVE_RQ && bpf_core_field_exists(rq->prev_steal_time_rq) ? rq->prev_steal_time_rq : 0;
}

COX_INLINE u64 irq_clock(struct rq *rq)
{
	return HAVE_RQ && bpf_core_field_exists(rq->prev_irq_time) ? rq->prev_irq_time : 0;
}

#endif
