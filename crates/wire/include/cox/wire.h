/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What cox and its BPF programs say to each other. What the preload library says is in preload.h.
 *
 * One layout, two spellings: this header and ../../src/layout.rs. Sizes and offsets are asserted on
 * both sides at compile time, so a change in one without the other does not build.
 *
 * All times are nanoseconds on CLOCK_MONOTONIC. Every struct has no padding that is not named.
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

#define COX_WIRE_VERSION 1

/* CPUs with a number at or above this are not accounted; cox refuses such a machine by name. */
#define COX_MAX_CPUS 1024
#define COX_MASK_WORDS (COX_MAX_CPUS / 64)
/* Distinct partial affinity masks a session tells apart; "all CPUs" and "one CPU" need none. */
#define COX_MASK_CLASSES 8
/* CPUs a thread's run time is kept apart for; a thread seen on more has the rest in one sum. */
#define COX_CPU_SLOTS 16
#define COX_COMM_LEN 16

/* In the id of a thread: it is the machine's id of one that cox's PID namespace does not show. Above all ids that Linux gives (2^22). */
#define COX_OUTSIDE 0x40000000u

/* The one id, and the one name, that all threads of other users have in an observation of one user's. */
#define COX_ANOTHER_USERS 0x20000000u
#define COX_ANOTHER_USERS_NAME "another user's\0"

/* Why a thread left its CPU not runnable. The order is the wire order; names live in Rust. */
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
	COX_UNSPECIFIED, /* the backend cannot see causes */
	COX_CAUSES,
	/* In the system-call table only: the cause hangs on what the file descriptor is. */
	COX_BY_FD = 0xff,
};

/* What a thread is doing, as far as its clock knows. */
enum cox_state {
	COX_UNSEEN = 0, /* enrolled while alive, no event yet */
	COX_BORN,	/* created, not yet switched in */
	COX_RUN,
	COX_PREEMPT, /* switched out runnable */
	COX_BLOCKED, /* switched out not runnable; woken once wake_ns >= since_ns */
	COX_DEAD,
};

enum cox_migration {
	COX_AT_WAKEUP = 0,
	COX_WHILE_QUEUED, /* the load balancer moved a runnable thread */
	COX_BY_AFFINITY,  /* the CPU it was on is no longer allowed */
	COX_MIGRATIONS,
};

/*
 * One thread's account, kept in task storage by BPF and by `ledger` on the event path. What every
 * switch and waking touches stands first: the cost of an event is mostly cache lines.
 */
struct cox_clock {
	/* State words: the truth. Sums below only ever grow by differences of these. */
	__u64 since_ns; /* the state below began, and everything before is booked */
	__u64 in_ns;	/* last switch-in */
	__u64 wake_ns;	/* last waking; may precede the switch-out it undoes */
	__u8 state;	/* enum cox_state */
	__u8 cause;	/* enum cox_cause, or COX_BY_FD until resolved; of the present block */
	__u8 yielded;	/* the present preempt wait began in sched_yield */
	__u8 counted;	/* 1 + mask class while counted as waiting, else 0 (see cells.h) */
	__u16 cpu;	/* runs there, or last ran or was queued there */
	__u16 slot;	/* index of `cpu` in cpu_id, COX_CPU_SLOTS when there was no room */
	__u64 run_ns;
	__u64 wake_delay_ns;
	__u64 took_ns; /* thread-time other members waited while this thread held their CPU */
	__u32 flags;   /* COX_ENROLLED_ALIVE ... */

	/* Who woke this thread most recently, as a run-length: flushed to the pair map on change. */
	__u32 waker_tid;
	__u32 waker_count;
	__u32 impossible; /* transitions that cannot follow one another: lost events */
	__u64 waker_blocked_ns;

	__u64 switches_voluntary;
	__u64 switches_involuntary;
	__u64 wakeups;
	/* System call and descriptor of the present block, and of the last one that was looked up. */
	__u64 fd_now;
	__u64 fd_key;
	__u64 fd_cause;

