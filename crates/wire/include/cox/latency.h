/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Histograms of how long single waits and slices took, for quantiles.
 *
 * They are log-linear like HdrHistogram's: 32 buckets of equal width for each power of two. The middle of a bucket differs from each value in it
 * by at most 1/64 (1.6 %). Each value below 64 has its own bucket, and the last bucket has all values from 2^48 ns (3 days) on.
 *
 * `ledger` has the same rule in Rust, and a test compares the two.
 */
#ifndef COX_LATENCY_H
#define COX_LATENCY_H

#include "clock.h"

#define COX_LATENCY_BUCKETS 1409
#define COX_LATENCY_BITS 48

/* For each kind of interval: the number of intervals by bucket, then the longest interval in ns. */
struct cox_latencies {
	__u64 of[COX_INTERVALS][COX_LATENCY_BUCKETS + 1];
};

#define COX_LOG2_16(n) n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n
/* The position of the highest bit of a byte; of 0: 0. */
static const __u8 cox_log2[256] = {
	0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, COX_LOG2_16(4), COX_LOG2_16(5), COX_LOG2_16(5),
	COX_LOG2_16(6), COX_LOG2_16(6), COX_LOG2_16(6), COX_LOG2_16(6),
	COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7),
	COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7), COX_LOG2_16(7),
};

/* BPF has no instruction for the position of the highest bit. Most intervals are shorter than 2 ms and take one or two of the branches. */
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
