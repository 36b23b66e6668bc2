/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread's clock: how one scheduler event changes one account.
 *
 * Compiled into BPF and natively. `ledger` has the same rule in Rust, and a test plays random and impossible orders of events into both and
 * requires equal clocks.
 *
 * The protocol, and why it needs no atomic operation:
 * 1. Switch-in and switch-out of a thread happen under its run queue's lock, so there is one writer for the state words `since_ns`, `in_ns` and
 *    `state`, and for all sums.
 * 2. The handler of a waking may run on another CPU at the same time as the handler of the switch-out that the waking undoes, or even *before* it.
 *    It therefore only stores the time of the waking in `wake_ns`, and changes no sum.
 * 3. The next switch-in knows the times of the switch-out, the waking and the switch-in. It splits the time off the CPU: blocked until the waking,
 *    wake delay after it. A waking between the last switch-in and the switch-out ("early") means that the thread was runnable again as soon as it
 *    was off the CPU: blocked 0. If an early waking was consumed before the thread blocked, a real one follows, and its time replaces that of the
 *    early one.
 *
 * Invariant, checked on every snapshot: run + wake delay + preempt wait + all blocked + unknown = since_ns - born_ns. A torn copy violates it and
 * is read again.
 *
 * If time runs backwards (clock skew between CPUs), the interval is 0, never negative.
 */
#ifndef COX_CLOCK_H
#define COX_CLOCK_H

#include "wire.h"

#ifdef __bpf__
#define COX_INLINE static __attribute__((always_inline)) inline
/* A global function: the BPF verifier checks it once, and not again for each state of each caller. */
#define COX_RARE __attribute__((noinline))
/* Keeps the compiler from changing a bounds check into a form that the verifier cannot follow. */
#define COX_OPAQUE(x) __asm__ volatile("" : "+r"(x))
#else
#define COX_INLINE static inline
#define COX_RARE static inline
#define COX_OPAQUE(x) (void)(x)
#endif

/*
 * The lengths, in nanoseconds, of the intervals that an event ended, indexed by enum cox_interval; COX_NO_INTERVAL for a kind of which it ended none.
 * Unknown time does not count as an interval, nor does a block that began before cox tracked the thread.
 */
struct cox_ended {
	__u64 ns[COX_INTERVALS];
};

#define COX_NO_INTERVAL (~0ull)
/* No interval of any kind. The initialiser lists each kind, because a kind that it left out would be 0: an interval of no length. */
_Static_assert(COX_INTERVALS == 4, "COX_NONE_ENDED lists four kinds");
#define COX_NONE_ENDED                                                            \
	{                                                                         \
		{ COX_NO_INTERVAL, COX_NO_INTERVAL, COX_NO_INTERVAL, COX_NO_INTERVAL } \
	}

COX_INLINE void cox_clock_born(struct cox_clock *c, __u64 t)
{
	c->born_ns = t;
	c->since_ns = t;
	c->state = COX_BORN;
}

/* Records a waking of a thread that is blocked or about to block. Only the first waking since the switch-out counts. */
COX_INLINE void cox_clock_waking(struct cox_clock *c, __u64 t)
{
	if (c->state == COX_BLOCKED && c->wake_ns >= c->since_ns)
		return;
	c->wake_ns = t;
}

/* Returns when the thread, blocked since `since_ns`, became runnable again; `now` if no waking was seen. */
COX_INLINE __u64 cox_clock_woken_at(const struct cox_clock *c, __u64 now)
{
	__u64 wake = c->wake_ns;

	if (wake >= c->since_ns)
		return wake < now ? wake : now;
	if (wake != 0 && wake >= c->in_ns)
		return c->since_ns; /* woken before the switch-out: blocked for 0 ns */
	return now;
}

/*
 * Finds the slot that sums the thread's run time on `cpu`, or takes a free slot. Out of line, because a thread changes its CPU much less often than
 * its state.
 */
COX_RARE int cox_clock_seat_anew(struct cox_clock *c, __u16 cpu)
{
	__u16 i;

	if (!c)
		return 0; /* for the verifier, which checks this function by itself */
	for (i = 0; i < COX_CPU_SLOTS; i++) {
		/* Slots are filled in order, so the first unused slot ends the search. */
		if (c->cpu_id[i] == cpu + 1 || c->cpu_id[i] == 0) {
			c->cpu_id[i] = cpu + 1;
			break;
		}
	}
	c->cpu = cpu;
	c->slot = i;
	return 0;
}

COX_INLINE void cox_clock_seat(struct cox_clock *c, __u16 cpu)
{
	__u64 i = c->slot;

	COX_OPAQUE(i);
	c->cpu = cpu;
	if (i >= COX_CPU_SLOTS || c->cpu_id[i] != cpu + 1)
		cox_clock_seat_anew(c, cpu);
}

