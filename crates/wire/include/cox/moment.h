/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happened when: the record of a trace. BPF puts moments into a ring, cox keeps them, and traces, pages and reports are made
 * of them. Mirror: ../../src/moment.rs.
 *
 * The times are those that clocks are kept with, so that what is added up from moments is what clocks say.
 */
#ifndef COX_MOMENT_H
#define COX_MOMENT_H

#include "wire.h"

/* The numbers are in files: they stay. */
enum cox_moment_kind {
	COX_M_SWITCH = 1, /* `tid` left `cpu` into state `detail`, `other` came. 0: the idle task. Causes and flags in `more` */
	COX_M_WAKING,	  /* `tid`, last on CPU `more`, is woken by `other` (0: an interrupt, the idle task, or not seen), on `cpu` */
	COX_M_MIGRATION,  /* `tid` moves from CPU `more` to `cpu`; `detail`: enum cox_migration */
	COX_M_BORN,	  /* `tid` is a new thread of process `other`, made by process `more` */
	COX_M_ENROLLED,	  /* `tid` of process `other` is there already, in state `detail`, by cause `more` if blocked */
	COX_M_EXEC,	  /* `tid` is a new program; the thread that asked for it was `other` */
	COX_M_ARRIVED,	  /* `tid` came to `cpu` then, which the kernel did not announce: said when it leaves */
	COX_M_WHY,	  /* what `tid` is blocked by is `detail`: of one whose coming is not announced, or, told by cox, who is blocked at the end */
	COX_M_LOST,	  /* from here on `other` moments of `cpu` found no room, until the next one of that CPU */
	COX_M_SAMPLE,	  /* told by cox: a sample found `tid` at work, or spinning for reason `detail` (0: work) */
};

/* `more` of a switch: the cause by which `tid` blocks, and that by which `other` was blocked until now, in a byte each. */
#define COX_M_CAUSE_OUT(cause) ((__u32)(__u8)(cause))
#define COX_M_CAUSE_IN(cause) ((__u32)(__u8)(cause) << 8)
#define COX_M_MEMBER_OUT (1u << 16) /* `tid` is one of ours */
#define COX_M_MEMBER_IN (1u << 17)  /* `other` is */
#define COX_M_YIELDED (1u << 18)    /* `tid` left by sched_yield */

struct cox_moment {
	__u64 t_ns;
	__u32 tid;
	__u32 other;
	__u16 cpu;
	__u8 kind; /* enum cox_moment_kind */
	__u8 detail;
	__u32 more;
};

/* Moments of a CPU that found no room, not yet told by a COX_M_LOST. */
struct cox_gap {
	__u64 since_ns;
	__u64 count;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_moment) == 24, "mirror in moment.rs");
_Static_assert(__builtin_offsetof(struct cox_moment, kind) == 18, "mirror in moment.rs");
_Static_assert(sizeof(struct cox_gap) == 16, "mirror in moment.rs");
#endif

#endif
