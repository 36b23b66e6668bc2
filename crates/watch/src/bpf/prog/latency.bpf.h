/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts how long single waits and slices took, for quantiles. An interval is counted once, when the clock books its time.
 *
 * With histograms of threads, a thread's intervals go to its own histograms, as long as there is memory. All others go to its program's histograms, of
 * which each CPU has its own. So each histogram has one writer, which holds the lock of a run queue, and needs no atomic operation.
 */
#ifndef COX_LATENCY_BPF_H
#define COX_LATENCY_BPF_H

#include "cox/latency.h"
#include "state.bpf.h"

const volatile u32 latency_cpus = 1;    /* one more than the highest CPU number */
const volatile u32 latency_shared = 1;  /* histograms of programs: for each program, those of all CPUs */
const volatile u32 latency_threads = 0; /* histograms of threads, behind them */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct cox_latencies));
} latencies SEC(".maps");

COX_INLINE void cox_interval_closed(const struct cox_clock *c, u64 interval, u64 ns)
{
	u32 at = c->flags >> COX_PLACE_SHIFT;
	struct cox_latencies *l;
	u64 word;

	if (latency_threads && at) {
		at += latency_shared - 1;
	} else {
		at = (c->flags & COX_PROGRAM_MASK) / (1 << COX_PROGRAM_SHIFT) * latency_cpus + bpf_get_smp_processor_id();
		/* There was no memory for this program's histograms. */
		if (at >= latency_shared)
			return;
	}
	l = bpf_map_lookup_elem(&latencies, &at);
	if (!l)
		return;
	word = cox_latency_bucket(ns);
	if (word < COX_LATENCY_BUCKETS)
		l->of[interval][word]++;
	if (l->of[interval][COX_LATENCY_BUCKETS] < ns)
		l->of[interval][COX_LATENCY_BUCKETS] = ns;
}

/* Returns the place of a new thread, for its flags: its number among all tracked threads. */
COX_INLINE u32 latency_place(u64 number)
{
	return number < latency_threads ? (u32)(number + 1) << COX_PLACE_SHIFT : 0;
}

#endif
