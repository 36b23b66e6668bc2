/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clocks part: what each event means for the accounts of threads and CPUs.
 *
 * A thread is tracked if it has a clock; the threads and child processes that a tracked thread creates are tracked from birth. The hot paths are
 * sched_switch and sched_waking. They read the clock once per event. A switch between two untracked threads while no tracked thread waits changes
 * nothing.
 */
#ifndef COX_CLOCKS_BPF_H
#define COX_CLOCKS_BPF_H

#include "members.bpf.h"
#include "cpus.bpf.h"
#include "trace.bpf.h"

/* --- births and exec --------------------------------------------------------------------------- */

COX_INLINE void clock_newtask(struct task_struct *child, struct cox_clock *creator)
{
	struct cox_clock *c;
	u32 flags;
	u64 t;

	if (!creator || has_left(child, creator))
		return;
	flags = creator->flags & COX_PROGRAM_MASK;
	c = new_clock(child, creator->tgid, child->flags & PF_IO_WORKER ? flags | COX_IO_WORKER : flags);
	if (!c)
		return;
	t = bpf_ktime_get_ns();
	c->cpu = creator->cpu;
	cox_clock_born(c, t);
	presence_step(&tracked.off, 1, t);
	write_trace_event(t, COX_EVENT_BORN, c->tid, c->tgid, c->cpu, 0, c->parent_tgid);
}

COX_INLINE void clock_wakeup_new(struct task_struct *p, struct cox_clock *c)
{
	if (c && c->state == COX_BORN) {
		/* The CPU on which the scheduler has queued the new thread. A first placement is not a migration, and is not traced as one. */
		c->cpu = p->wake_cpu;
		wait_begins(c, mask_class(p), bpf_ktime_get_ns());
	}
}

COX_INLINE void clock_exec(struct task_struct *p, struct linux_binprm *bprm, struct cox_clock *c)
{
	u32 before;

	if (!c)
		return;
	before = c->tid;
	c->flags |= COX_EXECED;
	if (gains_rights(p, bprm))
		c->flags |= COX_LEFT;
	/*
	 * If a thread other than the group leader calls exec, it takes over the leader's id, so the clock gets the new ids. The clock of a thread
	 * that now belongs to another user keeps the old ids, because the new ones must not be reported.
	 */
	if (!owned || is_owners(p))
		set_ids(p, c);
	if (traces)
		write_trace_event(bpf_ktime_get_ns(), COX_EVENT_EXEC, c->tid, before, c->cpu, 0, 0);
}

/* --- wake-ups ---------------------------------------------------------------------------------- */

/*
 * Returns the waking thread: the running thread, or 0 for interrupt code. Interrupt code is recognised by its stack, because many kernels do not list
 * the symbol of the preempt count. An interrupt runs on a stack of its own. Only if it interrupts user mode, it runs on the task's stack, but then
 * the task is in no system call. `ctx`, the tracepoint's arguments, lies on the stack in use, so its address shows which stack that is; the lower 32
 * bits of the address are enough.
 */
COX_INLINE u32 waker_of(void *ctx)
{
	struct task_struct *current = bpf_get_current_task_btf();

	if ((u32)(u64)ctx - (u32)(u64)current->stack >= COX_STACK_BYTES)
		return 0;
	if (!(current->flags & PF_KTHREAD) && user_call_of(current).nr < 0)
		return 0;
	return tid_of(current);
}

COX_RARE int flush_waker(struct cox_clock *c)
{
	struct cox_pair_sum *sum, first;
	struct cox_pair key;

	if (!has_clocks || !c)
		return 0;
	key.waker = c->waker_tid;
	key.wakee = c->tid;
	sum = bpf_map_lookup_elem(&wakeups, &key);
	if (!sum) {
		first.count = 0;
		first.blocked_ns = 0;
		bpf_map_update_elem(&wakeups, &key, &first, BPF_NOEXIST);
		/* If another CPU has created the entry in the meantime, this lookup finds that entry. */
		sum = bpf_map_lookup_elem(&wakeups, &key);
	}
	if (sum) {
		__sync_fetch_and_add(&sum->count, c->waker_count);
		__sync_fetch_and_add(&sum->blocked_ns, c->waker_blocked_ns);
	} else {
		LOSE(wakeups, c->waker_count);
	}
	c->waker_count = 0;
	c->waker_blocked_ns = 0;
	return 0;
}

