/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The headers that BPF compiles, compiled as ordinary functions for tests. */
#include "cox/cells.h"
#include "cox/latency.h"

/* Lengths of the intervals that ended since the last call of cox_native_take_ended. */
static _Thread_local struct cox_ended ended = COX_NONE_ENDED;

void cox_native_take_ended(struct cox_ended *into)
{
	static const struct cox_ended none = COX_NONE_ENDED;

	*into = ended;
	ended = none;
}

__u64 cox_native_latency_bucket(__u64 ns)
{
	return cox_latency_bucket(ns);
}

void cox_native_born(struct cox_clock *c, __u64 t)
{
	cox_clock_born(c, t);
}

void cox_native_waking(struct cox_clock *c, __u64 t)
{
	cox_clock_waking(c, t);
}

void cox_native_in(struct cox_clock *c, __u64 t, __u16 cpu, __u64 steal, __u64 irq)
{
	cox_clock_in(c, t, cpu, steal, irq, &ended);
}

void cox_native_out(struct cox_clock *c, __u64 t, __u8 state, __u8 cause, __u8 yielded, __u64 steal,
		    __u64 irq)
{
	cox_clock_out(c, t, state, cause, yielded, steal, irq, &ended);
}

void cox_native_migrate(struct cox_clock *c, __u16 cpu, __u8 old_cpu_allowed)
{
	cox_clock_migrate(c, cpu, cox_clock_migration(c, old_cpu_allowed));
}

void cox_native_add(struct cox_clock *sum, const struct cox_clock *c)
{
	cox_clock_add(sum, c);
}

__u64 cox_native_cell_arrival(__u64 t)
{
	return cox_cell_arrival(t);
}

__u64 cox_native_cell_thread_time(__u64 cell, __u64 t)
{
	return cox_cell_thread_time(cell, t);
}

__u64 cox_native_cell_presence(__u64 cell, __u64 t)
{
	return cox_cell_presence(cell, t);
}

__u64 cox_native_cell_since(__u64 later, __u64 earlier)
{
	return cox_cell_since(later, earlier);
}

__u64 cox_native_cell_step(__u64 cell, __s32 delta, __u64 t)
{
	return cox_cell_step(cell, delta, t);
}
