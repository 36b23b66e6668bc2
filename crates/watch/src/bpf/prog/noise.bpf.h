/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The noise part: what the kernel does on a CPU instead of running a followed thread, as events with times (cox/noise.h).
 *
 * Each tracepoint of interrupts has a program of its own. All of them do the same: count the event, because the counts are compared with the
 * kernel's own counters, and write an event if a followed thread runs on this CPU. The kernel has not all of the tracepoints in each release, so
 * user space loads only the programs whose tracepoints exist.
 */
#ifndef COX_NOISE_BPF_H
#define COX_NOISE_BPF_H

#include "noise_events.bpf.h"

#define NOISE_VECTOR(name, number)                                                     \
	SEC("tp_btf/" #name "_entry")                                                  \
	int BPF_PROG(on_##name##_entry, int vector)                                    \
	{                                                                              \
		noise_count(COX_COUNT_VECTORS + (number));                             \
		return noise_context(COX_NOISE_VECTOR, COX_BEGIN, number, 0);             \
	}                                                                              \
	SEC("tp_btf/" #name "_exit")                                                   \
	int BPF_PROG(on_##name##_exit, int vector)                                     \
	{                                                                              \
		return noise_context(COX_NOISE_VECTOR, COX_END, number, 0);               \
	}

NOISE_VECTOR(local_timer, COX_VECTOR_LOCAL_TIMER)
NOISE_VECTOR(reschedule, COX_VECTOR_RESCHEDULE)
NOISE_VECTOR(call_function, COX_VECTOR_CALL_FUNCTION)
NOISE_VECTOR(call_function_single, COX_VECTOR_CALL_FUNCTION_SINGLE)
NOISE_VECTOR(irq_work, COX_VECTOR_IRQ_WORK)
NOISE_VECTOR(x86_platform_ipi, COX_VECTOR_PLATFORM_IPI)
NOISE_VECTOR(spurious_apic, COX_VECTOR_SPURIOUS)
NOISE_VECTOR(error_apic, COX_VECTOR_ERROR)
NOISE_VECTOR(thermal_apic, COX_VECTOR_THERMAL)
NOISE_VECTOR(threshold_apic, COX_VECTOR_THRESHOLD)
NOISE_VECTOR(deferred_error_apic, COX_VECTOR_DEFERRED_ERROR)

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	u32 index = COX_COUNT_IRQS + (u32)irq;

	noise_count(index < COX_NOISE_COUNTS ? index : COX_COUNT_OTHER_IRQS);
	return noise_context(COX_NOISE_IRQ, COX_BEGIN, (u32)irq, 0);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq)
{
	return noise_context(COX_NOISE_IRQ, COX_END, (u32)irq, 0);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int number)
{
	noise_count(COX_COUNT_SOFTIRQS + (number & 15));
	return noise_context(COX_NOISE_SOFTIRQ, COX_BEGIN, number, 0);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int number)
{
	return noise_context(COX_NOISE_SOFTIRQ, COX_END, number, 0);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	return noise_context(COX_NOISE_HRTIMER, COX_BEGIN, (u64)timer->function, 0);
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_expire_exit)
{
	return noise_context(COX_NOISE_HRTIMER, COX_END, 0, 0);
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_expire_entry, struct timer_list *timer)
{
	return noise_context(COX_NOISE_TIMER, COX_BEGIN, (u64)timer->function, 0);
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_timer_expire_exit)
{
	return noise_context(COX_NOISE_TIMER, COX_END, 0, 0);
}

/*
 * Requests of other CPUs (csd). The tracepoints pass the function too, but a BPF program cannot read an argument that is a pointer to a function. So
 * the function is read from the request.
 */
SEC("tp_btf/csd_function_entry")
int BPF_PROG(on_csd_function_entry, void *function, struct __call_single_data *csd)
{
	return noise_context(COX_NOISE_CALL, COX_BEGIN, csd ? (u64)csd->func : 0, (u64)csd);
}

SEC("tp_btf/csd_function_exit")
int BPF_PROG(on_csd_function_exit)
{
	return noise_context(COX_NOISE_CALL, COX_END, 0, 0);
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi_handler, void *handler, s64 length_ns)
{
	noise_count(COX_COUNT_NMIS);
	return noise_point(COX_NOISE_NMI, (u64)handler, length_ns);
}

SEC("tp_btf/tlb_flush")
int BPF_PROG(on_tlb_flush, int reason, unsigned long pages)
{
	return noise_point(COX_NOISE_TLB_FLUSH, (u32)reason, pages);
}

SEC("tp_btf/tick_stop")
int BPF_PROG(on_tick_stop, int success, int dependency)
{
	return noise_point(COX_NOISE_TICK_STOP, (u32)success, (u32)dependency);
}

/* Who sends an interrupt to a CPU that runs a followed thread. Writes the sender, its system call, and the place in the kernel. */
COX_INLINE int noise_sent(u8 kind, u32 cpu, u64 place, u64 what)
{
	struct task_struct *p = bpf_get_current_task_btf();

	/* What another user's thread does in the kernel is hidden with its name. */
	if (is_hidden(p)) {
		noise_write_named(bpf_ktime_get_ns(), kind, cpu, p, 0, what, -1);
		return 0;
	}
	/* The idle task has no user registers. */
	noise_write_named(bpf_ktime_get_ns(), kind, cpu, p, place, what, p->pid && !(p->flags & PF_KTHREAD) ? user_call_of(p).nr : -1);
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_ipi_send_cpu, unsigned int cpu, unsigned long place, void *callback)
{
	return noise_on(cpu)->runs ? noise_sent(COX_NOISE_SENT, cpu, place, (u64)callback) : 0;
}

SEC("tp_btf/ipi_send_cpumask")
int BPF_PROG(on_ipi_send_cpumask, struct cpumask *mask, unsigned long place, void *callback)
{
	for (u32 i = 0; i < COX_MASK_WORDS && i < noise_mask_words; i++) {
		u64 word = 0;

		if (!noise_busy[i])
			continue;
		bpf_probe_read_kernel(&word, sizeof(word), &((u64 *)mask)[i]);
		word &= noise_busy[i];
		if (word)
			noise_sent(COX_NOISE_SENT_MASK, i * 64, place, word);
	}
	return 0;
}

SEC("tp_btf/csd_queue_cpu")
int BPF_PROG(on_csd_queue_cpu, unsigned int cpu, unsigned long place, void *function, struct __call_single_data *csd)
{
	return noise_on(cpu)->runs ? noise_sent(COX_NOISE_QUEUED, cpu, place, (u64)csd) : 0;
}

/* A kernel thread begins a work item on a CPU where a followed thread waits: the work item is what the followed thread waits for. */
SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(on_workqueue_execute_start, struct work_struct *work)
{
	u32 cpu = noise_here();

	if (noise_on(cpu)->waiting)
		noise_write(bpf_ktime_get_ns(), COX_NOISE_WORK, COX_POINT, cpu, 0, (u64)work->func, 0);
	return 0;
}

/*
 * Page faults. The kernel has a tracepoint at the begin of a fault and none at its end. But it counts a fault for perf when it has handled it, and
 * a BPF program can be attached to that count.
 */
COX_INLINE int noise_fault_begins(u32 counter, u8 which)
{
	struct cox_noise *noise;
	u64 t = bpf_ktime_get_ns();

	if (!noise_runs_here(noise_here(), t))
		return 0;
	noise = noise_in(thread_of(bpf_get_current_task_btf()));
	if (!noise)
		return 0;
	noise_count(counter);
	noise->fault_ns = t;
	noise->fault = which;
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_page_fault_user)
{
	return noise_fault_begins(COX_COUNT_USER_FAULTS, COX_FAULT_USER);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_page_fault_kernel)
{
	return noise_fault_begins(COX_COUNT_KERNEL_FAULTS, COX_FAULT_KERNEL);
}

COX_INLINE int noise_fault_ends(u8 major)
{
	u32 cpu = noise_here();
	u32 tid = noise_on(cpu)->runs;
	struct cox_noise *noise;

	if (!tid)
		return 0;
	noise = noise_in(thread_of(bpf_get_current_task_btf()));
	if (noise && noise->fault_ns) {
		noise_write(bpf_ktime_get_ns(), COX_NOISE_FAULT, noise->fault | major, cpu, tid, noise->fault_ns, 0);
		noise->fault_ns = 0;
	}
	return 0;
}

SEC("perf_event")
int on_minor_fault(void *ctx)
{
	return noise_fault_ends(0);
}

SEC("perf_event")
int on_major_fault(void *ctx)
{
	return noise_fault_ends(COX_FAULT_MAJOR);
}

/* A followed thread that leaves its CPU although it could continue waits for this CPU, until it comes to one. */
COX_INLINE void noise_switch(bool preempt, struct task_struct *prev, struct task_struct *next, struct cox_thread *out,
			     struct cox_thread *in, u32 number, u64 t)
{
	u32 cpu = number & (COX_MAX_CPUS - 1);
	struct cox_noise *left = noise_in(out), *came = noise_in(in);
	u32 state = prev->__state;
	u64 flags = 0;

	if (noise_over)
		return;
	noise_count(COX_COUNT_SWITCHES);
	/* A thread that has become another user without an exec, by setuid(2), is followed no longer. */
	if (left && owned && !is_owners(prev)) {
		left->followed = 0;
		left = NULL;
	}
	if (left) {
		if (!noise_on(cpu)->runs)
			noise_arrived(cpu, t);
		noise_count(COX_COUNT_SWITCHES_OUT);
		flags = COX_SWITCH_OUT_FOLLOWED;
		if ((preempt || state == 0) && !(state & TASK_DEAD)) {
			flags |= COX_SWITCH_OUT_RUNNABLE;
			left->waits_on = cpu + 1;
			__sync_fetch_and_add(&noise_on(cpu)->waiting, 1);
		}
	}
	if (came)
		flags |= COX_SWITCH_IN_FOLLOWED;
	/* The thread that took the CPU from a followed one is not charged with the time that this program has used. */
	if (left)
		t = bpf_ktime_get_ns();
	if (flags || noise_on(cpu)->waiting)
		noise_write_named(t, COX_NOISE_SWITCH, cpu, next, tid_of(prev), flags, -1);
	if (came)
		noise_waits_no_more(came);
	noise_now_runs(cpu, came ? tid_of(next) : 0);
}

/* A preempted thread is moved to another CPU's queue, and waits there from now on. */
COX_INLINE void noise_migrate(struct task_struct *p, u32 to, struct cox_thread *thread)
{
	struct cox_noise *noise = noise_in(thread);

	to &= COX_MAX_CPUS - 1;
	if (noise_over || !noise || !noise->waits_on)
		return;
	__sync_fetch_and_add(&noise_on(noise->waits_on - 1)->waiting, -1);
	__sync_fetch_and_add(&noise_on(to)->waiting, 1);
	noise->waits_on = to + 1;
	noise_write(bpf_ktime_get_ns(), COX_NOISE_MOVED, COX_POINT, to, tid_of(p), 0, 0);
}

COX_INLINE void noise_follow(struct task_struct *p)
{
	struct cox_thread *thread = new_thread(p);

	if (thread)
		thread->noise.followed = 1;
}

COX_INLINE void noise_newtask(struct task_struct *child, struct cox_thread *creator)
{
	if (noise_in(creator) && (!owned || is_owners(child)))
		noise_follow(child);
}

COX_INLINE void noise_exec(struct task_struct *p, struct linux_binprm *bprm, struct cox_thread *thread)
{
	if (!noise_in(thread) || !gains_rights(p, bprm))
		return;
	thread->noise.followed = 0;
	/* Nothing more is told about this CPU until a followed thread comes. */
	noise_now_runs(noise_here(), 0);
}

/*
 * Names the kernel's function at an address: user space writes `noise_address` and runs this program. Without CAP_SYSLOG, /proc/kallsyms shows no
 * addresses, so user space cannot look up the name itself.
 */
u64 noise_address;
char noise_name[128];

SEC("syscall")
int name_function(void *ctx)
{
	static const char format[] = "%ps";
	u64 address = noise_address;

	return bpf_snprintf(noise_name, sizeof(noise_name), format, &address, sizeof(address)) < 0;
}

#endif
