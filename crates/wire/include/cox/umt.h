/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a runtime inside a program and the kernel say to each other about blocking (User-Monitored Threads).
 *
 * Each process has two pages, BPF arrays of one element that both sides map, and has descriptors of no other process' pages:
 *
 *   struct cox_umt_said   written by the program, but for `parked`; read by BPF, which believes no number of it
 *   struct cox_umt_seen   written by BPF, and only read by user space
 *
 * and COX_UMT_BELLS doorbells, ring buffers that one parked standby each waits at. The protocol, and why no task is left
 * to an idle CPU that could be woken, is told in crates/umt-client/src/lib.rs.
 *
 * One layout, two spellings: this header and ../../src/umt.rs, with the same assertions.
 */
#ifndef COX_UMT_H
#define COX_UMT_H

#include "wire.h"

#define COX_UMT_MAGIC 0x746d75786f63ull /* "coxumt" in memory */
#define COX_UMT_VERSION 4
#define COX_UMT_BELLS 16    /* doorbells of a process */
#define COX_UMT_TABLE 2048  /* places for threads; a power of two */
#define COX_UMT_PROBES 16   /* places a thread may be in, from its first one on */
#define COX_UMT_QUEUES 192  /* queues of ready tasks */
#define COX_UMT_DELAYS 40
#define COX_UMT_CPU_WORDS 16
#define COX_UMT_CPUS (64 * COX_UMT_CPU_WORDS)
#define COX_UMT_PROCESSES 128 /* of a session at the same time */

/* Bits of `tells`: BPF rings bell `cpu % COX_UMT_BELLS`, without taking a standby, at */
#define COX_UMT_TELL_BLOCKS 1	/* each thread that is ready there no more */
#define COX_UMT_TELL_UNBLOCKS 2 /* each that is ready there again */
#define COX_UMT_TELL_IDLE 4	/* the last of those that were ready there */

/* A queue of ready tasks: empty unless begin < end. On lines of their own: different threads write them. */
struct cox_umt_queue {
	__s64 begin;
	__u64 pad1[15];
	__s64 end;
	__u64 pad2[15];
};

struct cox_umt_said {
	__u32 version;		 /* COX_UMT_VERSION: of any other page BPF reads nothing else */
	__u32 cpus;		 /* more runnable threads than these are too many */
	__u32 queues;		 /* in use, from the first on */
	__u32 generation;	 /* raised behind each change of `tids` */
	__u64 allowed[COX_UMT_CPU_WORDS]; /* CPUs that the process may use */
	__u32 tells;		 /* what bells are rung for, beside tasks */
	__u32 pad0;
	__u64 pad1[13];
	__u64 parked;		 /* bit n: a standby waits at bell n. BPF takes a bit when it rings */
	__u64 pad2[15];
	/* Counters for the report. */
	__u64 standbys;		 /* threads made */
	__u64 ran;		 /* tasks that standbys ran */
	__u64 empty;		 /* rings that found no task */
	__u64 surrendered;	 /* standbys that left tasks to others because too many were runnable */
	__u64 own_rings;	 /* rings by the program itself, which saw a CPU without work */
	__u64 failed;		 /* threads that could not be made */
	__u64 thread_data;	 /* 1: no standbys, the program has thread-local data of its own */
	__u64 shared_numbers;	 /* times that a thread number was given to two tasks */
	__u64 bound;		 /* 1: no standbys, threads are bound to places */
	__u64 unseen;		 /* 1: BPF does not see this process: other process ids */
	__u64 unshared;		 /* teams whose queues found no room here */
	__u64 scan_rescues;	 /* times that a scan found a task and a free CPU of which nobody was told */
	__u64 at_limit;		 /* of `failed`: there were as many standbys as a process may have */
	__u64 error;		 /* why the last of the others failed, an errno; 0: none did */
	__u64 pad4[2];
	__u64 heard[COX_UMT_DELAYS]; /* rings by BPF, by time until the first task: class n begins at 2^(n/4) us */
	__u64 pad5[8];
	__u32 tids[COX_UMT_TABLE]; /* threads that count, 0: none; see cox_umt_place */
	struct cox_umt_queue queue[COX_UMT_QUEUES];
	__u64 pad6[400];	 /* to whole pages */
};

/*
 * What threads that count have done on a CPU. As many are ready there, running or queued, as unblocked - blocked, as a signed
 * number. One aligned word for who reads it; both halves wrap around.
 *
 * Who is enlisted unblocks, who ends or is discharged blocks, and who is moved while it is ready blocks there and unblocks here: so the
 * difference is always the number.
 */
struct cox_umt_cpu {
	__u32 blocked;
	__u32 unblocked;
};

struct cox_umt_seen {
	__s32 runnable;	  /* threads that count and are not blocked */
	__u32 pad1;
	__u64 blocks;	  /* voluntary blocks of threads that count */
	__u64 unblocks;
	__u64 rings;
	__u64 no_standby; /* a task was pending and a CPU free, and no standby was parked */
	__u64 corrected;  /* threads that ran though nobody was seen to wake them */
	__u64 rung_ns[COX_UMT_BELLS]; /* when BPF rang each bell last, on CLOCK_MONOTONIC */
	__u64 pad2[490];
	struct cox_umt_cpu cpu[COX_UMT_CPUS];
	__u32 thread_blocks[COX_UMT_TABLE]; /* voluntary blocks of the thread in each place of `tids`; wraps around */
};

/* The n-th place at which a thread is looked for. */
static inline __u32 cox_umt_place(__u32 tid, __u32 n)
{
	return ((tid * 2654435761u >> 16) + n) & (COX_UMT_TABLE - 1);
}

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_umt_queue) == 256, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_said, tells) == 144, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_said, parked) == 256, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_said, standbys) == 384, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_said, tids) == 896, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_said, queue) == 9088, "mirror in umt.rs");
_Static_assert(sizeof(struct cox_umt_said) == 61440, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_seen, rung_ns) == 48, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_seen, cpu) == 4096, "mirror in umt.rs");
_Static_assert(sizeof(struct cox_umt_cpu) == 8, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_umt_seen, thread_blocks) == 12288, "mirror in umt.rs");
_Static_assert(sizeof(struct cox_umt_seen) == 20480, "mirror in umt.rs");
#endif

#endif
