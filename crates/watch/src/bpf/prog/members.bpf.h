/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which threads are tracked: birth, enrolment of living threads, exec, and the final clock. */
#ifndef COX_MEMBERS_BPF_H
#define COX_MEMBERS_BPF_H

#include "causes.bpf.h"
#include "cells.bpf.h"
#include "latency.bpf.h"

COX_INLINE void set_ids(struct task_struct *p, struct cox_clock *c)
{
	c->tid = tid_of(p);
	c->host_tid = p->pid;
	c->inner_tid = inner_tid_of(p);
}

/*
 * Returns whether a thread's account ends at its next switch-out, because the thread now has other rights. Either it belongs to another user now,
 * after executing a set-user-id program or calling setuid(2). Or COX_LEFT is set: it has executed a program with capabilities, which leaves its user
 * ids unchanged.
 */
COX_INLINE bool has_left(struct task_struct *p, struct cox_clock *c)
{
	return owned && (c->flags & COX_LEFT || !is_owners(p));
}

/* Returns whether a thread may get a clock (account of time). A thread that has left the observation of one user's threads is not tracked again. */
COX_INLINE bool may_have_clock(struct task_struct *p)
{
	struct cox_thread *thread = owned ? thread_of(p) : NULL;

	return !thread || !(thread->clock.flags & COX_LEFT);
}

COX_INLINE struct cox_clock *new_clock(struct task_struct *p, u32 parent_tgid, u32 flags)
{
	struct cox_thread *thread = new_thread(p);
	struct cox_clock *c;

	if (!thread) {
		LOSE(members, 1);
		return NULL;
	}
	c = &thread->clock;
	set_ids(p, c);
	c->tgid = tgid_of(p);
	c->parent_tgid = parent_tgid;
	c->slot = COX_CPU_SLOTS;
	c->flags = flags | latency_place(__sync_fetch_and_add(&tracked.members, 1));
	__sync_fetch_and_add(&tracked.alive, 1);
	return c;
}

/*
 * Stores the kernel's own CPU time and run delay of the thread when its clock (account of time) starts. When the clock ends, these values are
 * subtracted from the kernel's values at that time.
 */
COX_INLINE void kernel_account_begins(struct task_struct *p, struct cox_clock *c)
{
	c->kernel_cpu_ns = p->se.sum_exec_runtime;
	c->kernel_delay_ns = p->sched_info.run_delay;
}

COX_INLINE void kernel_account_ends(struct task_struct *p, struct cox_clock *c)
{
	c->kernel_cpu_ns = p->se.sum_exec_runtime - c->kernel_cpu_ns;
	c->kernel_delay_ns = p->sched_info.run_delay - c->kernel_delay_ns;
}

/* Begins the account of a thread that cox has launched, and that no longer waits for cox before its exec. */
COX_INLINE void launched_begins(struct task_struct *p, struct cox_clock *c, u64 t)
{
	c->flags &= ~COX_LAUNCHED;
	cox_clock_born(c, t);
	kernel_account_begins(p, c);
}

/*
 * Writes the final clock of a tracked thread, which has left its CPU for the last time, into the ring buffer `exited`. If the ring buffer is full,
 * adds the clock to the sum in `unlisted`.
 */
COX_INLINE void deliver(struct task_struct *p, struct cox_clock *c)
{
	u64 waiting = bpf_ringbuf_query(&exited, BPF_RB_AVAIL_DATA);
	/* Wakes the reader only when the ring fills up; it reads every 100 ms anyway. */
	u64 wake = waiting > exited_wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	struct cox_clock *sum;
	u32 zero = 0;

	kernel_account_ends(p, c);
	__builtin_memcpy(c->comm, p->comm, COX_COMM_LEN);
	c->exit_code = p->exit_code;
	__sync_fetch_and_add(&tracked.alive, -1);
	if (bpf_ringbuf_output(&exited, c, sizeof(*c), wake) == 0)
		return;
	LOSE(exited, 1);
	sum = bpf_map_lookup_elem(&unlisted, &zero);
	cox_clock_add(sum, c);
}

#endif
