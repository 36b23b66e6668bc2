/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accounts of CPUs: how long each CPU was idle, ran a tracked thread, or ran another thread; for how much of its idle time tracked threads waited or
 * were blocked. Also which threads kept tracked threads waiting.
 */
#ifndef COX_CPUS_BPF_H
#define COX_CPUS_BPF_H

#include "cells.bpf.h"

/*
 * Returns the total time, modulo 2^44 ns, in which a tracked thread that may run on this CPU waited for a CPU. The times of different classes of
 * affinity masks are added up, even if they overlap.
 */
COX_RARE u64 waiting_allowed_here(struct cox_cpu *cpu, u32 number, u64 t)
{
	u64 sum;

	if (!cpu)
		return 0;
	sum = cox_cell_presence(cpu->pinned, t) + cox_cell_presence(tracked.waiting[0].cell, t);

	if (tracked.classes == 0)
		return sum & COX_CELL_SUM;
	for (u32 k = 1; k < COX_MASK_CLASSES; k++)
		if (tracked.masks[k][(number >> 6) & (COX_MASK_WORDS - 1)] >> (number & 63) & 1)
			sum += cox_cell_presence(tracked.waiting[k].cell, t);
	return sum & COX_CELL_SUM;
}

/*
 * Called when the CPU goes over to the state `kind`: idle, running a tracked thread, or running another thread. Adds the time up to `t` to the CPU's
 * previous state. If the CPU was idle, also adds up for how much of that time a tracked thread waited for a CPU. In the rest, no tracked thread
 * waited; adds up for how much of it one was off CPU for another reason.
 */
COX_INLINE void cpu_kind_changes(struct cox_cpu *cpu, u32 number, u32 kind, u64 t)
{
	u64 was = cpu->kind & 3;
	u64 span = t > cpu->since_ns ? t - cpu->since_ns : 0;

	cpu->time_ns[was] += span;
	if (was == COX_CPU_IDLE) {
		u64 waited = cox_cell_since(waiting_allowed_here(cpu, number, t), cpu->idle_wait_mark);
		u64 off = cox_cell_since(cox_cell_presence(tracked.off, t), cpu->idle_off_mark);

		if (waited > span)
			waited = span;
		if (off > span)
			off = span;
		cpu->idle_wait_ns += waited;
		cpu->idle_blocked_ns += off > waited ? off - waited : 0;
	}
	if (kind == COX_CPU_IDLE) {
		cpu->idle_wait_mark = waiting_allowed_here(cpu, number, t);
		cpu->idle_off_mark = cox_cell_presence(tracked.off, t);
	}
	cpu->kind = kind;
	cpu->since_ns = t;
}

/* Charges `wait_ns`, for which tracked threads waited for this CPU, to the untracked thread that is about to leave it. */
COX_RARE int charge_stranger(u64 wait_ns)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cox_preemptor *preemptor, first = {};
	u32 tid;

	if (!has_clocks)
		return 0;
	tid = tid_of(p);
	preemptor = bpf_map_lookup_elem(&preemptors, &tid);
	if (preemptor) {
		__sync_fetch_and_add(&preemptor->wait_ns, wait_ns);
		return 0;
	}
	first.wait_ns = wait_ns;
	first.tgid = tgid_of(p);
	copy_name(first.comm, p);
	if (bpf_map_update_elem(&preemptors, &tid, &first, BPF_NOEXIST))
		LOSE(preemptors_ns, wait_ns);
	return 0;
}

/*
 * Returns how long tracked threads have waited for this CPU since its last switch, summed over these threads, in ns. The caller charges this time to
 * the thread that ran.
 */
COX_INLINE u64 waited_since_switch(struct cox_cpu *cpu, u64 t)
{
	u64 now = cox_cell_thread_time(cpu->waiting, t);
	u64 waited = cox_cell_since(now, cpu->wait_mark);

	/* The mark (`wait_mark`) never moves back: if the reading `now` is older than the mark, `waited` is 0, and the mark is kept. */
	if (waited)
		cpu->wait_mark = now;
	return waited;
}

/* Begins the account of a CPU, at the first event that shows what the CPU runs: `kind`. */
COX_INLINE void cpu_first_seen(struct cox_cpu *cpu, u32 number, u32 kind, u64 t)
{
	cpu->since_ns = t;
	cpu_kind_changes(cpu, number, kind, t);
	cpu->wait_mark = cox_cell_thread_time(cpu->waiting, t);
}

/*
 * Charges `waited`, for which tracked threads waited for this CPU, to the untracked thread that leaves the CPU now. If the CPU was idle, charges it
 * to idle time.
 */
COX_INLINE void charge_outgoing(struct cox_cpu *cpu, u64 waited)
{
	if (cpu->kind == COX_CPU_IDLE)
		cpu->took_idle_ns += waited;
	else
		charge_stranger(waited);
}

#endif
