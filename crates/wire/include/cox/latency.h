/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Histograms of the lengths of intervals (wake delays, preempt waits, blocks, time slices), for quantiles.
 *
 * The histograms are log-linear as in HdrHistogram: 32 buckets of equal width for each power of two. The middle of a bucket differs from each length
 * in it by at most 1/64 (1.6 %). Each length below 64 ns has its own bucket. The last bucket counts all lengths from 2^48 ns (3 days) on.
 *
 * `ledger` computes the bucket in Rust, and a test compares both functions.
 */
#ifndef COX_LATENCY_H
#define COX_LATENCY_H

#include "clock.h"

#define COX_LATENCY_BUCKETS 1409
#define COX_LATENCY_BITS 48

/* One histogram for each kind of interval: the number of intervals by bucket, then the length of the longest interval in ns. */
struct cox_latencies {
	__u64 of[COX_INTERVALS][COX_LATENCY_BUCKETS + 1];
};

#define COX_LOG2_16(n) n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n
/* Position of the highest set bit of a byte; 0 for a byte of 0. */
static const __u8 cox_log2[256] = {
	0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, COX_LOG2_16(4), COX_LOG2_16(5), COX_LOG2_16(5),
	COX_LOG2_16(6), COX_LOG2_16(6), COX_LOG2_16(6), COX_LOG2_16(6),
	COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7),
	COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7),
};

/*
 * Returns the bucket of a length. BPF has no instruction that finds the highest set bit, so the loop shifts by 8 bits at a time and the table does
 * the rest. An interval shorter than 2 ms needs at most one shift.
 */
COX_INLINE __u64 cox_latency_bucket(__u64 ns)
{
	__u64 power = 0;

	if (ns >> COX_LATENCY_BITS)
		return COX_LATENCY_BUCKETS - 1;
	while (ns >> power >> 13)
		power += 8;
	power += cox_log2[(ns >> power >> 5) & 255];
	/* Values below 64 have power 0. */
	return (power << 5) + (ns >> power);
}

#endif