	__u64 steal_in_ns; /* the CPU's steal clock at the last switch-in */
	__u64 irq_in_ns;
	__u64 steal_ns; /* part of run: the hypervisor ran something else */
	__u64 irq_ns;	/* part of run: interrupts, where the kernel accounts them */
	__u64 preempt_wait_ns;
	__u64 yield_wait_ns; /* part of preempt wait: began in sched_yield */
	__u64 unknown_ns;
	__u64 blocked_ns[COX_CAUSES];
	__u16 cpu_id[COX_CPU_SLOTS]; /* CPU number + 1, 0: unused */
	__u64 cpu_run_ns[COX_CPU_SLOTS];
	__u64 elsewhere_run_ns; /* run on CPUs that found no slot */
	__u32 migrations[COX_MIGRATIONS];

	/* Identity. */
	__u32 parent_tgid;
	__u64 born_ns; /* birth, or enrolment for a thread that was there before */
	__u32 tid; /* in cox's PID namespace, as all ids that have no other word with them */
	__u32 tgid;
	char comm[COX_COMM_LEN];
	__s32 exit_code; /* as the kernel keeps it: wait status */
	__u32 host_tid;	 /* in the machine's first PID namespace; 0: not known */
	__u32 inner_tid; /* in the thread's own; 0: not known */
	__u32 pad;

	/* The kernel's own account over the same span, for the self-checks. */
	__u64 kernel_cpu_ns;   /* sum_exec_runtime: run without steal */
	__u64 kernel_delay_ns; /* sched_info.run_delay */
};

#define COX_ENROLLED_ALIVE 1u /* existed before the session saw it */
#define COX_EXECED 2u
#define COX_IO_WORKER 4u
/* The account begins when the thread is next switched in: it waits, before its exec, for the go. */
#define COX_LAUNCHED 8u
/* It became another user, or got capabilities by exec: its account ends there. */
#define COX_LEFT 16u

/* A walk over the living: this, then the clock. What the clock does not hold until it is final. */
struct cox_living {
	__u64 t_ns;
	__u64 kernel_cpu_ns;
	__u64 kernel_delay_ns;
	__u64 cause; /* resolved, when the clock says COX_BY_FD */
	char comm[COX_COMM_LEN];
};

/* One CPU's account. The first part is written by that CPU only, `waiting` and `pinned` by any. */
enum cox_cpu_kind { COX_CPU_UNSEEN = 0, COX_CPU_IDLE, COX_CPU_OURS, COX_CPU_OTHERS, COX_CPU_KINDS };

struct cox_cpu {
	__u64 since_ns; /* the present kind began */
	__u64 kind;	/* enum cox_cpu_kind */
	__u64 time_ns[COX_CPU_KINDS];
	__u64 idle_wait_ns;    /* part of idle: a member allowed here waited for a CPU */
	__u64 idle_blocked_ns; /* part of idle: none waited, some were off CPU */
	__u64 wait_mark;       /* waiting integral when the present stint began */
	__u64 cell_mark;       /* raw `waiting` word at that time */
	__u64 idle_wait_mark;
	__u64 idle_off_mark;
	__u64 took_idle_ns;  /* thread-time members waited here while the CPU idled */
	__u64 events;	     /* scheduler events handled */
	__u64 timed_events;  /* … of which the handler's own time was measured */
	__u64 timed_ns;
	__u64 samples; /* of members */
	__u64 pad[7];
	/* --- written by any CPU: a line of its own --- */
	__u64 waiting; /* thread-time cell of members queued here */
	__u64 pinned;  /* presence cell of waiting members allowed only here */
	__u64 level;   /* of "more CPUs than this one's number are busy with members" */
	__u64 pad2[5];
};

/* State of the crew as a whole. Cells as in cells.h, each on a cache line of its own. */
struct cox_cell_line {
	__u64 cell;
	__u64 pad[7];
};

