/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts of waiting threads. Each count is in a cell (cox/cells.h): a 64-bit word that holds a count of threads and an integral of this count over
 * time. A tracked thread is counted from the time when it becomes runnable off a CPU until it is switched in.
 *
 * - cpus[c].waiting has the waiting time summed over threads (thread time). It tells how much waiting is charged to each thread that held CPU c.
 * - tracked.waiting[class] and cpus[c].pinned have the time in which at least one thread waited (presence). They tell whether this CPU was idle while
 *   a tracked thread that may run here waited. The class depends on the affinity mask: class 0 stands for all CPUs, and each mask with several but
 *   not all CPUs has a class of its own. A thread bound to one CPU is counted in `pinned` of that CPU.
 * - tracked.off has the time in which at least one tracked thread was off CPU (presence). It distinguishes idle time in which no tracked thread was
 *   off CPU.
 * - cpus[k].level has the time in which more than k CPUs were busy with tracked threads (a level). tracked.busy is the present number of busy CPUs.
 */
#ifndef COX_CELLS_BPF_H
#define COX_CELLS_BPF_H

#include "state.bpf.h"

/*
 * The class number of all affinity masks with a single CPU; masks with more CPUs have lower class numbers. Waiting threads are counted by mask class:
 * while a thread waits, the field `counted` of its clock is the class number plus 1; otherwise it is 0.
 */
#define CLASS_PINNED COX_MASK_CLASSES

/*
 * Repeats the update of a presence cell, which another CPU has changed at the same time. A presence cell holds a thread count, and the time for which
 * the count was not 0 (cox/cells.h). Such collisions are rare and short, so the function gives up after a few attempts instead of spinning under a
 * run queue's lock.
 */
COX_RARE int presence_step_again(u64 *cell, s32 delta, u64 t)
{
	if (!cell)
		return 0;
	for (int i = 0; i < 8; i++) {
		u64 old = *(volatile u64 *)cell;

		if (__sync_val_compare_and_swap(cell, old, cox_cell_step(old, delta, t)) == old)
			return 0;
	}
	LOSE(cells, 1);
	return 0;
}

COX_INLINE void presence_step(u64 *cell, s32 delta, u64 t)
{
	u64 old = *(volatile u64 *)cell;

	if (__sync_val_compare_and_swap(cell, old, cox_cell_step(old, delta, t)) != old)
		presence_step_again(cell, delta, t);
}

/* Returns one word of a task's affinity mask. */
COX_INLINE u64 mask_word(u64 task, u32 w)
{
	const unsigned long *bits =
		__builtin_preserve_access_index(&((struct task_struct *)task)->cpus_mask.bits[0]);
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), bits + (w & (COX_MASK_WORDS - 1)));
	return word;
}

/*
 * Returns the class of an affinity mask that has more than one CPU but not all CPUs. Each such mask has a class of its own, found by the mask's hash;
 * if the mask has none yet, a class is allocated. `task` is the address of a task with this mask, as a number (`address_of`).
 */
COX_RARE u32 partial_class(u64 task)
{
	u64 hash = 0xcbf29ce484222325ull; /* FNV-1a over words */

	for (u32 w = 0; w < COX_MASK_WORDS && w < mask_words; w++)
		hash = (hash ^ mask_word(task, w)) * 0x100000001b3ull;
	for (u32 k = 1; k < COX_MASK_CLASSES; k++) {
		u64 there = tracked.mask_hash[k];

		if (there == 0) {
			there = __sync_val_compare_and_swap(&tracked.mask_hash[k], 0, hash);
			if (there == 0) {
				for (u32 w = 0; w < COX_MASK_WORDS && w < mask_words; w++)
					tracked.masks[k][w] = mask_word(task, w);
				__sync_fetch_and_add(&tracked.classes, 1);
				return k;
			}
		}
		if (there == hash)
			return k;
	}
	LOSE(classes, 1);
	return 0;
}

COX_INLINE u32 mask_class(struct task_struct *p)
{
	u64 class, allowed = p->nr_cpus_allowed;

	if (allowed >= nr_cpus)
		class = 0;
	else if (allowed == 1)
		class = CLASS_PINNED;
	else
		class = partial_class(address_of(p));
	FORGET(class, allowed);
	return class;
}

COX_INLINE u64 *presence_cell(u32 class, u32 cpu)
{
	if (class < COX_MASK_CLASSES) {
		/* The compiler would remove the bit mask as redundant, but the verifier needs it. */
		barrier_var(class);
		return &tracked.waiting[class & (COX_MASK_CLASSES - 1)].cell;
	}
	return &cpus[cpu & (COX_MAX_CPUS - 1)].pinned;
}

/*
 * Updates the number of CPUs that run tracked threads. `ended` is the time at which this CPU stopped running a tracked thread; 0 if it did not.
 * `began` is the time at which it started running one; 0 if it did not. Not called if both times are equal: one tracked thread directly follows
 * another, so the number does not change. `ended` is counted before `began`, so that the number never exceeds the number of CPUs.
 */
COX_RARE int busy_changes(u64 ended, u64 began)
{
	u64 n;

	if (ended) {
		n = __sync_fetch_and_add(&tracked.busy, -1) - 1;
		__sync_fetch_and_add(&cpus[n & (COX_MAX_CPUS - 1)].level, ended);
	}
	if (began) {
		n = __sync_fetch_and_add(&tracked.busy, 1);
		__sync_fetch_and_add(&cpus[n & (COX_MAX_CPUS - 1)].level, 0 - began);
	}
	return 0;
}

COX_INLINE void wait_begins(struct cox_clock *c, u32 class, u64 t)
{
	u32 cpu = c->cpu & (COX_MAX_CPUS - 1);

	if (c->counted)
		return;
	c->counted = 1 + class;
	__sync_fetch_and_add(&cpus[cpu].waiting, cox_cell_arrival(t));
	presence_step(presence_cell(class, cpu), 1, t);
}

/*
 * Removes a thread from the counts of waiting threads, because its wait in the run queue of `cpu` has ended, at the time `ended`. `t` is the present
 * time.
 */
COX_INLINE void wait_ends(struct cox_clock *c, u32 cpu, u64 ended, u64 t)
{
	u32 class = c->counted - 1;

	cpu &= COX_MAX_CPUS - 1;
	c->counted = 0;
	__sync_fetch_and_add(&cpus[cpu].waiting, 0 - cox_cell_arrival(ended));
	presence_step(presence_cell(class, cpu), -1, t);
}

#endif
