// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Where each thread of a pack stands now: on a CPU, queued or blocked, what it has run, and where in
 * its code it left its CPU. A table in memory that the packer maps and reads without system calls.
 *
 * A place in the table is given once and never again: a reader that is late sees a dead thread, not
 * another one. Threads beyond the last place are counted and have none.
 */
#include "others.bpf.h"
#include "place.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool follow_children = true;
const volatile u32 places = 65536;

/* What the packer maps, only these programs write: both maps are frozen, for where cox-observe loads them the packer is a process without privilege. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct cox_stand_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct cox_stand);
} stands SEC(".maps");

/* A member's place in the table, plus one. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} place_of SEC(".maps");

/* The processes that the walk over all tasks takes in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} wanted SEC(".maps");

COX_INLINE struct cox_stand *stand_of(struct task_struct *p)
{
	u32 *place, index;

	if (!has_storage(p))
		return NULL;
	place = bpf_task_storage_get(&place_of, p, 0, 0);
	if (!place || !*place)
		return NULL;
	index = *place - 1;
	return bpf_map_lookup_elem(&stands, &index);
}

COX_INLINE void give_place(struct task_struct *p, u32 creator_tid, u8 state)
{
	u32 *place = bpf_task_storage_get(&place_of, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cox_stand_counts *n;
	struct cox_stand *s;
	u32 index = 0;

	n = bpf_map_lookup_elem(&counts, &index);
	if (!n || !place || *place)
		return;
	index = __sync_fetch_and_add(&n->given, 1);
	s = index < places ? bpf_map_lookup_elem(&stands, &index) : NULL;
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
	/* Last: from here on the thread's own CPU may write. */
	*place = index + 1;
}

/* A thread that becomes another user ends, for whoever packs this user's. By the CPU that it runs on. */
COX_INLINE void leaves(struct cox_stand *s, struct task_struct *p)
{
	u32 *place = bpf_task_storage_get(&place_of, p, 0, 0);

	if (place)
		*place = 0;
	s->turn++;
	barrier();
	s->since_ns = 0;
	s->state = COX_DEAD;
	barrier();
	s->turn++;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_newtask, struct task_struct *child, u64 clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();

	if (!stand_of(parent) || (!follow_children && child->tgid != parent->tgid) || (owned && !is_owners(child)))
		return 0;
	give_place(child, tid_of(parent), COX_BORN);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, int old_pid, struct linux_binprm *bprm)
{
	struct cox_stand *s = stand_of(p);

	if (s && owned && (BPF_CORE_READ_BITFIELD(bprm, secureexec) || !is_owners(p))) {
		leaves(s, p);
		return 0;
	}
	/* A thread other than the leader takes over the leader's id. */
	if (s)
		s->tid = tid_of(p);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct cox_stand *s = stand_of(p);

	if (s && s->state == COX_BLOCKED)
		s->state = COX_PREEMPT;
	return 0;
}

COX_INLINE void switched_out(struct cox_stand *s, struct task_struct *p, bool preempt, u64 t)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);
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

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct cox_stand *out = prev->pid ? stand_of(prev) : NULL;
	struct cox_stand *in = next->pid ? stand_of(next) : NULL;
	bool goes = prev->pid && !out, comes = next->pid && !in;
	u64 t;

	if ((goes || comes) && is_in_pack(bpf_get_smp_processor_id()))
		other_switched(prev, goes, comes);
	if (out && owned && !is_owners(prev)) {
		leaves(out, prev);
	} else if (out) {
		t = bpf_ktime_get_ns();
		switched_out(out, prev, preempt, t);
	}
	if (in) {
		t = bpf_ktime_get_ns();
		in->turn++;
		barrier();
		in->since_ns = t;
		in->cpu = bpf_get_smp_processor_id();
		in->state = COX_RUN;
		barrier();
		in->turn++;
	}
	return 0;
}

/* What members do, seen without taking their CPU: a tick would change what it measures. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} samples SEC(".maps");

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cox_stand *s = p->pid ? stand_of(p) : NULL;
	struct cox_sample sample = {};

	if (!s || (owned && !is_owners(p)))
		return 0;
	sample.tid = s->tid;
	sample.tgid = s->tgid;
	sample_place(&sample, ctx, p);
	/* A full ring loses samples, and with them precision, nothing else. */
	bpf_ringbuf_output(&samples, &sample, sizeof(sample), BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("iter/task")
int enrol_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	u32 key;

	if (!p)
		return 0;
	learn_own_level();
	key = tgid_of(p);
	if (!bpf_map_lookup_elem(&wanted, &key) || p->__state & TASK_DEAD || !has_no_more_rights(p))
		return 0;
	give_place(p, 0, !p->on_cpu && p->__state ? COX_BLOCKED : COX_UNSEEN);
	return 0;
}
