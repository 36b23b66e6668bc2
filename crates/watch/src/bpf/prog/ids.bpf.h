/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ids of threads and processes: which of the kernel's several is meant. This is the one place that knows.
 *
 * A task has an id in its own PID namespace and in each one above it. Everything that leaves these programs and is called a tid or a
 * tgid is the id in *cox's* namespace: it is what cox finds in /proc, what people pass to --pid and see in ps(1). Where cox is in the
 * machine's first namespace, as nearly always, that is task->pid, and the verifier drops the rest.
 *
 * A thread that cox's namespace does not show (a stranger that held a CPU, or woke a thread) keeps the machine's id with COX_OUTSIDE set,
 * so that it is never taken for the thread that has this number inside.
 */
#ifndef COX_IDS_BPF_H
#define COX_IDS_BPF_H

#include "verifier.bpf.h"

/* Whether cox is in another PID namespace than the machine's first, and the number of that namespace (/proc/self/ns/pid). */
const volatile bool namespaced = false;
const volatile u32 own_namespace = 0;

/*
 * One user's observation (a cox without capabilities, which asks cox-observe): only that user's threads become members, and no other user's thread
 * is named. All three user ids count, as the kernel numbers users, so a set-user-id program belongs to nobody but its owner. `real_cred`, not
 * `cred`: file systems borrow the latter (overlayfs works with the rights of whoever mounted it). Off for root, and the verifier drops it.
 */
const volatile bool owned = false;
const volatile u32 owner = 0;

COX_INLINE bool is_owners(struct task_struct *p)
{
	const struct cred *cred = untrusted(p)->real_cred;

	return cred->uid.val == owner && cred->euid.val == owner && cred->suid.val == owner;
}

/* Whether nothing that names this thread may leave these programs. Kernel threads are no user's. */
COX_INLINE bool is_hidden(struct task_struct *p)
{
	return owned && !(p->flags & PF_KTHREAD) && !is_owners(p);
}

/*
 * Whether a living thread may be enrolled: as ptrace(2) sees it, not one with more rights than its user has. Its group ids are compared with each other:
 * those of a set-group-id program differ, also after it has let itself be traced again.
 */
COX_INLINE bool has_no_more_rights(struct task_struct *p)
{
	const struct cred *cred = untrusted(p)->real_cred;
	u64 capabilities = ~0ull;

	if (!owned)
		return true;
	bpf_core_read(&capabilities, sizeof(capabilities), &p->real_cred->cap_permitted);
	return is_owners(p) && cred->gid.val == cred->egid.val && cred->gid.val == cred->sgid.val && !capabilities;
}

/* Whether an exec ends the observation of this thread: the program has more rights than this user, or is another user's. */
COX_INLINE bool gains_rights(struct task_struct *p, struct linux_binprm *bprm)
{
	return owned && (BPF_CORE_READ_BITFIELD(bprm, secureexec) || !is_owners(p));
}

COX_INLINE void copy_name(char *to, struct task_struct *p)
{
	if (is_hidden(p))
		__builtin_memcpy(to, COX_ANOTHER_USERS_NAME, COX_COMM_LEN);
	else
		__builtin_memcpy(to, p->comm, COX_COMM_LEN);
}

/* How deep cox's namespace is: learned by the first walk over the tasks, which runs on cox's behalf, before there is any member. */
u32 own_level;

COX_INLINE void learn_own_level(void)
{
	struct task_struct *current = bpf_get_current_task_btf();

	if (namespaced && !own_level)
		own_level = untrusted(current)->thread_pid->level;
}

/* The id of a task at a level of namespaces, and in which one. By probing: the array's declared length differs between kernels. */
COX_INLINE struct upid upid_at(struct pid *pid, u32 level)
{
	u64 place = (u64)pid + bpf_core_field_offset(struct pid, numbers) + (u64)level * bpf_core_type_size(struct upid);
	struct upid id = {};

	bpf_core_read(&id.nr, sizeof(id.nr), &((struct upid *)place)->nr);
	bpf_core_read(&id.ns, sizeof(id.ns), &((struct upid *)place)->ns);
	return id;
}

/* Out of line: the verifier reads it once. */
static __attribute__((noinline)) u32 id_inside(u64 task)
{
	struct task_struct *p = (struct task_struct *)task;
	struct pid *pid = BPF_CORE_READ(p, thread_pid);
	u32 machines = COX_OUTSIDE | (u32)BPF_CORE_READ(p, pid);
	struct upid id;

	/* An ended thread has none any more. */
	if (!pid || BPF_CORE_READ(pid, level) < own_level)
		return machines;
	id = upid_at(pid, own_level);
	if (!id.ns || BPF_CORE_READ(id.ns, ns.inum) != own_namespace)
		return machines;
	return id.nr;
}

/* The id of a thread as cox's namespace has it. */
COX_INLINE u32 tid_of(struct task_struct *p)
{
	if (is_hidden(p))
		return COX_ANOTHER_USERS;
	return namespaced ? id_inside((u64)p) : (u32)p->pid;
}

/* The id of a thread's process as cox's namespace has it. */
COX_INLINE u32 tgid_of(struct task_struct *p)
{
	if (is_hidden(p))
		return COX_ANOTHER_USERS;
	return namespaced ? id_inside((u64)BPF_CORE_READ(p, group_leader)) : (u32)p->tgid;
}

static __attribute__((noinline)) u32 innermost_id(u64 task)
{
	struct task_struct *p = (struct task_struct *)task;
	struct pid *pid = BPF_CORE_READ(p, thread_pid);
	u32 level;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	return upid_at(pid, level).nr;
}

/* The id that a thread has for itself (gettid), in its own namespace; 0: it has ended. */
COX_INLINE u32 inner_tid_of(struct task_struct *p)
{
	return innermost_id((u64)p);
}

#endif