COX_INLINE void clock_waking(void *ctx, struct task_struct *p, struct cox_clock *c)
{
	u32 waker;
	u64 t;

	/*
	 * A thread that cox has launched waits for cox before its exec. Its account begins only after the wake-up that ends this wait, so that
	 * wake-up is not counted.
	 */
	if (!c || c->flags & COX_LAUNCHED)
		return;
	t = bpf_ktime_get_ns();
	if (c->state == COX_BLOCKED && c->wake_ns >= c->since_ns)
		return; /* woken already */
	cox_clock_waking(c, t);
	if (c->state != COX_BLOCKED) {
		if (traces)
			write_trace_event(t, COX_EVENT_WAKING, c->tid, waker_of(ctx), bpf_get_smp_processor_id(), 0, c->cpu);
		return;
	}
	waker = waker_of(ctx);
	write_trace_event(t, COX_EVENT_WAKING, c->tid, waker, bpf_get_smp_processor_id(), 0, c->cpu);
	if (waker != c->waker_tid) {
		if (c->waker_count)
			flush_waker(c);
		c->waker_tid = waker;
	}
	c->waker_count++;
	c->waker_blocked_ns += t - c->since_ns;
	wait_begins(c, mask_class(p), t);
}

COX_INLINE void clock_migrate(struct task_struct *p, int to, struct cox_clock *c)
{
	u32 class, from;
	bool allowed;
	u64 t, kind;

	if (!c || to >= COX_MAX_CPUS)
		return;
	if (c->flags & COX_LAUNCHED) {
		c->cpu = to; /* the account has not begun, so this is not counted as a migration */
		return;
	}
	allowed = mask_word((u64)p, c->cpu >> 6) >> (c->cpu & 63) & 1;
	kind = cox_clock_migration(c, allowed);
	FORGET(kind, c->born_ns);
	from = c->cpu;
	if (c->counted || traces)
		t = bpf_ktime_get_ns();
	if (c->counted) {
		class = mask_class(p);
		wait_ends(c, from, t, t);
		cox_clock_migrate(c, to, kind);
		wait_begins(c, class, t);
	} else {
		cox_clock_migrate(c, to, kind);
	}
	if (traces)
		write_trace_event(t, COX_EVENT_MIGRATION, c->tid, 0, to, kind, from);
}

/* --- switches ---------------------------------------------------------------------------------- */

/* Updates the clock (account of time) of the thread that leaves its CPU, depending on whether it was preempted, blocks, or has ended. */
COX_INLINE void switch_out(struct task_struct *prev, struct cox_clock *c, bool preempt, u64 t, u64 steal,
			   u64 irq, struct cox_ended *ended)
{
	u32 state = prev->__state;
	u64 left, cause = 0, yielded = 0;

	if (has_left(prev, c)) {
		c->flags |= COX_LEFT;
		left = COX_DEAD;
	} else if (state & TASK_DEAD) {
		left = COX_DEAD;
	} else if (preempt || state == 0) {
		left = COX_PREEMPT;
		yielded = !preempt && user_call_of(prev).nr == nr_sched_yield;
	} else {
		left = COX_BLOCKED;
		cause = cause_of_block(prev, c);
	}
	FORGET(left, t);
	FORGET(cause, t);
	FORGET(yielded, t);
	cox_clock_out(c, t, left, cause, yielded, steal, irq, ended);
	if (left != COX_DEAD)
		return;
	deliver(prev, c);
	/*
	 * If the thread has left the observation, its start time is cleared: the clock is ignored from then on (`clock_in`), so the thread is no
	 * longer tracked. The thread's storage is not freed here, because freeing it may wake a thread, which would deadlock under the run queue's
	 * lock.
	 */
	if (owned && c->flags & COX_LEFT)
		c->since_ns = 0;
}

