/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface between cox and its BPF programs. The interface to the preload library is in preload.h.
 *
 * The layout is defined twice, in this header and in ../../src/layout.rs. Sizes and offsets are asserted on both sides at compile time, so a
 * change in only one of them does not build.
 *
 * All times are nanoseconds on CLOCK_MONOTONIC. All padding of a struct is a named field.
 */
#ifndef COX_WIRE_H
#define COX_WIRE_H

#ifdef __bpf__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
#else
#include <linux/types.h>
#endif

/* CPUs with a number at or above this have no account. On a machine with such CPUs, cox prints a message and does not run. */
#define COX_MAX_CPUS 1024
#define COX_MASK_WORDS (COX_MAX_CPUS / 64)
/* Number of classes of affinity masks: class 0 is "all CPUs", the others are partial masks. A mask of one CPU needs no class. */
#define COX_MASK_CLASSES 8
/* Number of CPUs for which a thread's run time is kept separately. Its run time on further CPUs is one sum. */
#define COX_CPU_SLOTS 16
#define COX_COMM_LEN 16

/*
 * Bit of a thread id, set if the thread is outside cox's PID namespace; the other bits are then its id on the machine. Linux assigns ids up to
 * 2^22, which is below this bit.
 */
#define COX_OUTSIDE 0x40000000u

/* Id and name that stand for every thread of another user, if only one user's threads are observed. */
#define COX_ANOTHER_USERS 0x20000000u
#define COX_ANOTHER_USERS_NAME "another user's\0"

/* Why a thread left its CPU not runnable. The order is the wire order; the names are in Rust. */
enum cox_cause {
	COX_FUTEX = 0,
	COX_DISK,
	COX_NETWORK,
	COX_PIPE,
	COX_POLL,
	COX_SLEEP,
	COX_PAGE_FAULT,
	COX_CHILD_WAIT,
	COX_STOPPED,
	COX_FILE_LOCK,
	COX_OTHER,
	COX_UNSPECIFIED, /* the backend cannot see why threads block */
	COX_CAUSES,
	/* Only in the table that maps system calls to causes: the cause depends on the type of the file descriptor. */
	COX_BY_FD = 0xff,
};

/* What a thread is doing, according to its clock. */
enum cox_state {
	COX_UNSEEN = 0, /* existed before it was enrolled; no event yet */
	COX_BORN,	/* created, not yet switched in */
	COX_RUN,
	COX_PREEMPT, /* switched out while still runnable */
	COX_BLOCKED, /* switched out, not runnable; woken since then if wake_ns >= since_ns */
	COX_DEAD,
};

enum cox_migration {
	COX_AT_WAKEUP = 0,
	COX_WHILE_QUEUED, /* the load balancer moved a runnable thread */
	COX_BY_AFFINITY,  /* the previous CPU is no longer allowed */
	COX_MIGRATIONS,
};

/* The kinds of intervals whose lengths are counted in histograms (latency.h). */
enum cox_interval {
	COX_INTERVAL_WAKE_DELAY = 0,
	COX_INTERVAL_PREEMPT_WAIT,
	COX_INTERVAL_BLOCKED,
	COX_INTERVAL_SLICE, /* time slice: from switch-in to switch-out */
	COX_INTERVALS,
};

/*
 * One thread's account, kept by BPF in task storage, or by `ledger` for backends that report events. The fields that every switch and waking
 * touches come first, because the cost of an event depends mainly on the number of cache lines that it touches.
 */
struct cox_clock {
	/* The thread's present state. At each event, the time sums below grow by differences of these times. */
	__u64 since_ns; /* the present state began at this time; the sums contain all time before */
	__u64 in_ns;	/* last switch-in */
	__u64 wake_ns;	/* last waking; may be before the switch-out that it undoes */
	__u8 state;	/* enum cox_state */
	__u8 cause;	/* enum cox_cause of the present block, or COX_BY_FD until it is resolved */
	__u8 yielded;	/* the present preempt wait began in sched_yield */
	__u8 counted;	/* while the thread is counted as waiting: 1 + the class of its affinity mask; otherwise 0 */
	__u16 cpu;	/* the CPU where the thread runs, or last ran or was queued */
	__u16 slot;	/* index of `cpu` in cpu_id; COX_CPU_SLOTS if there was no room */
	__u64 run_ns;
	__u64 wake_delay_ns;
	__u64 took_ns; /* thread time for which other tracked threads waited while this thread held their CPU */
	__u32 flags;   /* COX_ENROLLED_ALIVE ... */

	/*
	 * The thread that last woke this one, and how often in a row. When a different thread wakes this one, the number is added to the map of
	 * wake-ups by waker and woken thread.
	 */
	__u32 waker_tid;
	__u32 waker_count;
	__u32 impossible; /* events that contradict the state before them, because other events were lost */
	__u64 waker_blocked_ns;

