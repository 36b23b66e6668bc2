/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Determines why a thread blocks, from the system call in its user registers, in_iowait and the file descriptor. */
#ifndef COX_CAUSES_BPF_H
#define COX_CAUSES_BPF_H

#include "registers.bpf.h"
#include "state.bpf.h"

/* Returns why `task` blocks now. If that depends on a descriptor, stores the descriptor in `c`. */
COX_INLINE u8 cause_of_block(struct task_struct *task, struct cox_clock *c)
{
	u32 state = task->__state;
	struct user_call call;
	bool iowait;
	u8 cause;

	if (state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN))
		return COX_STOPPED;
	iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	if (task->flags & (PF_IO_WORKER | PF_KTHREAD))
		return iowait ? COX_DISK : COX_OTHER; /* kernel and io_uring threads have no user registers */
	call = user_call_of(task);
	if (call.nr < 0)
		return COX_PAGE_FAULT; /* the thread waits until the page is read, or for the lock on the address space */
	if (cox_other_numbers(&task->thread_info))
		return iowait ? COX_DISK : COX_OTHER; /* a 32-bit call: system calls have other numbers */
	if (call.nr >= 512)
		return COX_OTHER;
	if (iowait && call.nr != nr_io_uring_enter)
		return COX_DISK;
	/* The verifier needs the bit mask, although the comparison above implies it. */
	cause = cause_of_syscall[call.nr & 511];
	if (cause == COX_BY_FD)
		/* The top bit is always set. Without it, a read of descriptor 0 would give the value 0, which means that no call is stored. */
		c->fd_now = 1ull << 63 | (u64)call.nr << 32 | call.fd;
	return cause;
}

/*
 * Returns why a thread blocks on the descriptor `fd` of the table `files`, from the type of the descriptor's file. This takes about ten dependent
 * loads, so it is not done each time a thread blocks. `files` is an address in the form of a number, since a global function takes only numbers and
 * pointers to plain memory.
 */
COX_RARE u32 cause_of_file(u64 files, u32 fd)
{
	struct fdtable *fdt = BPF_CORE_READ((struct files_struct *)files, fdt);
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

COX_INLINE u32 cause_of_fd(struct task_struct *p, u32 fd)
{
	return cause_of_file((u64)BPF_CORE_READ(p, files), fd);
}

/*
 * Nanoseconds. The file of a descriptor is not looked up again if the thread was blocked for at most this time, in the same system call and on the
 * same descriptor number as at the last look-up. The cause that the last look-up found is then used.
 */
#define FD_REUSE_NS 20000

/*
 * Called when a thread's blocked time ends. If its cause depends on a descriptor (COX_BY_FD), sets the cause from the type of the descriptor's file.
 * At this point the length of the blocked time is known, and the thread is still in the system call. A blocked time of at most FD_REUSE_NS may get
 * the cause of the last look-up. If the descriptor number belongs to another file by then, some microseconds get a wrong cause, but never a long
 * wait.
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
