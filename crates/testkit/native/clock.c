/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The headers that BPF compiles, compiled as ordinary functions for tests. */
#include "cox/cells.h"
#include "cox/latency.h"

/* Lengths of the intervals that ended since the last call of cox_native_take_closed, by kind; ~0 if none ended. */
static _Thread_local __u64 closed[COX_INTERVALS];

COX_INLINE void cox_interval_closed(const struct cox_clock *c, __u64 interval, __u64 ns)
{
	(void)c;
	closed[interval] = ns;
}

void cox_native_take_closed(__u64 *into)
{
	for (int i = 0; i < COX_INTERVALS; i++) {
		into[i] = closed[i];
		closed[i] = ~0ull;
	}
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
	cox_clock_in(c, t, cpu, steal, irq);
}

void cox_native_out(struct cox_clock *c, __u64 t, __u8 state, __u8 cause, __u8 yielded, __u64 steal,
		    __u64 irq)
{
	cox_clock_out(c, t, state, cause, yielded, steal, irq);
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