/* Accounts for a switch-in. Stores in `ended` the lengths of the intervals that the switch-in ended. */
COX_INLINE void cox_clock_in(struct cox_clock *c, __u64 t, __u16 cpu, __u64 steal, __u64 irq, struct cox_ended *ended)
{
	__u64 now = t > c->since_ns ? t : c->since_ns;
	__u64 gap = now - c->since_ns;

	switch (c->state) {
	case COX_BLOCKED: {
		__u64 wake = cox_clock_woken_at(c, now);
		__u64 cause = c->cause;

		COX_OPAQUE(cause);
		if (cause >= COX_CAUSES)
			cause = COX_OTHER;
		c->blocked_ns[cause] += wake - c->since_ns;
		c->wake_delay_ns += now - wake;
		c->wakeups++;
		/* If no voluntary switch was counted, the block began before cox tracked the thread: its length is unknown. */
		if (c->switches_voluntary)
			ended->ns[COX_INTERVAL_BLOCKED] = wake - c->since_ns;
		ended->ns[COX_INTERVAL_WAKE_DELAY] = now - wake;
		break;
	}
	case COX_PREEMPT:
		c->preempt_wait_ns += gap;
		if (c->yielded)
			c->yield_wait_ns += gap;
		ended->ns[COX_INTERVAL_PREEMPT_WAIT] = gap;
		break;
	case COX_BORN:
		c->wake_delay_ns += gap;
		c->wakeups++;
		ended->ns[COX_INTERVAL_WAKE_DELAY] = gap;
		break;
	case COX_UNSEEN:
		c->unknown_ns += gap;
		break;
	default: /* already running, or dead: a switch-out was lost */
		c->unknown_ns += gap;
		c->impossible++;
	}
	c->state = COX_RUN;
	c->since_ns = now;
	c->in_ns = now;
	c->steal_in_ns = steal;
	c->irq_in_ns = irq;
	cox_clock_seat(c, cpu);
}

/* Adds the run time up to `now` to the thread's account. Time that the hypervisor or interrupts took is a part of run time. */
COX_INLINE void cox_clock_ran(struct cox_clock *c, __u64 now, __u64 steal, __u64 irq)
{
	__u64 stint = now - c->since_ns;
	__u64 slot = c->slot;
	__u64 stolen = steal > c->steal_in_ns ? steal - c->steal_in_ns : 0;
	__u64 interrupted = irq > c->irq_in_ns ? irq - c->irq_in_ns : 0;

	c->run_ns += stint;
	if (stolen > stint)
		stolen = stint;
	c->steal_ns += stolen;
	if (interrupted > stint - stolen)
		interrupted = stint - stolen;
	c->irq_ns += interrupted;
	COX_OPAQUE(slot);
	if (slot < COX_CPU_SLOTS)
		c->cpu_run_ns[slot] += stint;
	else
		c->elsewhere_run_ns += stint;
}

/*
 * Accounts for a switch-out. `state` is COX_PREEMPT, COX_BLOCKED (with `cause`) or COX_DEAD. `yielded` is true if the thread called sched_yield. A
 * yield counts as an involuntary switch, as in the kernel. Stores in `ended` the length of the time slice that the switch-out ended.
 */
COX_INLINE void cox_clock_out(struct cox_clock *c, __u64 t, __u8 state, __u8 cause, __u8 yielded,
			      __u64 steal, __u64 irq, struct cox_ended *ended)
{
	__u64 now = t > c->since_ns ? t : c->since_ns;

	if (c->state == COX_RUN) {
		ended->ns[COX_INTERVAL_SLICE] = now - c->since_ns;
		cox_clock_ran(c, now, steal, irq);
	} else {
		/* The thread was running when cox began to track it, or a switch-in was lost. The time counts as unknown; cox does not guess. */
		c->unknown_ns += now - c->since_ns;
		if (c->state != COX_UNSEEN)
			c->impossible++;
	}
	if (state == COX_BLOCKED)
		c->switches_voluntary++;
	else if (state == COX_PREEMPT)
		c->switches_involuntary++;
	c->state = state;
	c->cause = cause;
	c->yielded = yielded;
	c->since_ns = now;
}

/* Returns the kind of a migration, from the thread's state and whether its old CPU is still allowed. */
COX_INLINE __u32 cox_clock_migration(const struct cox_clock *c, __u8 old_cpu_allowed)
{
	if (!old_cpu_allowed)
		return COX_BY_AFFINITY;
	if (c->state == COX_BLOCKED && cox_clock_woken_at(c, ~0ull) != ~0ull)
		return COX_AT_WAKEUP;
	return COX_WHILE_QUEUED;
}

COX_INLINE void cox_clock_migrate(struct cox_clock *c, __u16 cpu, __u32 kind)
{
	if (kind < COX_MIGRATIONS)
		c->migrations[kind]++;
	c->cpu = cpu;
}

/*
 * Adds the clock of a thread that has ended to a sum of clocks. In the sum, `since_ns` is the sum of lifetimes, and `elsewhere_run_ns` is the sum
 * of all run times, because the sum does not keep run times by CPU.
 */
COX_RARE int cox_clock_add(struct cox_clock *sum, const struct cox_clock *c)
{
	int i;

	if (!sum || !c)
		return 0;
	sum->since_ns += c->since_ns - c->born_ns;
	sum->run_ns += c->run_ns;
	sum->steal_ns += c->steal_ns;
	sum->irq_ns += c->irq_ns;
	sum->wake_delay_ns += c->wake_delay_ns;
	sum->preempt_wait_ns += c->preempt_wait_ns;
	sum->yield_wait_ns += c->yield_wait_ns;
	sum->unknown_ns += c->unknown_ns;
	for (i = 0; i < COX_CAUSES; i++)
		sum->blocked_ns[i] += c->blocked_ns[i];
	sum->switches_voluntary += c->switches_voluntary;
	sum->switches_involuntary += c->switches_involuntary;
	sum->wakeups += c->wakeups;
	sum->took_ns += c->took_ns;
	sum->elsewhere_run_ns += c->run_ns;
	for (i = 0; i < COX_MIGRATIONS; i++)
		sum->migrations[i] += c->migrations[i];
	sum->impossible += c->impossible;
	sum->kernel_cpu_ns += c->kernel_cpu_ns;
	sum->kernel_delay_ns += c->kernel_delay_ns;
	return 0;
}

#endif