	__u64 switches_voluntary;
	__u64 switches_involuntary;
	__u64 wakeups;
	/*
	 * fd_now: system call and file descriptor of the present block. fd_key: the same for the last block whose cause was looked up. fd_cause:
	 * that cause.
	 */
	__u64 fd_now;
	__u64 fd_key;
	__u64 fd_cause;

	__u64 steal_in_ns; /* the CPU's steal clock at the last switch-in */
	__u64 irq_in_ns;
	__u64 steal_ns; /* part of run: the hypervisor ran something else */
	__u64 irq_ns;	/* part of run: interrupts, if the kernel accounts them */
	__u64 preempt_wait_ns;
	__u64 yield_wait_ns; /* part of preempt wait: began in sched_yield */
	__u64 unknown_ns;
	__u64 blocked_ns[COX_CAUSES];
	__u16 cpu_id[COX_CPU_SLOTS]; /* CPU number + 1, 0: unused */
	__u64 cpu_run_ns[COX_CPU_SLOTS];
	__u64 elsewhere_run_ns; /* run time on CPUs for which there was no slot */
	__u32 migrations[COX_MIGRATIONS];

	/* Identity. */
	__u32 parent_tgid;
	__u64 born_ns; /* birth; for a thread that existed before, its enrolment */
	__u32 tid; /* in cox's PID namespace, like all ids for which no other namespace is named */
	__u32 tgid;
	char comm[COX_COMM_LEN];
	__s32 exit_code; /* as the kernel stores it: a wait status */
	__u32 host_tid;	 /* in the machine's initial PID namespace; 0: unknown */
	__u32 inner_tid; /* in the thread's own PID namespace; 0: unknown */
	__u32 pad;

	/* The kernel's own figures for the same time span, for the self-checks. */
	__u64 kernel_cpu_ns;   /* sum_exec_runtime: run without steal */
	__u64 kernel_delay_ns; /* sched_info.run_delay */
};

#define COX_ENROLLED_ALIVE 1u /* the thread existed before it was enrolled */
#define COX_EXECED 2u
#define COX_IO_WORKER 4u
/* The account begins at the thread's next switch-in, so that the wait of a launched thread before its exec is not counted. */
#define COX_LAUNCHED 8u
/* The thread's account has ended, because the thread changed to another user, or got capabilities by exec. */
#define COX_LEFT 16u
/*
 * Bits above the flags: the number of the thread's program, and the thread's place. The place is the number of the thread's own histograms, from 1
 * on; 0 means that the thread has none.
 */
#define COX_PROGRAM_SHIFT 8
#define COX_PROGRAM_MASK 0xff00u
#define COX_PLACE_SHIFT 16

/*
 * Record of one living thread, from a walk over all of them. The thread's struct cox_clock (its account of times) follows. This record has the
 * values that are stored in struct cox_clock only when the thread ends.
 */
struct cox_living {
	__u64 t_ns;
	__u64 kernel_cpu_ns;
	__u64 kernel_delay_ns;
	__u64 cause; /* resolved if the clock says COX_BY_FD */
	char comm[COX_COMM_LEN];
};

/* The account of one CPU. Only that CPU writes the first part; every CPU may write the second part, from `waiting` on. */
enum cox_cpu_kind { COX_CPU_UNSEEN = 0, COX_CPU_IDLE, COX_CPU_OURS, COX_CPU_OTHERS, COX_CPU_KINDS };

struct cox_cpu {
	__u64 since_ns; /* when the present kind began */
	__u64 kind;	/* enum cox_cpu_kind */
	__u64 time_ns[COX_CPU_KINDS];
	__u64 idle_wait_ns;    /* part of idle: a tracked thread that is allowed on this CPU waited for a CPU */
	__u64 idle_blocked_ns; /* part of idle: no such thread waited, but some tracked threads were off CPU */
	__u64 wait_mark;       /* time waited here (see `waiting`) up to the switch-in of the thread that has the CPU */
	__u64 cell_mark;       /* the word `waiting` itself at that time */
	__u64 idle_wait_mark;
	__u64 idle_off_mark;
	__u64 took_idle_ns;  /* thread time for which tracked threads waited here while the CPU was idle */
	__u64 events;	     /* scheduler events handled */
	__u64 timed_events;  /* the events for which the handler's own time was measured */
	__u64 timed_ns;
	__u64 samples; /* samples of tracked threads */
	__u64 pad[7];
	/* --- written by any CPU: on a cache line of its own --- */
	__u64 waiting; /* thread-time cell (cells.h): number of tracked threads queued here, and their summed waiting time */
	__u64 pinned;  /* presence cell of waiting tracked threads that are allowed only here */
	__u64 level;   /* level word k of `cox_tracked.busy`, where k is this CPU's number (cells.h) */
	__u64 pad2[5];
};

/* A cell (a thread count and its time integral in one word, cells.h) on a cache line of its own. */
struct cox_cell_line {
	__u64 cell;
	__u64 pad[7];
};

