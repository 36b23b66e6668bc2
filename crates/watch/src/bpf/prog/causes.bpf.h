/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Why a thread blocks: from the system call in its user registers, in_iowait and the descriptor. */
#ifndef COX_CAUSES_BPF_H
#define COX_CAUSES_BPF_H

#include "state.bpf.h"

/* Number of the system call a task is in, or -1 outside one (a fault, an interrupt). */
COX_INLINE s64 syscall_of(struct task_struct *p)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);

	return (s32)regs->orig_ax;
}

/* Why `task` blocks now; where that hangs on a descriptor, `c` remembers which. */
COX_INLINE u8 cause_of_block(struct task_struct *task, struct cox_clock *c)
{
	u32 state = task->__state;
	struct pt_regs *regs;
	bool iowait;
	s64 nr;
	u8 cause;

	if (state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN))
		return COX_STOPPED;
	iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	if (task->flags & (PF_IO_WORKER | PF_KTHREAD))
		return iowait ? COX_DISK : COX_OTHER; /* no user registers */
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	nr = (s32)regs->orig_ax;
	if (nr < 0)
		return COX_PAGE_FAULT; /* its read, or the lock on the address space */
	if (task->thread_info.status & TS_COMPAT)
		return iowait ? COX_DISK : COX_OTHER; /* another numbering */
	if (nr >= 512)
		return COX_OTHER;
	if (iowait && nr != nr_io_uring_enter)
		return COX_DISK;
	/* The mask tells the verifier what the comparison already says. */
	cause = cause_of_syscall[nr & 511];
	if (cause == COX_BY_FD)
		/* The top bit: read(0) must differ from "none yet". */
		c->fd_now = 1ull << 63 | (u64)nr << 32 | (u32)regs->di;
	return cause;
}

/* What the descriptor in the first argument is. About ten dependent loads: not for each block. */
static __attribute__((noinline)) u8 cause_of_fd(struct task_struct *p, u32 fd)
{
	struct fdtable *fdt = BPF_CORE_READ(p, files, fdt);
	struct file **array = BPF_CORE_READ(fdt, fd);
	struct file *file = NULL;
	struct inode *inode;
	u16 mode;

	if (!array || fd >= BPF_CORE_READ(fdt, max_fds))
		return COX_OTHER;
	bpf_probe_read_kernel(&file, sizeof(file), array + fd);
	if (!file)
		return COX_OTHER;
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (mode == S_IFIFO)
		return COX_PIPE;
	if (mode == S_IFSOCK) {
		struct socket *socket = BPF_CORE_READ(file, private_data);

		return BPF_CORE_READ(socket, sk, __sk_common.skc_family) == AF_UNIX ? COX_PIPE :
										      COX_NETWORK;
	}
	if (BPF_CORE_READ(inode, i_sb, s_magic) == ANON_INODE_FS_MAGIC)
		return COX_POLL; /* eventfd, timerfd, signalfd, inotify */
	if (mode == S_IFCHR)
		return COX_OTHER; /* a terminal, a device */
	return COX_DISK;
}

/* Blocks shorter than this may reuse the answer for the same call on the same descriptor number. */
#define FD_REUSE_NS 20000

/*
 * Resolve COX_BY_FD at the end of a block, when its length is known: the thread is still inside the
 * call. Only a short block may take a remembered answer, so a descriptor number that has changed
 * hands can misplace microseconds, never a long wait.
 */
COX_INLINE void resolve_cause(struct task_struct *p, struct cox_clock *c, u64 t)
{
	if (c->state != COX_BLOCKED || c->cause != COX_BY_FD)
		return;
	if (c->fd_now != c->fd_key || t - c->since_ns > FD_REUSE_NS) {
		c->fd_key = c->fd_now;
		c->fd_cause = cause_of_fd(p, c->fd_now);
	}
	c->cause = c->fd_cause;
}

#endif
