/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The place of a sampled task in its code: the instruction in user mode, or the system call that it made from there. */
#ifndef COX_PLACE_BPF_H
#define COX_PLACE_BPF_H

#include "ids.bpf.h"

COX_INLINE void sample_place(struct cox_sample *sample, struct bpf_perf_event_data *ctx, struct task_struct *p)
{
	if (cox_sampled_user(ctx)) {
		sample->ip = cox_sampled_ip(ctx);
	} else if (!(p->flags & (PF_IO_WORKER | PF_KTHREAD))) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);
		s64 call = cox_call_nr(regs);

		sample->ip = cox_user_ip(regs);
		sample->in_kernel = call < 0 ? COX_NO_CALL : 1 + (u32)call;
	} else {
		/* A thread of the kernel, such as an io_uring worker, has no user registers. */
		sample->in_kernel = COX_NO_CALL;
	}
}

#endif
