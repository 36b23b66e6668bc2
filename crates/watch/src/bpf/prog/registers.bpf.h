/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The user registers of a task in the kernel: the system call that it is in, and its first argument.
 *
 * They lie at the same distance from the start of each task's stack, which is determined once by bpf_task_pt_regs. After that, one load is enough.
 * A helper call is slower with mitigations that guard returns, because the returns are then mispredicted (13 ns instead of 2 ns on an AMD guest).
 * Both hot paths need the registers. Kernels without bpf_rdonly_cast (before 6.2) always use the helper.
 */
#ifndef COX_REGISTERS_BPF_H
#define COX_REGISTERS_BPF_H

#include "ids.bpf.h"

u64 regs_distance;

struct user_call {
	s64 nr; /* -1 outside a system call (a fault, an interrupt) */
	u32 fd; /* the first argument */
};

/*
 * Stores the distance from the start of a task's stack to its user registers, which is the same for all tasks. Every enrolment calls this with the
 * first task of the walk over all tasks, before any thread is tracked. That task is the init process of the PID namespace, so its stack is not freed
 * while this function reads the two addresses.
 */
COX_INLINE void learn_regs_distance(struct task_struct *p)
{
	/*
	 * The difference is computed in 32 bits, because the verifier of kernels before 6.17 takes a 64-bit difference for a pointer that leaves its
	 * object.
	 */
	if (!regs_distance)
		regs_distance = (u32)(u64)bpf_task_pt_regs(p) - (u32)(u64)untrusted(p)->stack;
}

COX_INLINE struct pt_regs *registers_of(struct task_struct *p)
{
	if (casts)
		return bpf_rdonly_cast(untrusted(p)->stack + regs_distance, type_of_registers);
	return (struct pt_regs *)bpf_task_pt_regs(p);
}

COX_INLINE struct user_call user_call_of(struct task_struct *p)
{
	struct pt_regs *regs = registers_of(p);
	struct user_call call;

	call.nr = cox_call_nr(regs);
	call.fd = cox_first_argument(regs);
	return call;
}

#endif
