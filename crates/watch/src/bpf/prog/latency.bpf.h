/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the lengths of intervals in histograms, for quantiles. An interval is counted in the handler that adds its length to the thread's clock
 * (account of time).
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

/* Returns the set of histograms for the intervals of a thread whose clock (account of time) has these flags; NULL if there is none. */
COX_INLINE struct cox_latencies *histograms_of(u32 flags)
{
	u32 at = flags >> COX_PLACE_SHIFT;

	if (latency_threads && at) {
		at += latency_shared - 1;
	} else {
		at = (flags & COX_PROGRAM_MASK) / (1 << COX_PROGRAM_SHIFT) * latency_cpus + bpf_get_smp_processor_id();
		/* There are histograms only for the first programs; the intervals of further programs are not counted. */
		if (at >= latency_shared)
			return NULL;
	}
	return bpf_map_lookup_elem(&latencies, &at);
}

/* Counts an interval of `ns` nanoseconds, unless `ns` is COX_NO_INTERVAL. */
COX_INLINE void count_interval(struct cox_latencies *histograms, u32 interval, u64 ns)
{
	u64 bucket;

	if (ns == COX_NO_INTERVAL)
		return;
	bucket = cox_latency_bucket(ns);
	if (bucket < COX_LATENCY_BUCKETS)
		histograms->of[interval][bucket]++;
	if (histograms->of[interval][COX_LATENCY_BUCKETS] < ns)
		histograms->of[interval][COX_LATENCY_BUCKETS] = ns;
}

/*
 * Counts the intervals that a switch has ended: the time slice of the thread that leaves the CPU, and the waits of the thread that comes. `flags_out`
 * and `flags_in` are the flags of their clocks (accounts of time); those of a thread of which no interval has ended are not used. This is a global
 * function, so that the verifier checks it once and not on each path to the call. It counts all intervals of a switch, because a call costs about as
 * much time as the counting of an interval.
 */
__attribute__((noinline)) int count_intervals(u32 flags_out, u32 flags_in, struct cox_ended *ended)
{
	struct cox_latencies *histograms;

	if (!has_clocks || !ended)
		return 0;
	histograms = histograms_of(flags_out);
	if (histograms)
		count_interval(histograms, COX_INTERVAL_SLICE, ended->ns[COX_INTERVAL_SLICE]);
	histograms = histograms_of(flags_in);
	if (!histograms)
		return 0;
	count_interval(histograms, COX_INTERVAL_WAKE_DELAY, ended->ns[COX_INTERVAL_WAKE_DELAY]);
	count_interval(histograms, COX_INTERVAL_PREEMPT_WAIT, ended->ns[COX_INTERVAL_PREEMPT_WAIT]);
	count_interval(histograms, COX_INTERVAL_BLOCKED, ended->ns[COX_INTERVAL_BLOCKED]);
	return 0;
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
