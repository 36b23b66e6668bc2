/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The noise part: what the kernel does on a CPU instead of running a followed thread, as events with times (cox/noise.h).
 *
 * Each tracepoint of interrupts has a program of its own. All of them do the same: count the event, because the counts are compared with the
 * kernel's own counters, and write an event if a followed thread runs on this CPU. The kernel has not all of the tracepoints in each release, so
 * user space loads only the programs whose tracepoints exist.
 *
 * The reader is never woken, because waking it would interrupt a CPU that is being measured. It reads the ring when it wakes by itself.
 */
#ifndef COX_NOISE_BPF_H
#define COX_NOISE_BPF_H

#include "cox/noise.h"
#include "registers.bpf.h"

/* Child processes of followed processes are followed too. */
const volatile bool noise_follows_children = true;
/* Number of 64-bit words to read of a mask of CPUs. */
const volatile u32 noise_mask_words = 1;

struct noise_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* Each CPU writes into a ring of its own. A ring has a lock, and the ticks of all CPUs come at the same time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, COX_MAX_CPUS);
	__type(key, u32);
	__array(values, struct noise_ring);
} noise_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cox_noise_counts);
} noise_counts SEC(".maps");

/* What is known of a CPU. A cache line for each, because all CPUs read and write theirs at every switch and interrupt. */
struct noise_cpu {
	u32 runs;    /* the followed thread that runs there; 0: none. Only the CPU itself writes it. */
	u32 waiting; /* how many preempted followed threads wait there */
} __attribute__((aligned(64)));

struct noise_cpu noise_cpus[COX_MAX_CPUS];
/* The CPUs that run followed threads, for senders of interrupts to many CPUs. */
u64 noise_busy[COX_MASK_WORDS];
/* Events that did not fit into their rings. */
u64 noise_lost;

COX_INLINE u32 noise_here(void)
{
	return bpf_get_smp_processor_id() & (COX_MAX_CPUS - 1);
}

COX_INLINE struct noise_cpu *noise_on(u32 cpu)
{
	return &noise_cpus[cpu & (COX_MAX_CPUS - 1)];
}

COX_INLINE void *noise_ring(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&noise_rings, &cpu);
}

COX_INLINE void noise_count(u32 index)
{
	u32 zero = 0;
	struct cox_noise_counts *counts = bpf_map_lookup_elem(&noise_counts, &zero);

	if (counts)
		counts->n[index & (COX_NOISE_COUNTS - 1)] += 1;
}

