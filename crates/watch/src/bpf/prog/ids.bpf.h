/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ids of threads and processes. A task has several ids in the kernel; only this file decides which one is used.
 *
 * A task has an id in its own PID namespace and in each namespace above it. Every tid or tgid that these programs report is the id in *cox's*
 * namespace. cox finds this id in /proc, and users pass it to --pid and see it in ps(1). If cox is in the machine's initial namespace, as it nearly
 * always is, that is task->pid, and the verifier drops the rest.
 *
 * cox's namespace may not show a thread, for example an untracked thread that held a CPU or woke a thread. Such a thread is reported by its id on the
 * machine with COX_OUTSIDE set, so that it is never mistaken for the thread that has this number inside.
 */
#ifndef COX_IDS_BPF_H
#define COX_IDS_BPF_H

#include "verifier.bpf.h"

/* Whether cox is in a PID namespace other than the machine's initial one, and the number of its namespace (/proc/self/ns/pid). */
const volatile bool namespaced = false;
const volatile u32 own_namespace = 0;

/*
 * The observation of one user's threads (a cox without capabilities, which uses cox-observe): only threads of that user are tracked, and no other
 * user's thread is named. All three user ids must be this user's, so a program that runs with another user's rights (set-user-id) is not tracked.
 * They are compared as the kernel stores them, not as a user namespace maps them. `real_cred` is used and not `cred`, because file systems replace
 * the latter temporarily (overlayfs works with the rights of the user who mounted it). This setting is off for root; the verifier then drops the code
 * that depends on it.
 */
const volatile bool owned = false;
const volatile u32 owner = 0;

COX_INLINE bool is_owners(struct task_struct *p)
{
	const struct cred *cred = untrusted(p)->real_cred;

	return cred->uid.val == owner && cred->euid.val == owner && cred->suid.val == owner;
}

/*
 * Returns whether the BPF programs must not report the thread's id and name, because it belongs to another user. Kernel threads belong to no user and
 * are not hidden.
 */
COX_INLINE bool is_hidden(struct task_struct *p)
{
	return owned && !(p->flags & PF_KTHREAD) && !is_owners(p);
}

/*
 * Returns whether a living thread may be enrolled. As in ptrace(2), it may not if it has more rights than its user. Its group ids are compared with
 * each other: those of a set-group-id program differ, even after it has made itself traceable again.
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

/* Returns whether an exec ends the observation of this thread: the new program has more rights than its user, or belongs to another user. */
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

/* Depth of cox's PID namespace: 0 is the machine's initial one. The first walk over all tasks stores it; in this walk, cox is the running task. */
u32 own_level;

COX_INLINE void learn_own_level(void)
{
	struct task_struct *current = bpf_get_current_task_btf();

	if (namespaced && !own_level)
		own_level = untrusted(current)->thread_pid->level;
}

/*
 * Returns a task's id in the PID namespace at depth `level`, and that namespace. The array with these ids is read as plain memory, because its
 * declared length differs between kernels.
 */
COX_INLINE struct upid upid_at(struct pid *pid, u32 level)
{
	u64 place = (u64)pid + bpf_core_field_offset(struct pid, numbers) + (u64)level * bpf_core_type_size(struct upid);
	struct upid id = {};

	bpf_core_read(&id.nr, sizeof(id.nr), &((struct upid *)place)->nr);
	bpf_core_read(&id.ns, sizeof(id.ns), &((struct upid *)place)->ns);
	return id;
}

/* This function is not inlined, so that the verifier reads its code only once. */
static __attribute__((noinline)) u32 id_inside(u64 task)
{
	struct task_struct *p = (struct task_struct *)task;
	struct pid *pid = BPF_CORE_READ(p, thread_pid);
	u32 machines = COX_OUTSIDE | (u32)BPF_CORE_READ(p, pid);
	struct upid id;

	/* A thread that has ended has no struct pid. */
	if (!pid || BPF_CORE_READ(pid, level) < own_level)
		return machines;
	id = upid_at(pid, own_level);
	if (!id.ns || BPF_CORE_READ(id.ns, ns.inum) != own_namespace)
		return machines;
	return id.nr;
}

/* Returns a thread's id in cox's PID namespace. */
COX_INLINE u32 tid_of(struct task_struct *p)
{
	if (is_hidden(p))
		return COX_ANOTHER_USERS;
	return namespaced ? id_inside((u64)p) : (u32)p->pid;
}

/* Returns the id of a thread's process in cox's PID namespace. */
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

/* Returns a thread's id in its own PID namespace, as gettid(2) does; 0 if the thread has ended. */
COX_INLINE u32 inner_tid_of(struct task_struct *p)
{
	return innermost_id((u64)p);
}

#endif