struct cox_crew {
	/* Both change when a CPU turns to members, or from them: one cache line. */
	__u64 off;  /* presence: members off CPU */
	__u64 busy; /* how many CPUs are busy with members; the levels are in `cox_cpu` */
	__u64 off_pad[6];
	struct cox_cell_line waiting[COX_MASK_CLASSES]; /* presence: members waiting, by mask */
	__u64 masks[COX_MASK_CLASSES][COX_MASK_WORDS];	/* class 0 is every CPU */
	__u64 mask_hash[COX_MASK_CLASSES];
	__u64 classes;
	__u64 members; /* born or enrolled so far */
	__u64 alive;
	__u64 lost_members;	/* could not be enrolled: no memory */
	__u64 lost_finals;	/* final clocks that found no room; their sums are in `unlisted` */
	__u64 lost_samples;
	__u64 lost_pairs;	/* wake-ups whose pair found no room */
	__u64 lost_takers_ns;	/* waiting behind strangers whose name found no room */
	__u64 lost_classes;	/* waits under a mask beyond COX_MASK_CLASSES, counted as class 0 */
	__u64 lost_cells;	/* presence updates given up under contention */
	__u64 lost_cpus;	/* events on CPUs beyond COX_MAX_CPUS */
	__u64 recovered;	/* switch-ins the kernel did not announce, known from its own books */
	__u64 lost_moments;	/* of a trace, that found no room in its ring */
	__u64 pad[3];
};

/* Ring records. */
struct cox_sample {
	__u64 ip; /* user instruction pointer, also when the sample hit the kernel */
	__u32 tid;
	__u32 tgid;
	__u32 in_kernel; /* 1 + system call number while in one, 0 in user mode */
	__u32 pad;
	__u64 t_ns;
};

/* Keys and values of the hash maps. */
struct cox_pair {
	__u32 waker; /* 0: an interrupt or the idle task */
	__u32 wakee;
};

struct cox_pair_sum {
	__u64 count;
	__u64 blocked_ns; /* how long the wakee had been blocked when this waker woke it */
};

struct cox_taker {
	__u64 wait_ns; /* thread-time members waited while it held their CPU */
	char comm[COX_COMM_LEN];
};

/*
 * Where a thread stands right now, in memory that its reader maps: a packer asks a thousand times a
 * second, without a system call. The CPU that switches the thread writes it, one at a time, and turn
 * is odd meanwhile.
 */
struct cox_stand {
	__u32 turn;
	__u32 tid;
	__u32 tgid;
	__u32 creator_tid; /* who made it; 0: it was enrolled */
	__u64 run_ns;	   /* on CPUs, up to its last switch-out */
	__u64 since_ns;	   /* switched in then and running since, 0: not running */
	__u64 ip;	   /* user instruction pointer at its last switch-out */
	__s32 call;	   /* the system call it was in then, -1: none */
	__u32 blocks;	   /* times it has left its CPU by its own doing */
	__u32 preempts;	   /* times it was switched out runnable */
	__u16 cpu;	   /* runs there, or did last */
	__u8 state;	   /* enum cox_state */
	__u8 spare;
	__u64 out_ns;	   /* its last switch-out */
};

/* How many stands were given out, and to how many threads none was. */
struct cox_stand_counts {
	__u32 given;
	__u32 without_place;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_stand) == 64, "one cache line; mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_stand, state) == 54, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_clock) == 528, "mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_clock, blocked_ns) == 184, "mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_clock, born_ns) == 464, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_living) == 48, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_cpu) == 256, "mirror in layout.rs");
_Static_assert(__builtin_offsetof(struct cox_cpu, waiting) == 192, "own cache line");
_Static_assert(sizeof(struct cox_crew) == 1792, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_sample) == 32, "mirror in layout.rs");
_Static_assert(sizeof(struct cox_taker) == 24, "mirror in layout.rs");
#endif

#endif