COX_INLINE void noise_write(u64 t, u8 kind, u8 edge, u32 cpu, u32 tid, u64 a, u64 b)
{
	void *ring = noise_ring();
	struct cox_noise_event *e = ring ? bpf_ringbuf_reserve(ring, sizeof(*e), 0) : NULL;

	if (!e) {
		__sync_fetch_and_add(&noise_lost, 1);
		return;
	}
	e->t_ns = t;
	e->a = a;
	e->b = b;
	e->tid = tid;
	e->cpu = cpu;
	e->kind = kind;
	e->edge = edge;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* Writes an event that names a thread `p`: one that came to a CPU, or that sent an interrupt. */
COX_INLINE void noise_write_named(u64 t, u8 kind, u32 cpu, struct task_struct *p, u64 a, u64 b, s32 call)
{
	u32 tid = tid_of(p), tgid = tgid_of(p);
	void *ring = noise_ring();
	struct cox_noise_named *e = ring ? bpf_ringbuf_reserve(ring, sizeof(*e), 0) : NULL;

	if (!e) {
		__sync_fetch_and_add(&noise_lost, 1);
		return;
	}
	e->event.t_ns = t;
	e->event.a = a;
	e->event.b = b;
	e->event.tid = tid;
	e->event.cpu = cpu;
	e->event.kind = kind;
	e->event.edge = COX_POINT;
	copy_name(e->comm, p);
	e->tgid = tgid;
	e->call = call;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

COX_INLINE struct cox_noise *noise_in(struct cox_thread *thread)
{
	return thread && thread->noise.followed ? &thread->noise : NULL;
}

/* Records which followed thread runs on this CPU from now on (0: none). */
COX_INLINE void noise_now_runs(u32 cpu, u32 tid)
{
	u64 bit = 1ull << (cpu & 63);
	u32 was = noise_on(cpu)->runs;

	if (tid != was)
		noise_on(cpu)->runs = tid;
	if (tid && !was)
		__sync_fetch_and_or(&noise_busy[cpu / 64], bit);
	if (!tid && was)
		__sync_fetch_and_and(&noise_busy[cpu / 64], ~bit);
}

/* The thread `p` no longer waits for a CPU. */
COX_INLINE void noise_waits_no_more(struct cox_noise *noise)
{
	if (!noise->waits_on)
		return;
	__sync_fetch_and_add(&noise_on(noise->waits_on - 1)->waiting, -1);
	noise->waits_on = 0;
}

/*
 * The followed thread `p` runs on this CPU, and no event has told its arrival: it was enrolled while it ran, or the kernel did not trace the switch
 * (clocks.bpf.h has the same case). Writes the switch with the time that the scheduler keeps.
 */
static __attribute__((noinline)) int noise_arrived(u32 cpu)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cox_noise *noise = noise_in(thread_of(p));

	if (!noise || !p->pid)
		return 0;
	cpu &= COX_MAX_CPUS - 1;
	noise_now_runs(cpu, tid_of(p));
	noise_write_named(p->sched_info.last_arrival, COX_NOISE_SWITCH, cpu, p, COX_SWITCH_OUT_UNKNOWN, COX_SWITCH_IN_FOLLOWED, -1);
	noise_waits_no_more(noise);
	return 0;
}

/* Returns the followed thread that runs on this CPU; 0: none. */
COX_INLINE u32 noise_runs_here(u32 cpu)
{
	if (!noise_on(cpu)->runs && has_storage(bpf_get_current_task_btf()))
		noise_arrived(cpu);
	return noise_on(cpu)->runs;
}

/* Writes an event of a context on this CPU, if a followed thread runs here. */
COX_INLINE int noise_context(u8 kind, u8 edge, u64 a, u64 b)
{
	u64 t = bpf_ktime_get_ns();
	u32 cpu = noise_here();
	u32 tid = noise_runs_here(cpu);

	if (tid)
		noise_write(t, kind, edge, cpu, tid, a, b);
	return 0;
}

/*
 * Writes an event of a point in time, if a followed thread is known to run here. Such events also happen while the CPU switches: the thread that
 * leaves has been reported, and is still the current one. So they do not show that a thread has arrived.
 */
COX_INLINE int noise_point(u8 kind, u64 a, u64 b)
{
	u32 cpu = noise_here();
	u32 tid = noise_on(cpu)->runs;

	if (tid)
		noise_write(bpf_ktime_get_ns(), kind, COX_POINT, cpu, tid, a, b);
	return 0;
}

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

	if (!noise_runs_here(noise_here()))
		return 0;
	noise = noise_in(thread_of(bpf_get_current_task_btf()));
	if (!noise)
		return 0;
	noise_count(counter);
	noise->faults++;
	noise->fault_ns = bpf_ktime_get_ns();
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
		noise_write(bpf_ktime_get_ns(), COX_NOISE_FAULT, noise->fault | major, cpu, tid, noise->fault_ns, noise->faults);
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

	noise_count(COX_COUNT_SWITCHES);
	/* A thread that has become another user without an exec, by setuid(2), is followed no longer. */
	if (left && owned && !is_owners(prev)) {
		left->followed = 0;
		left = NULL;
	}
	if (left) {
		if (!noise_on(cpu)->runs)
			noise_arrived(cpu);
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
	if (!noise || !noise->waits_on)
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
