/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Noise events: what the kernel does on a CPU instead of running a followed thread. BPF writes them into a ring for each CPU; the crate `interference` makes
 * intervals with causes from them. Mirror: ../../src/noise.rs.
 *
 * An event is written only where it can concern a followed thread: on a CPU that runs one, on a CPU where a preempted one waits, or (senders of
 * interrupts) about a CPU that runs one. The kernel's own counters are compared with `cox_noise_count`, which counts on all CPUs.
 */
#ifndef COX_NOISE_H
#define COX_NOISE_H

#include "wire.h"

/* Interrupt vectors that have a tracepoint of their own (arch/x86/include/asm/trace/irq_vectors.h). */
enum cox_vector {
	COX_VECTOR_LOCAL_TIMER,
	COX_VECTOR_RESCHEDULE,
	COX_VECTOR_CALL_FUNCTION,
	COX_VECTOR_CALL_FUNCTION_SINGLE,
	COX_VECTOR_IRQ_WORK,
	COX_VECTOR_PLATFORM_IPI,
	COX_VECTOR_SPURIOUS,
	COX_VECTOR_ERROR,
	COX_VECTOR_THERMAL,
	COX_VECTOR_THRESHOLD,
	COX_VECTOR_DEFERRED_ERROR,
	COX_VECTORS,
};

enum cox_noise_kind {
	/* Contexts, which have a begin and an end (`edge`). */
	COX_NOISE_VECTOR = 1, /* `a`: enum cox_vector */
	COX_NOISE_IRQ,	      /* `a`: number of the device interrupt */
	COX_NOISE_SOFTIRQ,    /* `a`: number of the softirq */
	COX_NOISE_HRTIMER,    /* `a`: address of the function */
	COX_NOISE_TIMER,      /* `a`: address of the function */
	COX_NOISE_CALL,	      /* a function that another CPU has sent here. `a`: its address; `b`: address of the request (csd) */
	/* Contexts that are reported at their end. */
	COX_NOISE_NMI,	 /* `a`: address of the handler; `b`: its length, ns */
	COX_NOISE_FAULT, /* a page fault. `a`: its begin, ns; `edge`: enum cox_fault */
	/* Points in time. `struct cox_noise_named` */
	COX_NOISE_SWITCH, /* `tid` came to `cpu`. `a`: the thread that left; `b`: COX_SWITCH_* */
	COX_NOISE_SENT,	  /* `tid`, on another CPU, sent an interrupt to `cpu`. `a`: the place in the kernel; `b`: address of the callback */
	COX_NOISE_SENT_MASK, /* the same, to several CPUs. `b`: a word of the mask; `cpu`: the number of its first CPU */
	COX_NOISE_QUEUED, /* `tid` put a request (csd) for `cpu`. `a`: the place in the kernel; `b`: address of the request */
	/* Points in time. `struct cox_noise_event` */
	COX_NOISE_WORK,	     /* a kernel thread begins a work item. `a`: address of the function */
	COX_NOISE_TICK_STOP, /* `a`: whether the tick was stopped; `b`: what prevented it (TICK_DEP_MASK_*) */
	COX_NOISE_TLB_FLUSH, /* `a`: reason (enum tlb_flush_reason); `b`: pages */
	COX_NOISE_MOVED,     /* the preempted thread `tid` waits on `cpu` from now on */
};

enum cox_edge { COX_POINT, COX_BEGIN, COX_END };
#define COX_AFTER_LOSS 0x80 /* a bit of `edge`: events on this CPU were lost just before this one */
enum cox_fault { COX_FAULT_USER = 1, COX_FAULT_KERNEL, COX_FAULT_MAJOR = 4 };

#define COX_SWITCH_OUT_UNKNOWN 0xffffffffull /* `a`: it is not known which thread left */
#define COX_SWITCH_OUT_FOLLOWED 1 /* the thread that left is followed */
#define COX_SWITCH_OUT_RUNNABLE 2 /* the thread that left would have continued */
#define COX_SWITCH_IN_FOLLOWED 4  /* the thread that came is followed */

struct cox_noise_event {
	__u64 t_ns;
	__u64 a;
	__u64 b;
	__u32 tid; /* the followed thread that runs on `cpu`, where not said otherwise */
	__u16 cpu;
	__u8 kind; /* enum cox_noise_kind */
	__u8 edge; /* enum cox_edge, and COX_AFTER_LOSS */
};

struct cox_noise_named {
	struct cox_noise_event event;
	char comm[COX_COMM_LEN]; /* name of the thread `tid` */
	__u32 tgid;
	__s32 call; /* senders: number of the system call that `tid` is in; -1: none */
};

/*
 * What happened on a CPU, whatever ran there: one number for each source, at the index given here. These are compared with the kernel's own
 * counters, so each one counts exactly what the kernel counts.
 */
#define COX_COUNT_VECTORS 0   /* enum cox_vector */
#define COX_COUNT_SOFTIRQS 16 /* number of the softirq */
#define COX_COUNT_SWITCHES 32
#define COX_COUNT_NMIS 33
#define COX_COUNT_OTHER_IRQS 34	   /* device interrupts with numbers that have no place */
#define COX_COUNT_USER_FAULTS 35   /* of followed threads */
#define COX_COUNT_KERNEL_FAULTS 36 /* of followed threads, in the kernel */
#define COX_COUNT_SWITCHES_OUT 37  /* of followed threads */
#define COX_COUNT_IRQS 64	   /* number of the device interrupt */
#define COX_NOISE_COUNTS 2048 /* a power of two */

/* All counts of a CPU are one entry of a map, so that one system call reads them at nearly the same time. */
struct cox_noise_counts {
	__u64 n[COX_NOISE_COUNTS];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_noise_event) == 32, "mirror in noise.rs");
_Static_assert(sizeof(struct cox_noise_named) == 56, "mirror in noise.rs");
#endif

#endif
