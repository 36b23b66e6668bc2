// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Traces what the scheduler does to the threads of one program, event by event. The program's runtime is not involved. */
/* The types that libbpf's header of helpers takes from <linux/types.h>, which clang's BPF target cannot find everywhere. */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
enum bpf_map_type { BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { SCHED_IDLE = 5 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	unsigned int __state;
	unsigned int policy;
	int wake_cpu;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	char comm[16];
};

#pragma clang attribute pop

/* From <linux/bpf.h>. */
struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The decoder in mod.rs has the same values and layout. */
enum { WOKEN, SWITCHED_IN, PREEMPTED, BLOCKED, MOVED };
struct event {
	__u64 ns;
	__u32 thread;
	__u16 cpu;
	__u8 kind;
	__u8 idle_class;
};

/* Holds one second at 400,000 events per second; user space empties it every 20 ms. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

__u64 lost = 0;

/* `name`: the name of the measured program's main thread. `starter`: the process ID of cox-bench, which starts the
 * program, in cox-bench's own PID namespace. The device and inode of its /proc/self/ns/pid identify this namespace. */
const volatile char name[16] = {};
const volatile __u32 starter = 0;
const volatile __u64 namespace_device = 0, namespace_inode = 0;

/* The process ID of cox-bench in the initial PID namespace, as in task_struct; -1 until on_switch has seen a thread of
 * cox-bench leave a CPU. */
int starter_of_machine = -1;

/* Maximum number of ancestors between the program and cox-bench: shells, taskset, cox. */
#define GENERATIONS 8

static __attribute__((always_inline)) _Bool is_member(struct task_struct *task)
{
	struct task_struct *process = task->group_leader;

	if (!task->pid)
		return 0;
	for (int i = 0; i < 16; i++) {
		if (process->comm[i] != name[i])
			return 0;
		if (!name[i])
			break;
	}
	for (int i = 0; i < GENERATIONS; i++) {
		process = process->real_parent;
		if (process->tgid == starter_of_machine)
			return 1;
	}
	return 0;
}

static __attribute__((always_inline)) void note(struct task_struct *task, __u8 kind, __u32 cpu)
{
	struct event *event;

	if (!is_member(task))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	event->ns = bpf_ktime_get_ns();
	event->thread = task->pid;
	event->cpu = cpu;
	event->kind = kind;
	event->idle_class = task->policy == SCHED_IDLE;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct bpf_pidns_info ids;

	/* At this tracepoint, the current task is still prev, the one that leaves the CPU. */
	if (starter_of_machine < 0 && !bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &ids, sizeof(ids)) &&
	    ids.tgid == starter)
		starter_of_machine = prev->tgid;
	note(prev, !preempt && prev->__state ? BLOCKED : PREEMPTED, cpu);
	note(next, SWITCHED_IN, cpu);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	note(task, WOKEN, task->wake_cpu);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_birth, struct task_struct *task)
{
	note(task, WOKEN, task->wake_cpu);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migration, struct task_struct *task, int cpu)
{
	note(task, MOVED, cpu);
	return 0;
}
