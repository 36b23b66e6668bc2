/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The memory through which a runtime inside a program and the kernel tell each other about blocked threads and pending tasks (user-monitored
 * threads).
 *
 * Each process has two pages, BPF arrays of one element that both sides map. No process has descriptors of another process's pages:
 *
 * - struct cox_program_page: the program page, written by the program, except for `parked`. BPF reads it and trusts no number in it.
 * - struct cox_kernel_page: the kernel page, written by BPF. User space only reads it.
 *
 * Each process also has COX_UMT_BELLS doorbells: ring buffers, at each of which one parked standby waits. crates/umt-client/src/lib.rs explains
 * the protocol, and why no task stays pending while a standby could run it on an idle CPU.
 *
 * The layout is defined twice, in this header and in ../../src/umt.rs, with the same assertions.
 */
#ifndef COX_UMT_H
#define COX_UMT_H

#include "wire.h"

#define COX_UMT_MAGIC 0x746d75786f63ull /* "coxumt" in memory */
#define COX_UMT_VERSION 4
#define COX_UMT_BELLS 16    /* doorbells of a process */
#define COX_UMT_TABLE 2048  /* places for threads; a power of two */
#define COX_UMT_PROBES 16   /* number of consecutive places in which a thread may be (linear probing) */
#define COX_UMT_QUEUES 192  /* queues of ready tasks */
#define COX_UMT_DELAYS 40
#define COX_UMT_CPU_WORDS 16
#define COX_UMT_CPUS (64 * COX_UMT_CPU_WORDS)
#define COX_UMT_PROCESSES 128 /* maximum number of processes of a session at the same time */

/*
 * Bits of `tells`: the events on a CPU at which BPF rings the doorbell with the number `cpu % COX_UMT_BELLS`, to wake the standby thread that waits
 * there. These rings leave `parked` (a bit for each doorbell at which a standby waits) unchanged. When BPF rings a doorbell for another reason, it
 * clears the doorbell's bit in `parked`.
 */
#define COX_UMT_TELL_BLOCKS 1	/* a thread is no longer ready */
#define COX_UMT_TELL_UNBLOCKS 2 /* a thread becomes ready */
#define COX_UMT_TELL_IDLE 4	/* the last ready thread is no longer ready */

/* A queue of ready tasks: empty unless begin < end. The ends are on cache lines of their own, since different threads write them. */
struct cox_umt_queue {
	__s64 begin;
	__u64 pad1[15];
	__s64 end;
	__u64 pad2[15];
};

struct cox_program_page {
	__u32 version;		 /* COX_UMT_VERSION; BPF ignores a page with another value */
	__u32 cpus;		 /* number of CPUs that the process may use; with more runnable threads, these CPUs are oversubscribed */
	__u32 queues;		 /* number of queues in use, from the first one on */
	__u32 generation;	 /* incremented after each change of `tids` */
	__u64 allowed[COX_UMT_CPU_WORDS]; /* CPUs that the process may use */
	__u32 tells;		 /* the events for which BPF rings doorbells, in addition to pending tasks */
	__u32 pad0;
	__u64 pad1[13];
	__u64 parked;		 /* bit n: a standby is parked at bell n. BPF clears the bit when it rings the bell */
	__u64 pad2[15];
	/* Counters for the report. */
	__u64 standbys;		 /* standby threads created */
	__u64 ran;		 /* tasks run by standbys */
	__u64 empty;		 /* rings after which the standby found no task */
	__u64 surrendered;	 /* times that a standby surrendered its CPU because of oversubscription */
	__u64 own_rings;	 /* rings by the program itself, which saw an idle CPU */
	__u64 failed;		 /* standby threads that could not be created */
	__u64 thread_data;	 /* 1: no standbys, because the program has thread-local variables */
	__u64 shared_numbers;	 /* times that the same thread number was given to two tasks */
	__u64 bound;		 /* 1: no standbys, because the program's threads are bound to places */
	__u64 unseen;		 /* 1: no standbys, because the kernel side did not count a test block of the program */
	__u64 unshared;		 /* teams whose queues did not fit into this page */
	__u64 scan_rescues;	 /* times that the safety scan found a pending task and a free CPU that no thread had been notified of */
	__u64 at_limit;		 /* part of `failed`: the process already had its maximum number of standbys */
	__u64 error;		 /* errno of the last other failure; 0: none */
	__u64 pad4[2];
	__u64 heard[COX_UMT_DELAYS]; /* rings by BPF, counted by the time from the ring to the first task: class n begins at 2^(n/4) us */
	__u64 pad5[8];
	__u32 tids[COX_UMT_TABLE]; /* ids of the tracked threads, 0: unused; see cox_umt_place */
	struct cox_umt_queue queue[COX_UMT_QUEUES];
	__u64 pad6[400];	 /* fills up the last page */
};

/*
 * Blocks and unblocks of tracked threads on a CPU. As a signed number, unblocked - blocked is the number of threads that are ready there, running
 * or queued. A reader loads both halves as one aligned word; both wrap around.
 *
 * A thread counts as unblocked when it is enlisted (BPF begins to count it), and as blocked when it ends or is discharged. A ready thread
 * that is moved to another CPU counts as blocked on the old CPU and as unblocked on the new one. So the difference always is the number of ready
 * threads.
 */
struct cox_umt_cpu {
	__u32 blocked;
	__u32 unblocked;
};

struct cox_kernel_page {
	__s32 runnable;	  /* tracked threads that are not blocked */
	__u32 pad1;
	__u64 blocks;	  /* voluntary blocks of tracked threads */
	__u64 unblocks;
	__u64 rings;
	__u64 no_standby; /* times that a task was pending and a CPU free, and no standby was parked */
	__u64 corrected;  /* threads that were found running although no wake-up of them was seen */
	__u64 rung_ns[COX_UMT_BELLS]; /* when BPF last rang each bell, on CLOCK_MONOTONIC */
	__u64 pad2[490];
	struct cox_umt_cpu cpu[COX_UMT_CPUS];
	__u32 thread_blocks[COX_UMT_TABLE]; /* voluntary blocks of the thread in each place of `tids`; wraps around */
};

/* Returns the n-th place of the hash table in which the thread `tid` may be (linear probing). */
static inline __u32 cox_umt_place(__u32 tid, __u32 n)
{
	return ((tid * 2654435761u >> 16) + n) & (COX_UMT_TABLE - 1);
}

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_umt_queue) == 256, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_program_page, tells) == 144, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_program_page, parked) == 256, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_program_page, standbys) == 384, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_program_page, tids) == 896, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_program_page, queue) == 9088, "mirror in umt.rs");
_Static_assert(sizeof(struct cox_program_page) == 61440, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_kernel_page, rung_ns) == 48, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_kernel_page, cpu) == 4096, "mirror in umt.rs");
_Static_assert(sizeof(struct cox_umt_cpu) == 8, "mirror in umt.rs");
_Static_assert(__builtin_offsetof(struct cox_kernel_page, thread_blocks) == 12288, "mirror in umt.rs");
_Static_assert(sizeof(struct cox_kernel_page) == 20480, "mirror in umt.rs");
#endif

#endif
