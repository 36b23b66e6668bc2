/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What keeps the verifier's work small. Loading the programs is most of what starting cox takes, and verifying them is most of that: it
 * follows every path through a program, and a path ends early only where all registers hold what they held when it came by before.
 *
 * To see the paths: load with log level 4 for the number of instructions processed, 2 for each of them.
 */
#ifndef COX_VERIFIER_BPF_H
#define COX_VERIFIER_BPF_H

#include "kernel.h"

extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/*
 * Whether this kernel has bpf_rdonly_cast. A setting, and not a test of the symbol, which kernels
 * before 6.4 refuse; and constant, so that the verifier sees one kind of pointer where clang merges
 * the loads of both branches.
 */
const volatile bool casts = false;

/* What is cast to, as the kernel numbers its types. Settings, as libbpf relocates by an excerpt of them, in which they have other numbers. */
const volatile u32 type_of_task = 0;
const volatile u32 type_of_registers = 0;

/*
 * The same task, to load pointers from. The verifier trusts the original. For each load of a pointer from a trusted object it searches all
 * types of the kernel, by name, for up to four lists of fields that are trusted too (since Linux 6.2); these searches were a quarter of the
 * time that loading took. Of an object that it does not trust it searches nothing. The cast itself is a move.
 */
COX_INLINE struct task_struct *untrusted(struct task_struct *p)
{
	return casts ? bpf_rdonly_cast(p, type_of_task) : p;
}

/* Nearly every thread that is not observed has no storage of any kind: one load instead of a call. */
COX_INLINE bool has_storage(struct task_struct *p)
{
	return untrusted(p)->bpf_storage;
}

/*
 * Makes the verifier forget the value of a variable, so that paths which differ in it alone become one. `any` is a number whose value the
 * verifier does not know. Constants that are tested later, or added to a pointer, are worth it.
 */
#define FORGET(x, any) asm volatile("%0 += %1; %0 -= %1" : "+r"(x) : "r"(any))

/*
 * The address of a task as a number. The verifier reads a global function once, and not for each state of each caller, but as arguments
 * these functions take only numbers and pointers to plain memory. The difference of two pointers is a number, and the running task is
 * to be had as both.
 */
COX_INLINE u64 address_of(struct task_struct *p)
{
	u64 from_current = (u64)p - (u64)bpf_get_current_task_btf();

	barrier_var(from_current);
	return from_current + bpf_get_current_task();
}

#endif
