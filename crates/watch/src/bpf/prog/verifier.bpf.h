/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Techniques that keep the verifier's work small. Most of cox's start-up time is the loading of the programs, and most of that is verification.
 * The verifier follows every path through a program; a path ends early only at an instruction where all registers have the same values as on an
 * earlier visit.
 *
 * To see the paths, load with log level 4 for the number of instructions processed, or level 2 for each instruction.
 */
#ifndef COX_VERIFIER_BPF_H
#define COX_VERIFIER_BPF_H

#include "kernel.h"

extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/*
 * Whether this kernel has bpf_rdonly_cast. User space sets it before the programs are loaded: kernels before 6.4 reject a program that itself tests
 * whether the symbol exists. It is constant, so the verifier knows its value and follows only one branch of a test of it. This matters where clang
 * merges the loads of both branches into one: if the verifier followed both branches, this load would have two kinds of pointers.
 */
const volatile bool casts = false;

/*
 * The ids of the types to which pointers are cast, as the kernel's complete BTF numbers them. User space sets them before loading: libbpf relocates
 * by an excerpt of the BTF (excerpt.rs), in which the same types have other ids.
 */
const volatile u32 type_of_task = 0;
const volatile u32 type_of_registers = 0;

/*
 * Returns the same task as an untrusted pointer, for loading pointers from it. If a pointer is loaded from a trusted object, the verifier (since
 * Linux 6.2) looks for up to four lists of the object's fields that are trusted too. It looks for each list by name among all types of the kernel;
 * for all loads together, this took a quarter of the loading time. For an untrusted object, the verifier does not look for these lists. The cast
 * itself is a single move instruction.
 */
COX_INLINE struct task_struct *untrusted(struct task_struct *p)
{
	return casts ? bpf_rdonly_cast(p, type_of_task) : p;
}

/* Returns whether a thread has task storage. Nearly all untracked threads have none; one load shows that, without a call. */
COX_INLINE bool has_storage(struct task_struct *p)
{
	return untrusted(p)->bpf_storage;
}

/*
 * Makes the verifier forget the value of a variable, so that paths that differ only in it become one. `any` is a number whose value the verifier does
 * not know. Use it for constants that are tested later or added to a pointer.
 */
#define FORGET(x, any) asm volatile("%0 += %1; %0 -= %1" : "+r"(x) : "r"(any))

/*
 * Returns the address of a task as a number, to pass it to a global function. The verifier checks a global function only once, not again for each
 * state of each caller. But such a function takes only numbers and pointers to plain memory, so a task cannot be passed as a pointer. To the
 * verifier, the difference of two pointers is a number. The function therefore computes the distance from the running task to `p`, and adds the
 * running task's address, which a second helper returns as a number.
 */
COX_INLINE u64 address_of(struct task_struct *p)
{
	u64 from_current = (u64)p - (u64)bpf_get_current_task_btf();

	barrier_var(from_current);
	return from_current + bpf_get_current_task();
}

#endif
