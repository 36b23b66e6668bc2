/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The processor-dependent part of the BPF programs: the user registers of a task, its stack, and whether it runs in 32-bit mode.
 * The kernel's structs are declared with only the fields that are read; CO-RE finds their offsets.
 */
#ifndef COX_PROCESSOR_H
#define COX_PROCESSOR_H

#include "cox/cells.h"

#if defined(__TARGET_ARCH_x86)

/* Size of a task's kernel stack (arch/x86/include/asm/page_64_types.h), without KASAN. */
#define COX_STACK_BYTES 16384

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	unsigned int status;
};

struct pt_regs {
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
};

#pragma clang attribute pop

/* Indices into the registers of an interrupted program. They are fixed by the user ABI of x86-64, so no relocation is needed. */
enum { COX_REG_IP = 16, COX_REG_CS = 17, COX_REGS = 21 };
struct bpf_perf_event_data {
	__u64 regs[COX_REGS];
};

/* Returns the number of the system call that a task is in; -1 outside a system call (a fault, an interrupt). */
COX_INLINE __s64 cox_call_nr(struct pt_regs *regs)
{
	return (__s32)regs->orig_ax;
}

COX_INLINE __u32 cox_first_argument(struct pt_regs *regs)
{
	return regs->di;
}

COX_INLINE __u64 cox_user_ip(struct pt_regs *regs)
{
	return regs->ip;
}

/* Returns nonzero if the task is in a 32-bit system call, whose number is from another table (TS_COMPAT). */
COX_INLINE int cox_other_numbers(struct thread_info *info)
{
	return info->status & 2;
}

/* Returns whether a sample was taken in user mode. */
COX_INLINE int cox_sampled_user(struct bpf_perf_event_data *sampled)
{
	return (sampled->regs[COX_REG_CS] & 3) == 3;
}

COX_INLINE __u64 cox_sampled_ip(struct bpf_perf_event_data *sampled)
{
	return sampled->regs[COX_REG_IP];
}

#elif defined(__TARGET_ARCH_arm64)

/* Size of a task's kernel stack (arch/arm64/include/asm/memory.h), without KASAN, for pages of 4 KiB. */
#define COX_STACK_BYTES 16384

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	unsigned long flags;
};

struct pt_regs {
	unsigned long long pc;
	unsigned long long orig_x0;
	unsigned int syscallno;
};

#pragma clang attribute pop

/* Indices into the registers of an interrupted program, fixed by the user ABI of arm64 (struct user_pt_regs). */
enum { COX_REG_PC = 32, COX_REG_PSTATE = 33, COX_REGS = 34 };
struct bpf_perf_event_data {
	__u64 regs[COX_REGS];
};

COX_INLINE __s64 cox_call_nr(struct pt_regs *regs)
{
	return (__s32)regs->syscallno;
}

COX_INLINE __u32 cox_first_argument(struct pt_regs *regs)
{
	return regs->orig_x0;
}

COX_INLINE __u64 cox_user_ip(struct pt_regs *regs)
{
	return regs->pc;
}

/* TIF_32BIT */
COX_INLINE int cox_other_numbers(struct thread_info *info)
{
	return info->flags >> 22 & 1;
}

/* PSR_MODE_EL0t */
COX_INLINE int cox_sampled_user(struct bpf_perf_event_data *sampled)
{
	return (sampled->regs[COX_REG_PSTATE] & 15) == 0;
}

COX_INLINE __u64 cox_sampled_ip(struct bpf_perf_event_data *sampled)
{
	return sampled->regs[COX_REG_PC];
}

#else
#error "registers of this processor are not known: add them here"
#endif

#endif