/*
 * Recovers the switch-in of a tracked thread that leaves a CPU, if that switch-in was not traced. Some kernels do not trace every switch (seen on
 * a 6.18 guest: switches away from one privileged service). The scheduler keeps the time of the last switch-in, on a clock that it has just read,
 * so the run time is exact.
 */
COX_RARE int recover_switch_in(struct cox_clock *c, u32 number, u64 t)
{
	/* The current task is still the thread that leaves. */
	struct task_struct *prev = bpf_get_current_task_btf();
	struct rq *rq = rq_of(prev);
	struct cox_ended ended = COX_NONE_ENDED;
	struct cox_cpu *cpu;
	u64 stint, arrived;
	u32 was_on;

	if (!c || !HAVE_RQ)
		return 0;
	number &= COX_MAX_CPUS - 1;
	barrier_var(number);
	cpu = &cpus[number];
	stint = rq->clock - prev->sched_info.last_arrival;
	arrived = t > stint ? t - stint : t;
	was_on = c->cpu;
	resolve_cause(prev, c, arrived);
	if (c->flags & COX_LAUNCHED) {
		launched_begins(prev, c, arrived);
		write_trace_event(arrived, COX_EVENT_BORN, c->tid, c->tgid, number, 0, c->parent_tgid);
		c->kernel_cpu_ns -= t - arrived;
	}
	if (c->state == COX_BLOCKED)
		write_trace_event(arrived, COX_EVENT_WHY, c->tid, 0, number, c->cause, 0);
	cox_clock_in(c, arrived, number, steal_clock(rq), irq_clock(rq), &ended);
	count_intervals(0, c->flags, &ended);
	busy_changes(0, c->in_ns);
	write_trace_event(c->in_ns, COX_EVENT_ARRIVED, c->tid, 0, number, 0, 0);
	if (c->counted)
		wait_ends(c, was_on, was_on == number ? c->in_ns : t, t);
	if (cpu->since_ns <= c->in_ns)
		cpu_kind_changes(cpu, number, COX_CPU_OURS, c->in_ns);
	__sync_fetch_and_add(&tracked.recovered, 1);
	presence_step(&tracked.off, -1, t);
	return 0;
}

/*
 * Recovers the waking of a tracked thread that is switched in, if no waking was traced. Some kernels do not trace every waking, but the scheduler
 * keeps the time at which the thread was queued, for its own run_delay.
 */
COX_INLINE void recover_waking(struct task_struct *next, struct cox_clock *c, struct rq *rq, u64 t)
{
	u64 queued = next->sched_info.last_queued;

	if (!HAVE_RQ || cox_clock_woken_at(c, ~0ull) != ~0ull || !queued || queued > rq->clock)
		return;
	queued = t - (rq->clock - queued);
	if (queued < c->since_ns)
		return;
	c->wake_ns = queued;
	write_trace_event(queued, COX_EVENT_WAKING, c->tid, 0, bpf_get_smp_processor_id(), 0, c->cpu);
	__sync_fetch_and_add(&tracked.recovered, 1);
}

/* Writes the trace event of a switch. For an untracked thread, the event contains the ids, but not why the thread leaves its CPU. */
COX_INLINE void trace_switch(struct task_struct *prev, struct cox_clock *out, bool preempt, struct task_struct *next,
			     struct cox_clock *in, u32 in_cause, u32 number, u64 t)
{
	u32 more = COX_EVENT_CAUSE_IN(in_cause);
	u32 leaves, comes, state;
	u8 left;

	if (!traces)
		return;
	leaves = prev->pid ? tid_of(prev) : 0;
	comes = next->pid ? tid_of(next) : 0;
	if (out) {
		/*
		 * A tracked thread's id is taken from its clock, because the kernel changes the id during an exec by a thread other than the
		 * group leader.
		 */
		leaves = out->tid;
		left = out->state;
		more |= COX_EVENT_CAUSE_OUT(left == COX_BLOCKED ? out->cause : COX_BY_FD) | COX_EVENT_MEMBER_OUT;
		if (left == COX_PREEMPT && out->yielded)
			more |= COX_EVENT_YIELDED;
	} else {
		state = prev->__state;
		left = state & TASK_DEAD ? COX_DEAD : preempt || state == 0 ? COX_PREEMPT : COX_BLOCKED;
		more |= COX_EVENT_CAUSE_OUT(COX_BY_FD);
	}
	if (in) {
		comes = in->tid;
		more |= COX_EVENT_MEMBER_IN;
	}
	write_trace_event(t, COX_EVENT_SWITCH, leaves, comes, number, left, more);
}

