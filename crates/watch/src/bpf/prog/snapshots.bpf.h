/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The snapshots part, for packing: the present state of each thread. A snapshot says whether the thread is on a CPU, queued or blocked, how long
 * it has run, and where in its code it left its CPU. The table is in memory that the packer maps and reads without system calls.
 *
 * A place in the table is never used again, so that a late reader sees a dead thread and not another one. Threads beyond the last place are
 * counted and get no snapshot.
 */
#ifndef COX_SNAPSHOTS_BPF_H
#define COX_SNAPSHOTS_BPF_H

#include "others.bpf.h"
#include "registers.bpf.h"

const volatile u32 places = 65536;

/*
 * Set if the packer, which uses the snapshots, ends while other parts of the loaded programs (clocks, overlap) are still in use. The snapshots then
 * no longer change.
 */
bool snapshots_over;

/*
 * The packer maps these tables, and only the BPF programs write them. Both maps are frozen, because the packer may be a process without privilege:
 * then cox-observe, which has the privilege, loads the programs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct cox_snapshot_counts);
} snapshot_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct cox_thread_snapshot);
} snapshots SEC(".maps");

/* Returns NULL if the thread has no snapshot. */
COX_INLINE struct cox_thread_snapshot *snapshot_of(struct cox_thread *thread)
{
	u32 index;

	if (!thread || !thread->place || snapshots_over)
		return NULL;
	index = thread->place - 1;
	return bpf_map_lookup_elem(&snapshots, &index);
}

COX_INLINE void give_place(struct task_struct *p, u32 creator_tid, u8 state)
{
	struct cox_thread *thread = new_thread(p);
	struct cox_snapshot_counts *n;
	struct cox_thread_snapshot *s;
	u32 index = 0;

	n = bpf_map_lookup_elem(&snapshot_counts, &index);
	if (!n || !thread || thread->place)
		return;
	index = __sync_fetch_and_add(&n->given, 1);
	s = index < places ? bpf_map_lookup_elem(&snapshots, &index) : NULL;
	if (!s) {
		__sync_fetch_and_add(&n->given, -1);
		__sync_fetch_and_add(&n->without_place, 1);
		return;
	}
	s->tgid = tgid_of(p);
	s->creator_tid = creator_tid;
	s->call = -1;
	s->cpu = p->wake_cpu;
	s->state = state;
	barrier();
	s->tid = tid_of(p);
	/* Set last: from here on the thread's own CPU may write the snapshot. */
	thread->place = index + 1;
}

/*
 * Called on the CPU of a thread that now belongs to another user, when only one user's threads may be observed. Marks the thread as dead in its
 * snapshot.
 */
COX_INLINE void snapshot_leaves(struct cox_thread_snapshot *s, struct cox_thread *thread)
{
	thread->place = 0;
	s->turn++;
	barrier();
	s->since_ns = 0;
	s->state = COX_DEAD;
	barrier();
	s->turn++;
}

COX_INLINE void snapshot_newtask(struct task_struct *child, struct task_struct *parent, struct cox_thread *creator)
{
	if (snapshot_of(creator) && (!owned || is_owners(child)))
		give_place(child, tid_of(parent), COX_BORN);
}

COX_INLINE void snapshot_exec(struct task_struct *p, struct linux_binprm *bprm, struct cox_thread *thread)
{
	struct cox_thread_snapshot *s = snapshot_of(thread);

	if (!s)
		return;
	if (gains_rights(p, bprm))
		snapshot_leaves(s, thread);
	else
		/* If a thread other than the group leader calls exec, it takes over the leader's id. */
		s->tid = tid_of(p);
}

COX_INLINE void snapshot_waking(struct cox_thread *thread)
{
	struct cox_thread_snapshot *s = snapshot_of(thread);

	if (s && s->state == COX_BLOCKED)
		s->state = COX_PREEMPT;
}

COX_INLINE void snapshot_out(struct cox_thread_snapshot *s, struct task_struct *p, bool preempt, u64 t)
{
	struct pt_regs *regs = registers_of(p);
	u32 state = p->__state;

	s->turn++;
	barrier();
	if (s->since_ns)
		s->run_ns += t - s->since_ns;
	s->since_ns = 0;
	s->out_ns = t;
	s->ip = cox_user_ip(regs);
	s->call = cox_call_nr(regs);
	if (state & TASK_DEAD) {
		s->state = COX_DEAD;
	} else if (preempt || state == 0) {
		s->preempts++;
		s->state = COX_PREEMPT;
	} else {
		s->blocks++;
		s->state = COX_BLOCKED;
	}
	barrier();
	s->turn++;
}

COX_INLINE void snapshot_in(struct cox_thread_snapshot *s, u32 cpu, u64 t)
{
	s->turn++;
	barrier();
	s->since_ns = t;
	s->cpu = cpu;
	s->state = COX_RUN;
	barrier();
	s->turn++;
}

/* `t` is the time of the switch. */
COX_INLINE void snapshot_switch(bool preempt, struct task_struct *prev, struct task_struct *next, struct cox_thread *prevs,
				struct cox_thread *nexts, u32 cpu, u64 t)
{
	struct cox_thread_snapshot *out = snapshot_of(prevs), *in = snapshot_of(nexts);
	u64 goes = prev->pid && !out, comes = next->pid && !in;

	FORGET(goes, t);
	FORGET(comes, t);
	if ((goes || comes) && is_in_pack(cpu))
		other_switched(goes, comes, t);
	if (out && owned && !is_owners(prev))
		snapshot_leaves(out, prevs);
	else if (out)
		snapshot_out(out, prev, preempt, t);
	if (in)
		snapshot_in(in, cpu, t);
}

COX_INLINE void enrol_snapshot(struct task_struct *p)
{
	give_place(p, 0, !p->on_cpu && p->__state ? COX_BLOCKED : COX_UNSEEN);
}

#endif
