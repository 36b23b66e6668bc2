/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Time integrals of a count that any CPU may change, in one 64-bit word and without a lock.
 *
 * A cell packs the count n in its low 20 bits and a sum S (modulo 2^44 ns = 4.9 h) in the others:
 *
 *   thread-time cell   W(t) = S + n t     an arrival adds (-t, +1), a departure (+t, -1)
 *   presence cell      I(t) = S + [n>0] t the same, but only on the edges 0 -> 1 and 1 -> 0
 *
 * To measure for how long k of several CPUs are busy at the same time, there is one word per level k, and one word with the count of busy CPUs:
 *
 *   level              L_k(t) = S + [n>k] t   the step from k to k+1 adds -t, the step back +t
 *
 * The atomic addition to the count returns k, so no step waits for another one. Σ L_k is the sum of all busy times, to the nanosecond and
 * independent of the order of the additions. L_{k-1} - L_k is the time for which exactly k were busy.
 *
 * The sum S of a cell overflows at the top of the word, so W and I are correct modulo 2^44, and the difference of two readings less than 2.4 h
 * apart is exact. The thread-time cell needs one atomic addition per change; the presence cell has to read the old count and needs a
 * compare-and-swap.
 *
 * Count and sum share a word, because with two words a reader between the two additions would get a value that is wrong by t.
 */
#ifndef COX_CELLS_H
#define COX_CELLS_H

#include "clock.h"

#define COX_CELL_SHIFT 20
#define COX_CELL_COUNT ((1ull << COX_CELL_SHIFT) - 1)
#define COX_CELL_SUM (~0ull >> COX_CELL_SHIFT)

COX_INLINE __u64 cox_cell_count(__u64 cell)
{
	return cell & COX_CELL_COUNT;
}

/* Returns W(t), modulo 2^44 ns: the integral over time of the number of threads that the cell counts, that is, their thread time. */
COX_INLINE __u64 cox_cell_thread_time(__u64 cell, __u64 t)
{
	return ((cell >> COX_CELL_SHIFT) + cox_cell_count(cell) * t) & COX_CELL_SUM;
}

/* Returns I(t) of a presence cell: the time for which its count was not 0, modulo 2^44 ns. */
COX_INLINE __u64 cox_cell_presence(__u64 cell, __u64 t)
{
	return ((cell >> COX_CELL_SHIFT) + (cox_cell_count(cell) ? t : 0)) & COX_CELL_SUM;
}

/*
 * Returns the time between two readings. Clocks of different CPUs differ a little, so a later reading can be slightly before an earlier one. A
 * difference of more than half the range therefore counts as 0.
 */
COX_INLINE __u64 cox_cell_since(__u64 later, __u64 earlier)
{
	__u64 since = (later - earlier) & COX_CELL_SUM;

	return since > COX_CELL_SUM / 2 ? 0 : since;
}

/* Returns what to add to a thread-time cell in order to count one thread more from time t on. To count one thread less from t on, subtract it. */
COX_INLINE __u64 cox_cell_arrival(__u64 t)
{
	return ((0 - t) << COX_CELL_SHIFT) + 1;
}

/*
 * Returns the new value of a presence cell (a count, and the time for which it was not 0) whose count changes by `delta` (+1 or -1) at time t. The
 * count never goes below zero.
 */
COX_INLINE __u64 cox_cell_step(__u64 cell, __s32 delta, __u64 t)
{
	__u64 n = cox_cell_count(cell);
	__u64 sum = cell >> COX_CELL_SHIFT;

	if (delta > 0) {
		if (n == 0)
			sum -= t;
		n++;
	} else if (n > 0) {
		n--;
		if (n == 0)
			sum += t;
	}
	return (sum << COX_CELL_SHIFT) | n;
}

#endif