/*
 * If the clocks part of the switch handler seems to take longer than this (ns), its duration is not counted. Even if every memory access misses the
 * caches, it takes only a tenth of this time.
 */
#define HANDLER_LIMIT_NS 4000

/* `t` is the time of the switch if it was already read; else 0. */
COX_INLINE void clock_switch(bool preempt, struct task_struct *prev, struct task_struct *next, struct cox_clock *out,
			     struct cox_clock *in, u64 t)
{
	u64 steal, irq, waited, began, stint_ended = 0, stint_began = 0;
	struct cox_ended ended = COX_NONE_ENDED;
	u32 number, kind, in_cause = COX_BY_FD, flags_out = 0, flags_in = 0;
	struct rq *rq;
	struct cox_cpu *cpu;
	u64 leaves = false; /* a tracked thread leaves the CPU and lives on */
	u64 any_tracked = false; /* a tracked thread leaves the CPU, or one comes */

	cpu = this_cpu(&number);
	if (!cpu)
		return;
	kind = COX_CPU_IDLE;
	if (next->pid)
		kind = in ? COX_CPU_OURS : COX_CPU_OTHERS;
	/* Without this, clang tests both clocks below by an OR of the pointers, which the verifier refuses. */
	barrier_var(kind);
	/* If one untracked thread follows another, and no tracked thread waits for this CPU, no account changes. */
	if (!out && kind == COX_CPU_OTHERS) {
		if (cpu->kind == COX_CPU_OTHERS && cpu->waiting == cpu->cell_mark &&
		    cox_cell_count(cpu->cell_mark) == 0) {
			if (traces)
				trace_switch(prev, NULL, preempt, next, NULL, in_cause, number, bpf_ktime_get_ns());
			return;
		}
	}

	if (!has_overlap && !has_snapshots)
		t = bpf_ktime_get_ns();
	FORGET(kind, t);
	rq = rq_of(prev);
	steal = steal_clock(rq);
	irq = irq_clock(rq);
	cpu->events++;
	began = t;
	/*
	 * At every 256th event, the duration of this function is measured. If other parts are loaded, `t` was read before their code ran. Their time
	 * must not be included, so the time is read again.
	 */
	if ((has_overlap || has_snapshots) && (cpu->events & 255) == 0)
		began = bpf_ktime_get_ns();

	if (out && out->state != COX_RUN && out->state != COX_UNSEEN)
		recover_switch_in(out, number, t);
	if (cpu->kind == COX_CPU_UNSEEN)
		cpu->wait_mark = cox_cell_thread_time(cpu->waiting, t);
	waited = waited_since_switch(cpu, t);
	if (out) {
		out->took_ns += waited;
		if (out->state == COX_RUN)
			stint_ended = t > out->since_ns ? t : out->since_ns;
		switch_out(prev, out, preempt, t, steal, irq, &ended);
		flags_out = out->flags;
		any_tracked = true;
		leaves = out->state != COX_DEAD;
		if (out->state == COX_PREEMPT)
			wait_begins(out, mask_class(prev), t);
	} else if (waited) {
		charge_outgoing(cpu, waited);
	}
	FORGET(leaves, t);
	FORGET(stint_ended, t);
	if (in) {
		u64 before = in->wake_delay_ns;
		u32 was_on = in->cpu;

		resolve_cause(next, in, t);
		if (in->flags & COX_LAUNCHED) {
			launched_begins(next, in, t);
			write_trace_event(t, COX_EVENT_BORN, in->tid, in->tgid, number, 0, in->parent_tgid);
		}
		if (in->state == COX_BLOCKED) {
			recover_waking(next, in, rq, t);
			in_cause = in->cause;
		}
		/* `in` was last seen running, so its last switch-out was lost. All time since its last switch-in is unknown. */
		if (in->state == COX_RUN)
			busy_changes(in->since_ns, 0);
		cox_clock_in(in, t, number, steal, irq, &ended);
		flags_in = in->flags;
		any_tracked = true;
		stint_began = in->in_ns;
		if (in->counted) {
			wait_ends(in, was_on, t, t);
		} else {
			/*
			 * `in` was not counted as waiting, because it was woken while it left its CPU, or its waking was not traced. So its wait is
			 * charged here, to the thread that ran on this CPU last.
			 */
			waited = in->wake_delay_ns - before;
			if (waited && !out)
				charge_outgoing(cpu, waited);
			else if (waited && leaves)
				out->took_ns += waited;
		}
	}
	trace_switch(prev, out, preempt, next, in, in_cause, number, t);
	/* If one tracked thread leaves and another one comes, the number of tracked threads that are off CPU does not change. */
	if (leaves && !in)
		presence_step(&tracked.off, 1, t);
	else if (in && !leaves)
		presence_step(&tracked.off, -1, t);
	if (stint_ended != stint_began)
		busy_changes(stint_ended, stint_began);

