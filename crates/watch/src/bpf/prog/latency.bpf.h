/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the lengths of intervals in histograms, for quantiles. An interval is counted when its length is added to the thread's clock (account of
 * time).
 *
 * With `--latency`, the first threads get a place, that is, histograms of their own, which count their intervals. All other intervals are counted in
 * histograms that belong to the thread's program and to the CPU. Only one CPU at a time writes to a histogram, because a thread switches on one CPU
 * at a time, with the run queue locked. So no atomic operation is needed.
 */
#ifndef COX_LATENCY_BPF_H
#define COX_LATENCY_BPF_H

#include "cox/latency.h"
#include "state.bpf.h"

const volatile u32 latency_cpus = 1;    /* the highest CPU number, plus 1 */
const volatile u32 latency_shared = 1;  /* number of histograms of programs: programs times CPUs */
const volatile u32 latency_threads = 0; /* number of histograms of threads, which follow those of programs */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct cox_latencies));
} latencies SEC(".maps");

/* A global function, so that the verifier checks it once and not again at each call. `flags`: the flags of the thread's clock (account of time). */
__attribute__((noinline)) int count_interval(u32 flags, u32 interval, u64 ns)
{
	u32 at = flags >> COX_PLACE_SHIFT;
	struct cox_latencies *l;
	u64 word;

	if (!has_clocks || interval >= COX_INTERVALS)
		return 0;
	if (latency_threads && at) {
		at += latency_shared - 1;
	} else {
		at = (flags & COX_PROGRAM_MASK) / (1 << COX_PROGRAM_SHIFT) * latency_cpus + bpf_get_smp_processor_id();
		/* There are histograms only for the first programs; the intervals of further programs are not counted. */
		if (at >= latency_shared)
			return 0;
	}
	l = bpf_map_lookup_elem(&latencies, &at);
	if (!l)
		return 0;
	word = cox_latency_bucket(ns);
	if (word < COX_LATENCY_BUCKETS)
		l->of[interval][word]++;
	if (l->of[interval][COX_LATENCY_BUCKETS] < ns)
		l->of[interval][COX_LATENCY_BUCKETS] = ns;
	return 0;
}

COX_INLINE void cox_interval_closed(const struct cox_clock *c, u64 interval, u64 ns)
{
	count_interval(c->flags, interval, ns);
}

/*
 * Returns the index, counted from 1, of the set of histograms that a new thread gets for itself. The index is shifted by COX_PLACE_SHIFT, to its bits
 * in the flags of the thread's clock (account of time). Returns 0 if all such sets are in use. `number` is how many threads were tracked before this
 * one.
 */
COX_INLINE u32 latency_place(u64 number)
{
	return number < latency_threads ? (u32)(number + 1) << COX_PLACE_SHIFT : 0;
}

#endif
