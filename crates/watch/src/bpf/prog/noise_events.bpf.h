/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the noise part keeps (which followed thread runs on each CPU, what was counted), and how it writes events.
 *
 * The reader is never woken, because waking it would interrupt a CPU that is being measured. It reads the rings when it wakes by itself.
 */
#ifndef COX_NOISE_EVENTS_BPF_H
#define COX_NOISE_EVENTS_BPF_H

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
	u32 losing;  /* the last event of this CPU was lost, and no event has said so */
} __attribute__((aligned(64)));

struct noise_cpu noise_cpus[COX_MAX_CPUS];
/* The CPUs that run followed threads, for senders of interrupts to many CPUs. */
u64 noise_busy[COX_MASK_WORDS];
/* Nobody reads events any longer. Programs of other parts stay attached, and call this part's functions. */
u8 noise_over;
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

/* Reserves room for an event. If there is none, the event is lost, and the next one on this CPU says so. */
COX_INLINE void *noise_reserve(u64 bytes)
{
	void *ring = noise_ring();
	void *e = ring ? bpf_ringbuf_reserve(ring, bytes, 0) : NULL;

	if (!e) {
		__sync_fetch_and_add(&noise_lost, 1);
		noise_on(noise_here())->losing = 1;
	}
	return e;
}

/* Returns the bit for the first event about this CPU after a loss. An event about another CPU does not say what was lost on this one. */
COX_INLINE u8 noise_after_loss(u32 cpu)
{
	struct noise_cpu *here = noise_on(cpu);

	if (cpu != noise_here() || !here->losing)
		return 0;
	here->losing = 0;
	return COX_AFTER_LOSS;
}

COX_INLINE void noise_write(u64 t, u8 kind, u8 edge, u32 cpu, u32 tid, u64 a, u64 b)
{
	struct cox_noise_event *e = noise_reserve(sizeof(*e));

	if (!e)
		return;
	e->t_ns = t;
	e->a = a;
	e->b = b;
	e->tid = tid;
	e->cpu = cpu;
	e->kind = kind;
	e->edge = edge | noise_after_loss(cpu);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* Writes an event that names a thread `p`: one that came to a CPU, or that sent an interrupt. */
COX_INLINE void noise_write_named(u64 t, u8 kind, u32 cpu, struct task_struct *p, u64 a, u64 b, s32 call)
{
	u32 tid = tid_of(p), tgid = tgid_of(p);
	struct cox_noise_named *e = noise_reserve(sizeof(*e));

	if (!e)
		return;
	e->event.t_ns = t;
	e->event.a = a;
	e->event.b = b;
	e->event.tid = tid;
	e->event.cpu = cpu;
	e->event.kind = kind;
	e->event.edge = COX_POINT | noise_after_loss(cpu);
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
 * A followed thread runs on this CPU, and no event has told its arrival: it was enrolled while it ran, or the kernel did not trace the switch
 * (clocks.bpf.h has the same case). Writes the switch with the time of the event that shows it, because nothing is known of the time before.
 */
static __attribute__((noinline)) int noise_arrived(u32 cpu, u64 t)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cox_noise *noise = noise_in(thread_of(p));

	if (!noise || !p->pid)
		return 0;
	cpu &= COX_MAX_CPUS - 1;
	noise_now_runs(cpu, tid_of(p));
	noise_write_named(t, COX_NOISE_SWITCH, cpu, p, COX_SWITCH_OUT_UNKNOWN, COX_SWITCH_IN_FOLLOWED, -1);
	noise_waits_no_more(noise);
	return 0;
}

/* Returns the followed thread that runs on this CPU at time `t`; 0: none. */
COX_INLINE u32 noise_runs_here(u32 cpu, u64 t)
{
	if (!noise_on(cpu)->runs && has_storage(bpf_get_current_task_btf()))
		noise_arrived(cpu, t);
	return noise_on(cpu)->runs;
}

/* Writes an event of a context on this CPU, if a followed thread runs here. */
COX_INLINE int noise_context(u8 kind, u8 edge, u64 a, u64 b)
{
	u64 t = bpf_ktime_get_ns();
	u32 cpu = noise_here();
	u32 tid = noise_runs_here(cpu, t);

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

#endif