	cpu->cell_mark = cpu->waiting;
	if (cpu->kind != kind || kind == COX_CPU_IDLE)
		cpu_kind_changes(cpu, number, kind, t);
	FORGET(any_tracked, t);
	if (any_tracked)
		count_intervals(flags_out, flags_in, &ended);
	if ((cpu->events & 255) == 0) {
		u64 took = bpf_ktime_get_ns() - began;

		/* Interrupts are off here. So if more time has passed, it was taken by the hypervisor and not by this handler. */
		if (took < HANDLER_LIMIT_NS) {
			cpu->timed_events++;
			cpu->timed_ns += took;
		}
	}
}

/* --- walks over all tasks ---------------------------------------------------------------------- */

COX_INLINE void enrol_clock(struct task_struct *p, u32 flags)
{
	struct cox_clock *c;
	u64 t;

	if (clock_of(p) || !may_have_clock(p))
		return;
	c = new_clock(p, 0, flags | COX_ENROLLED_ALIVE);
	if (!c)
		return;
	t = bpf_ktime_get_ns();
	c->cpu = p->wake_cpu;
	kernel_account_begins(p, c);
	if (!p->on_cpu)
		presence_step(&tracked.off, 1, t);
	if (!p->on_cpu && p->__state != 0) {
		/* The thread is asleep and the kernel says in which call, so the cause is known. */
		c->cause = cause_of_block(p, c);
		c->state = COX_BLOCKED;
	}
	c->born_ns = t;
	/* This trace event is written before `since_ns` is set, so that events from the thread's own CPU come after it. */
	write_trace_event(t, COX_EVENT_ENROLLED, c->tid, c->tgid, c->cpu, c->state, c->cause);
	barrier();
	/* `since_ns` is set last: from then on, the thread's own CPU may change the clock (account of time). */
	c->since_ns = t;
}

COX_INLINE void dump_clock(struct bpf_iter__task *ctx, struct task_struct *p)
{
	struct cox_clock *c = clock_of(p);
	struct cox_living living;

	if (!c || c->state == COX_DEAD)
		return;
	/* The cause is stored in the copy and not in the clock (account of time), because only the thread's own CPU may change the clock. */
	living.cause = c->cause;
	if (c->state == COX_BLOCKED && c->cause == COX_BY_FD)
		living.cause = cause_of_fd(p, c->fd_now);
	living.t_ns = bpf_ktime_get_ns();
	living.kernel_cpu_ns = p->se.sum_exec_runtime - c->kernel_cpu_ns;
	living.kernel_delay_ns = p->sched_info.run_delay - c->kernel_delay_ns;
	copy_name(living.comm, p);
	bpf_seq_write(ctx->meta->seq, &living, sizeof(living));
	bpf_seq_write(ctx->meta->seq, c, sizeof(*c));
}

#endif
