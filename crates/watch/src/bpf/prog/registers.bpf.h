/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The user registers of a task in the kernel: which system call it is in, and its first argument.
 *
 * They lie at one distance from the start of each task's stack, which bpf_task_pt_regs tells once.
 * After that a load does: a helper call costs two mispredicted returns where returns are guarded
 * (13 ns beside 2 on an AMD guest), and both hot paths need the registers. Kernels without
 * bpf_rdonly_cast (before 6.2) go on asking the helper.
 */
#ifndef COX_REGISTERS_BPF_H
#define COX_REGISTERS_BPF_H

#include "state.bpf.h"

extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

u64 regs_distance; /* 0: not learnt yet */

struct user_call {
	s64 nr; /* -1 outside a system call (a fault, an interrupt) */
	u32 fd; /* the first argument */
};

/* Every enrolment comes by here before any member is switched. */
COX_INLINE void learn_regs_distance(struct task_struct *p)
{
	if (!regs_distance)
		regs_distance = (u64)bpf_task_pt_regs(p) - (u64)p->stack;
}

COX_INLINE struct user_call user_call_of(struct task_struct *p)
{
	struct user_call call;
	struct pt_regs *regs;

	/* Not one pointer from two sources: the verifier keeps their kinds apart. */
	if (bpf_rdonly_cast && regs_distance) {
		regs = bpf_rdonly_cast(p->stack + regs_distance, bpf_core_type_id_kernel(struct pt_regs));
		call.nr = (s32)regs->orig_ax;
		call.fd = regs->di;
	} else {
		regs = (struct pt_regs *)bpf_task_pt_regs(p);
		call.nr = (s32)regs->orig_ax;
		call.fd = regs->di;
	}
	return call;
}

#endif
