/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The memory that the preload library inside a program shares with cox.
 *
 * It is a memfd of COX_PRELOAD_BYTES named COX_PRELOAD_NAME, sealed so that no process can shrink it while another one reads it:
 *
 * - page 0: struct cox_preload, and from COX_PRELOAD_PHASES_AT on struct cox_preload_phases, written by the program
 * - page 1: struct cox_preload_orders, written by cox, mapped read-only in the program
 * - page 2 and later: one struct cox_preload_slot per thread that came to a barrier, written by that thread
 *
 * A reader must expect any value in the words that the other side writes.
 *
 * The layout is defined twice, in this header and in ../../src/preload.rs, with the same assertions.
 */
#ifndef COX_PRELOAD_H
#define COX_PRELOAD_H

#include <linux/types.h>

#define COX_PRELOAD_NAME "coxswain-preload"
#define COX_PRELOAD_MAGIC 0x67706c7270786f63ull /* "coxprlpg" in memory */
#define COX_PRELOAD_VERSION 1
#define COX_PRELOAD_PAGE 4096
#define COX_PRELOAD_SLOTS 1024
#define COX_PRELOAD_HELPERS 4
/* The library keeps the memory open for a cox process of the same user, through a descriptor with this number or a larger one. */
#define COX_PRELOAD_KEPT_FROM 1000
#define COX_PRELOAD_PHASES_AT 1024
#define COX_PRELOAD_PHASE_BUCKETS 264
#define COX_PRELOAD_BYTES (2 * COX_PRELOAD_PAGE + COX_PRELOAD_SLOTS * 64)

/* cox_preload.seen: what the program has used so far. */
#define COX_PRELOAD_LIBGOMP 1u
#define COX_PRELOAD_LIBOMP 2u
#define COX_PRELOAD_PTHREAD 4u
#define COX_PRELOAD_TASKS 8u /* threads in a barrier may be running tasks */
#define COX_PRELOAD_MPI 16u /* collective operations in which all ranks wait for each other */

/* cox_preload.throttle: state of the spin throttle, which is on while the program is packed onto fewer CPUs than libgomp counted at its start. */
enum cox_preload_throttle {
	COX_PRELOAD_AS_IT_WAS = 0,
	COX_PRELOAD_THROTTLED, /* threads soon go to sleep at barriers */
	COX_PRELOAD_REFUSED,   /* the threads that the throttle needs could not be created, or would be visible to the program */
};

struct cox_preload {
	__u64 magic; /* written last */
	__u32 version;
	__u32 bytes; /* size of the whole memory */
	__u32 pid;   /* the program's own process id */
	__u32 slots; /* number of slots in the table */
	__u32 given; /* number of threads that have asked for a slot; above `slots` if some threads got none */
	__u32 seen;
	__u32 cpus_at_start; /* number of CPUs allowed when the program began, which its libgomp has counted */
	__u32 team_threads; /* living threads that have worked in libgomp's teams */
	__u32 throttle;	     /* enum cox_preload_throttle */
	__u32 helpers[COX_PRELOAD_HELPERS]; /* ids of the library's own threads; threads that these create belong to the library too */
	__u32 pad;
};

/*
 * How long the thread with the first slot computed from one synchronisation to the next, without its wait. Only filled if cox asks for it at the start.
 * Written by that thread alone. Bucket 8 i + j has the lengths from 2^(7+i) (1 + j/8) ns on; the first also has all shorter ones.
 */
struct cox_preload_phases {
	__u64 sum_ns;
	__u64 longest_ns;
	__u64 counts[COX_PRELOAD_PHASE_BUCKETS];
};

struct cox_preload_orders {
	__u32 cpus_now; /* number of CPUs onto which the program is packed; 0: not packed. A futex word */
	__u32 pad;
	__u64 until_ns; /* `cpus_now` is valid while CLOCK_MONOTONIC is below this time. cox renews it, since cox may be killed */
};

/* cox_preload_slot.role */
enum cox_preload_role {
	COX_PRELOAD_THREAD = 0,
	COX_PRELOAD_TEAM, /* has worked in a team of libgomp */
};

/* A thread's slot, on a cache line of its own, since the thread writes it at each barrier. */
struct cox_preload_slot {
	__u32 tid;	  /* id of the thread within the program; written last, 0: slot not given out yet */
	__u32 in_barrier; /* true while the thread waits at a barrier, or for the next parallel region */
	__u64 phases;	  /* number of barriers passed */
	__u32 role;	  /* enum cox_preload_role */
	__u32 ended;	  /* true if the thread is gone; its id may be another thread's */
	__u32 pad[10];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_preload) == 64, "mirror in preload.rs");
_Static_assert(__builtin_offsetof(struct cox_preload, given) == 24, "mirror in preload.rs");
_Static_assert(__builtin_offsetof(struct cox_preload, throttle) == 40, "mirror in preload.rs");
_Static_assert(__builtin_offsetof(struct cox_preload_phases, counts) == 16, "mirror in preload.rs");
_Static_assert(sizeof(struct cox_preload_phases) == 2128, "mirror in preload.rs");
_Static_assert(sizeof(struct cox_preload_orders) == 16, "mirror in preload.rs");
_Static_assert(__builtin_offsetof(struct cox_preload_orders, until_ns) == 8, "mirror in preload.rs");
_Static_assert(sizeof(struct cox_preload_slot) == 64, "mirror in preload.rs");
_Static_assert(__builtin_offsetof(struct cox_preload_slot, phases) == 8, "mirror in preload.rs");
_Static_assert(__builtin_offsetof(struct cox_preload_slot, ended) == 20, "mirror in preload.rs");
_Static_assert(COX_PRELOAD_BYTES == 73728, "mirror in preload.rs");
#endif

#endif
