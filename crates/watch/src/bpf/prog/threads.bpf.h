/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of the programs, and what they keep of each thread.
 *
 * Three parts can be in one loaded object, and any of them alone:
 *
 *  - clocks (clocks.bpf.h): a thread's account, for `cox run`; with a trace of it (trace.bpf.h) if that is wanted
 *  - snapshots (snapshots.bpf.h): where each thread is now, for whoever packs threads
 *  - overlap (overlap.bpf.h): how many threads of a process are runnable, and the doorbells of its standbys
 *
 * They share one program per tracepoint, one storage per thread, and one enrolment walk, since what an event costs is mostly the call of
 * a program and the search for the thread's storage. Which parts there are is known before the programs are loaded. The verifier removes the
 * others as dead code, and their maps are not made. Kernels before 6.8 read every global function, also one that is never called, so those that use a
 * map of their part test first whether the part is there. Each part has its own members: a thread may have a clock and no snapshot.
 */
#ifndef COX_THREADS_BPF_H
#define COX_THREADS_BPF_H

#include "ids.bpf.h"

const volatile bool has_clocks = false;
const volatile bool has_snapshots = false;
const volatile bool has_overlap = false;

/* Clocks and snapshots follow the child processes of their members. Overlap never does: each process asks for itself. */
const volatile bool clocks_follow_children = true;
const volatile bool snapshots_follow_children = true;

/* A thread of a process that has asked for overlap. */
struct cox_monitored {
	u32 process; /* plus one; 0: being enrolled */
	u32 looked;  /* `generation` at which it was last looked for */
	u32 cpu;     /* where it runs or is queued, or ran last */
	u32 place;   /* if it counts: its place in `tids` */
	bool counts; /* its process has enlisted it */
	bool runs;   /* it is not blocked: counted in `runnable`, and as ready on `cpu` */
};

/* What each part keeps of a thread. Zero: the part does not know it. */
struct cox_thread {
	struct cox_monitored monitored;
	u32 place; /* of its snapshot in the table, plus one */
	u32 pad;
	struct cox_clock clock;
};

/* It lives with the task: no table to size, gone with the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cox_thread);
} threads SEC(".maps");

COX_INLINE struct cox_thread *thread_of(struct task_struct *p)
{
	return has_storage(p) ? bpf_task_storage_get(&threads, p, 0, 0) : NULL;
}

/* NULL: there is no memory. */
COX_INLINE struct cox_thread *new_thread(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Whom the enrolment walk takes, and for which part: ENROL_PROCESS | tgid, or a tid. */
#define ENROL_PROCESS (1ull << 32)
#define ENROL_CLOCK 1
#define ENROL_SNAPSHOT 2
#define ENROL_OVERLAP 4

struct cox_enrolment {
	u32 part;
	u32 more; /* flags for the new clock; the number of the process that asks for overlap */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct cox_enrolment);
} enrol SEC(".maps");

/* Threads that the last walk has found of those that it was to take. */
u32 found;

#endif
