/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The memory that the preload library inside a program shares with cox.
 *
 * A memfd of COX_GUEST_BYTES named COX_GUEST_NAME, sealed so that nobody can shrink it under a reader:
 *
 *   page 0      struct cox_guest          written by the program
 *   page 1      struct cox_guest_orders   written by cox, mapped read-only in the program
 *   page 2 ...  struct cox_guest_slot     one per thread that came to a barrier, written by that thread
 *
 * Whoever reads words of the other side takes them as what they are: anything.
 *
 * One layout, two spellings: this header and ../../src/guest.rs, with the same assertions.
 */
#ifndef COX_GUEST_H
#define COX_GUEST_H

#include <linux/types.h>

#define COX_GUEST_NAME "coxswain-guest"
#define COX_GUEST_MAGIC 0x7473657567786f63ull /* "coxguest" in memory */
#define COX_GUEST_VERSION 1
#define COX_GUEST_PAGE 4096
#define COX_GUEST_SLOTS 1024
#define COX_GUEST_HELPERS 4
/* A descriptor that is kept for a user's cox has this number or a larger one. */
#define COX_GUEST_KEPT_FROM 1000
#define COX_GUEST_BYTES (2 * COX_GUEST_PAGE + COX_GUEST_SLOTS * 64)

/* cox_guest.seen: what the program has used so far. */
#define COX_GUEST_LIBGOMP 1u
#define COX_GUEST_LIBOMP 2u
#define COX_GUEST_PTHREAD 4u
#define COX_GUEST_TASKS 8u /* threads in a barrier may be running tasks */

/* cox_guest.cure: libgomp's spinning while packed onto fewer CPUs than it counted. */
enum cox_guest_cure {
	COX_GUEST_AS_IT_WAS = 0,
	COX_GUEST_THROTTLED, /* threads sleep soon at barriers */
	COX_GUEST_REFUSED,   /* no threads could be had for it, or they would show */
};

struct cox_guest {
	__u64 magic; /* written last */
	__u32 version;
	__u32 bytes; /* of the whole memory */
	__u32 pid;   /* as the program knows itself */
	__u32 slots; /* in the table */
	__u32 given; /* threads that asked for a slot: more than there are, when some have none */
	__u32 seen;
	__u32 cpus_at_start; /* CPUs allowed when the program began: what its libgomp has counted */
	__u32 crew;	     /* threads alive that have worked in libgomp's teams */
	__u32 cure;	     /* enum cox_guest_cure */
	__u32 helpers[COX_GUEST_HELPERS]; /* threads of the library's own; what they create is so too */
	__u32 pad;
};

struct cox_guest_orders {
	__u32 cpus_now; /* the program is packed onto so many CPUs; 0: it is not. A futex word */
	__u32 pad;
	__u64 until_ns; /* … if CLOCK_MONOTONIC is below this: cox renews it, and may be killed */
};

/* cox_guest_slot.role */
enum cox_guest_role {
	COX_GUEST_THREAD = 0,
	COX_GUEST_TEAM, /* has worked in a team of libgomp's */
};

/* A cache line of its own: its thread writes it at each barrier. */
struct cox_guest_slot {
	__u32 tid;	  /* as the program knows it; written last, 0: not given yet */
	__u32 in_barrier; /* waits at a barrier, or for the next parallel region */
	__u64 phases;	  /* barriers passed */
	__u32 role;	  /* enum cox_guest_role */
	__u32 ended;	  /* the thread is gone, its id may be another's */
	__u32 pad[10];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_guest) == 64, "mirror in guest.rs");
_Static_assert(__builtin_offsetof(struct cox_guest, given) == 24, "mirror in guest.rs");
_Static_assert(__builtin_offsetof(struct cox_guest, cure) == 40, "mirror in guest.rs");
_Static_assert(sizeof(struct cox_guest_orders) == 16, "mirror in guest.rs");
_Static_assert(__builtin_offsetof(struct cox_guest_orders, until_ns) == 8, "mirror in guest.rs");
_Static_assert(sizeof(struct cox_guest_slot) == 64, "mirror in guest.rs");
_Static_assert(__builtin_offsetof(struct cox_guest_slot, phases) == 8, "mirror in guest.rs");
_Static_assert(__builtin_offsetof(struct cox_guest_slot, ended) == 20, "mirror in guest.rs");
_Static_assert(COX_GUEST_BYTES == 73728, "mirror in guest.rs");
#endif

#endif
