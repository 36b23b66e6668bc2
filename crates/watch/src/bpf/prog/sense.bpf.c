// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The BPF programs: one per tracepoint, for all parts (threads.bpf.h).
 *
 * Each program looks up the storage of the event's threads once, and passes it to the parts in turn. Clocks come last, because the verifier then
 * has fewer paths to follow. The time of a switch is read before any part runs, so that no part's figures include the time that another part
 * takes.
 */
#include "clocks.bpf.h"
#include "noise.bpf.h"
#include "overlap.bpf.h"
#include "samples.bpf.h"
#include "snapshots.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * The tracepoint task_newtask is used and not sched_process_fork, because it also reports io_uring workers. The kernel holds no lock at this point.
 */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_newtask, struct task_struct *child, u64 clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct cox_thread *creator = thread_of(parent);
	bool is_thread;

	if (!creator)
		return 0;
	is_thread = child->tgid == parent->tgid;
	if (has_overlap)
		overlap_newtask(child, is_thread, creator);
	if (has_snapshots && (snapshots_follow_children || is_thread))
		snapshot_newtask(child, parent, creator);
	if (has_noise && (noise_follows_children || is_thread))
		noise_newtask(child, creator);
	if (has_clocks && (clocks_follow_children || is_thread))
		clock_newtask(child, clock_in(creator));
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	clock_wakeup_new(p, clock_of(p));
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, int old_pid, struct linux_binprm *bprm)
{
	struct cox_thread *thread = thread_of(p);

	if (!thread)
		return 0;
	if (has_overlap)
		overlap_exec(thread);
	if (has_snapshots)
		snapshot_exec(p, bprm, thread);
	if (has_noise)
		noise_exec(p, bprm, thread);
	if (has_clocks)
		clock_exec(p, bprm, clock_in(thread));
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct cox_thread *thread = thread_of(p);

	if (!thread)
		return 0;
	if (has_snapshots)
		snapshot_waking(thread);
	if (has_clocks)
		clock_waking(ctx, p, clock_in(thread));
	return 0;
}

/*
 * Overlap uses sched_wakeup and not sched_waking, which comes before the scheduler has chosen a CPU. At sched_waking, a thread that is about to get
 * another CPU would be counted as unblocked on the old CPU, and then as moved. Also, sched_wakeup never comes before the switch-out that it undoes.
 */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	overlap_wakeup(thread_of(p));
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int to)
{
	struct cox_thread *thread = thread_of(p);

	if (!thread)
		return 0;
	if (has_overlap)
		overlap_migrate(thread, to);
	if (has_noise)
		noise_migrate(p, to, thread);
	if (has_clocks)
		clock_migrate(p, to, clock_in(thread));
	return 0;
}

COX_INLINE void switched(bool clocks, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct cox_thread *out = prev->pid ? thread_of(prev) : NULL;
	struct cox_thread *in = next->pid ? thread_of(next) : NULL;
	u32 cpu = bpf_get_smp_processor_id();
	u64 t = 0;

	/*
	 * If the clocks part is the only part, the time is not read here: `clock_switch` reads it, and only if it is needed. At a switch between two
	 * untracked threads it rarely is.
	 */
	if (has_noise || (clocks ? has_overlap || has_snapshots : has_snapshots))
		t = bpf_ktime_get_ns();
	if (has_noise)
		noise_switch(preempt, prev, next, out, in, cpu, t);
	if (has_overlap)
		overlap_switch(preempt, prev, next, out, in, cpu);
	if (has_snapshots)
		snapshot_switch(preempt, prev, next, out, in, cpu, t);
	if (clocks)
		clock_switch(preempt, prev, next, clock_in(out), clock_in(in), t);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	switched(true, preempt, prev, next);
	return 0;
}

/*
 * A variant of on_switch without clocks (accounts of thread time), for sessions that need none. Clocks are nine tenths of the code of on_switch. If
 * such a session loaded on_switch, the verifier would remove the unused code of the clocks. But loading that code first would take longer than
 * loading everything else.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_plain_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	switched(false, preempt, prev, next);
	return 0;
}

SEC("iter/task")
int enrol_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct cox_enrolment *wanted;
	u64 key;

	if (!p)
		return 0;
	learn_regs_distance(p);
	learn_own_level();
	key = ENROL_PROCESS | tgid_of(p);
	wanted = bpf_map_lookup_elem(&enrol, &key);
	if (!wanted) {
		key = tid_of(p);
		wanted = bpf_map_lookup_elem(&enrol, &key);
	}
	/* A group leader that has ended while other threads of its process live is a zombie; there will be no more events of it. */
	if (!wanted || p->__state & TASK_DEAD || !has_no_more_rights(p))
		return 0;
	found++;
	if (has_clocks && wanted->part == ENROL_CLOCK)
		enrol_clock(p, wanted->more);
	if (has_overlap && wanted->part == ENROL_OVERLAP)
		enrol_overlap(p, wanted->more);
	if (has_snapshots && wanted->part == ENROL_SNAPSHOT)
		enrol_snapshot(p);
	if (has_noise && wanted->part == ENROL_NOISE)
		noise_follow(p);
	return 0;
}

SEC("iter/task")
int dump_clocks(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;

	if (p)
		dump_clock(ctx, p);
	return 0;
}
