/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes trace events into a ring, if a trace is wanted, with the times that the clocks use. */
#ifndef COX_TRACE_BPF_H
#define COX_TRACE_BPF_H

#include "cox/trace_event.h"
#include "state.bpf.h"

const volatile bool traces = false;
const volatile u32 trace_wake_bytes = 8 << 20; /* wake the reader when `trace_events` holds more than this */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} trace_events SEC(".maps");

/*
 * For each CPU, the number of trace events that were lost and not yet reported. Only programs on that CPU write its entry. Two of them may do so at
 * the same time, because a program at a switch or a waking may interrupt a program in a system call.
 */
struct cox_gap gaps[COX_MAX_CPUS];

COX_INLINE int push_trace_event(struct cox_trace_event *m)
{
	/* The reader is woken only when the ring fills up; it reads the ring every 100 ms anyway. */
	u64 wake = bpf_ringbuf_query(&trace_events, BPF_RB_AVAIL_DATA) > trace_wake_bytes ? BPF_RB_FORCE_WAKEUP :
										       BPF_RB_NO_WAKEUP;

	return bpf_ringbuf_output(&trace_events, m, sizeof(*m), wake);
}

/*
 * Reports how many trace events of a CPU were lost (its gap), before any later event of the CPU. Returns false if the ring still has no room
 * for this report.
 */
static __attribute__((noinline)) int tell_gap(u32 cpu)
{
	struct cox_gap *gap = &gaps[cpu & (COX_MAX_CPUS - 1)];
	struct cox_trace_event m = { .kind = COX_EVENT_LOST };

	m.t_ns = gap->since_ns;
	m.other = __sync_lock_test_and_set(&gap->count, 0);
	m.cpu = cpu;
	if (m.other && push_trace_event(&m)) {
		__sync_fetch_and_add(&gap->count, m.other);
		return 0;
	}
	return 1;
}

/*
 * Writes a trace event of the CPU on which this runs. It is not inlined, because it is called from many places. If no trace is wanted, it is not
 * called.
 */
static __attribute__((noinline)) int put_trace_event(struct cox_trace_event *m)
{
	u32 cpu = bpf_get_smp_processor_id() & (COX_MAX_CPUS - 1);
	struct cox_gap *gap = &gaps[cpu];

	if (!m)
		return 0;
	if (gap->count == 0 || tell_gap(cpu)) {
		if (push_trace_event(m) == 0)
			return 0;
		gap->since_ns = m->t_ns;
	}
	__sync_fetch_and_add(&gap->count, 1);
	LOSE(trace_events, 1);
	return 0;
}

COX_INLINE void write_trace_event(u64 t, u8 kind, u32 tid, u32 other, u32 cpu, u8 detail, u32 more)
{
	struct cox_trace_event m;

	if (!traces)
		return;
	m.t_ns = t;
	m.tid = tid;
	m.other = other;
	m.cpu = cpu;
	m.kind = kind;
	m.detail = detail;
	m.more = more;
	put_trace_event(&m);
}

#endif
