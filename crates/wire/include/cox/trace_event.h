/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Trace events: the record of a trace. BPF writes trace events into a ring, cox stores them, and traces, pages and reports are made from them.
 * Mirror: ../../src/trace_event.rs.
 *
 * The times are the same as those in clocks, so that sums over trace events agree with the clocks.
 */
#ifndef COX_TRACE_EVENT_H
#define COX_TRACE_EVENT_H

#include "wire.h"

/* The numbers are stored in files, so they must not change. */
enum cox_trace_event_kind {
	COX_EVENT_SWITCH = 1, /* `tid` left `cpu` in state `detail`, and `other` came. 0: the idle task. Causes and flags are in `more` */
	COX_EVENT_WAKING,	  /* `tid`, last on CPU `more`, is woken by `other` (0: an interrupt, the idle task, or unknown) on `cpu` */
	COX_EVENT_MIGRATION,  /* `tid` is moved from CPU `more` to `cpu`; `detail`: enum cox_migration */
	COX_EVENT_BORN,	  /* `tid` is a new thread of process `other`, created by process `more` */
	COX_EVENT_ENROLLED,	  /* `tid` of process `other` existed before; it is in state `detail`; if blocked, `more` is the cause */
	COX_EVENT_EXEC,	  /* `tid` runs a new program; the thread that called exec was `other` */
	COX_EVENT_ARRIVED,	  /* `tid` came to `cpu` at this time without an event; reported when it leaves */
	COX_EVENT_WHY,	  /* the cause of the present block of `tid` is `detail`: for a thread that came without an event; also written by cox for
	          	   * threads that are blocked at the end */
	COX_EVENT_LOST,	  /* from this time until the next event of `cpu`, `other` of its trace events were lost, because the ring was full */
	COX_EVENT_SAMPLE,	  /* written by cox: a sample found `tid` working, or spinning for reason `detail` (0: working) */
};

/* The field `more` of a switch event holds two causes, in one byte each: why `tid` blocks, and why `other` was blocked until this switch. */
#define COX_EVENT_CAUSE_OUT(cause) ((__u32)(__u8)(cause))
#define COX_EVENT_CAUSE_IN(cause) ((__u32)(__u8)(cause) << 8)
#define COX_EVENT_MEMBER_OUT (1u << 16) /* `tid` is tracked */
#define COX_EVENT_MEMBER_IN (1u << 17)  /* `other` is tracked */
#define COX_EVENT_YIELDED (1u << 18)    /* `tid` left by sched_yield */

struct cox_trace_event {
	__u64 t_ns;
	__u32 tid;
	__u32 other;
	__u16 cpu;
	__u8 kind; /* enum cox_trace_event_kind */
	__u8 detail;
	__u32 more;
};

/* Trace events of a CPU that were lost because the ring was full, and that no COX_EVENT_LOST has reported yet: time of the first one, and number. */
struct cox_gap {
	__u64 since_ns;
	__u64 count;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct cox_trace_event) == 24, "mirror in trace_event.rs");
_Static_assert(__builtin_offsetof(struct cox_trace_event, kind) == 18, "mirror in trace_event.rs");
_Static_assert(sizeof(struct cox_gap) == 16, "mirror in trace_event.rs");
#endif

#endif