/* The state of all tracked threads together. */
struct cox_tracked {
	/* These two words change when a CPU starts or stops running tracked threads, so they share a cache line. */
	__u64 off;  /* presence cell (cells.h): number of tracked threads off CPU, and the time for which there was one */
	__u64 busy; /* number of CPUs that are busy with tracked threads; the levels are in `cox_cpu` */
	__u64 off_pad[6];
	struct cox_cell_line waiting[COX_MASK_CLASSES]; /* presence cells of waiting tracked threads, by mask class */
	__u64 masks[COX_MASK_CLASSES][COX_MASK_WORDS];	/* class 0 is every CPU */
	__u64 mask_hash[COX_MASK_CLASSES];
	__u64 classes;
	__u64 members; /* threads born or enrolled so far */
	__u64 alive;
	__u64 lost_members;	/* threads that could not be enrolled because memory ran out */
	__u64 lost_exited;	/* final clocks that did not fit into the ring; their sums are in `unlisted` */
	__u64 lost_samples;
	__u64 lost_wakeups;	/* wake-ups whose pair (waker, woken thread) did not fit into the map */
	__u64 lost_preemptors_ns;	/* thread time spent waiting for untracked threads that did not fit into the map */
	__u64 lost_classes;	/* waits with a mask beyond COX_MASK_CLASSES, counted as class 0 */
	__u64 lost_cells;	/* presence updates given up because of contention */
	__u64 lost_cpus;	/* events on CPUs beyond COX_MAX_CPUS */
	__u64 recovered;	/* switch-ins that reached no tracepoint, recovered from the scheduler's own times */
	__u64 lost_trace_events;	/* trace events that did not fit into the ring */
	__u64 pad[3];
};

/* Value of `in_kernel` of a sample that hit the kernel but no system call: a page fault, or an interrupt. */
#define COX_NO_CALL 0xffffffffu

/* Ring records. */
/* Set by the sampling program: a tracked thread waited for a CPU. */
#define COX_SAMPLE_QUEUED 1
/* Set by the observer: the sample belongs to a round, the samples that all CPUs take at the same time. */
#define COX_SAMPLE_IN_ROUND 2
/* Set by the sampling program: no other tracked thread ran, and none waited for a CPU, but for those that are bound to another CPU. */
#define COX_SAMPLE_ONLY 4

struct cox_sample {
	__u64 ip; /* user instruction pointer, even if the sample hit the kernel */
	__u32 tid;
	__u32 tgid;
	__u32 in_kernel; /* 0 in user mode; in the kernel 1 + system call number, or COX_NO_CALL */
	__u32 flags;	 /* COX_SAMPLE_* */
	__u64 t_ns;
};

/* Keys and values of the hash maps. */
struct cox_pair {
	__u32 waker; /* 0: an interrupt or the idle task */
	__u32 wakee;
};

struct cox_pair_sum {
	__u64 count;
	__u64 blocked_ns; /* total time for which the woken thread had been blocked before these wake-ups */
};

struct cox_preemptor {
	__u64 wait_ns; /* thread time for which tracked threads waited while this thread held their CPU */
	__u32 tgid;    /* id of its process, in cox's PID namespace */
	__u32 pad;
	char comm[COX_COMM_LEN];
};

/*
 * A thread snapshot: the present state of a thread, in memory that its reader maps. A packer reads it a thousand times a second, without a system
 * call. Only the CPU that switches the thread writes it, and `turn` is odd during a write.
 */
struct cox_thread_snapshot {
	__u32 turn;
	__u32 tid;
	__u32 tgid;
	__u32 creator_tid; /* the creating thread; 0: enrolled alive */
	__u64 run_ns;	   /* run time up to the last switch-out */
	__u64 since_ns;	   /* time of the last switch-in, if the thread is still running; 0: not running */
	__u64 ip;	   /* user instruction pointer at the last switch-out */
	__s32 call;	   /* system call of the last switch-out, -1: none */
	__u32 blocks;	   /* switch-outs of the thread while not runnable */
	__u32 preempts;	   /* switch-outs of the thread while runnable */
	__u16 cpu;	   /* the CPU on which it runs or ran last */
	__u8 state;	   /* enum cox_state */
	__u8 spare;
	__u64 out_ns;	   /* time of the last switch-out */
};

/* The number of snapshots given out, and the number of threads that got none because the table was full. */
struct cox_snapshot_counts {
	__u32 given;
	__u32 without_place;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_thread_snapshot) == 64, "one cache line; mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_thread_snapshot, state) == 54, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_clock) == 528, "mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_clock, blocked_ns) == 184, "mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_clock, born_ns) == 464, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_living) == 48, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_cpu) == 256, "mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_cpu, waiting) == 192, "own cache line");
_Static_assert(sizeof(struct cox_tracked) == 1792, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_sample) == 32, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_preemptor) == 32, "mirror in layout.rs");
#endif

#endif
