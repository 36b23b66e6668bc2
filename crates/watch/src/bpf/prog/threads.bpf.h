/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of the programs, and what each part keeps of a thread.
 *
 * A loaded object can have any combination of four parts:
 *
 * - clocks (clocks.bpf.h): accounts of threads, for `cox run`; with a trace (trace.bpf.h) if it is wanted
 * - snapshots (snapshots.bpf.h): the present state of each thread, for a packer
 * - overlap (overlap.bpf.h): how many threads of a process are runnable, and the doorbells of its standbys
 * - noise (noise.bpf.h): what the kernel does on a CPU instead of running a thread
 *
 * The parts share one program per tracepoint, one storage per thread, and one enrolment walk. The reason is that an event costs mostly the call of a
 * program and the search for the thread's storage. It is known before loading which parts are needed. The verifier removes the other parts as dead
 * code, and their maps are not created. Kernels before 6.8 verify every global function, even one that is never called. A global function that uses a
 * map of its part therefore tests first whether the part is loaded. Each part tracks its own threads: a thread may have a clock and no snapshot.
 */
#ifndef COX_THREADS_BPF_H
#define COX_THREADS_BPF_H

#include "ids.bpf.h"

const volatile bool has_clocks = false;
const volatile bool has_snapshots = false;
const volatile bool has_overlap = false;
const volatile bool has_noise = false;

/* Clocks and snapshots follow the child processes of tracked processes. Overlap never does: each process has to ask for doorbells itself. */
const volatile bool clocks_follow_children = true;
const volatile bool snapshots_follow_children = true;

/* What overlap stores about a thread, if the thread's process has asked for doorbells. */
struct cox_monitored {
	u32 process; /* number of the process + 1; 0: being enrolled */
	u32 looked;  /* `generation` of the page when the thread was last looked up */
	u32 cpu;     /* the CPU where the thread runs or is queued, or ran last */
	u32 place;   /* its place in `tids`, if `counts` is set */
	bool counts; /* whether its process has enlisted it */
	bool runs;   /* whether it is not blocked: it is then counted in `runnable`, and as ready on `cpu` */
};

/* What the noise part stores about a thread. */
struct cox_noise {
	u64 fault_ns; /* begin of the page fault that the thread is in; 0: none */
	u32 waits_on; /* the CPU for which the thread waits since it was preempted, + 1; 0: it does not */
	u8 followed;
	u8 fault; /* enum cox_fault */
	u16 pad;
};

/* What each part (clocks, snapshots, overlap, noise) stores about a thread. A part whose fields are all zero does not track the thread. */
struct cox_thread {
	struct cox_monitored monitored;
	u32 place; /* index of its snapshot in the table + 1 */
	u32 pad;
	struct cox_clock clock;
	struct cox_noise noise;
};

/* Task storage: there is no table to size, and an entry is freed with its thread. */
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

/* Returns the thread's entry in task storage; allocates it if it does not exist yet. Returns NULL if there is no memory for it. */
COX_INLINE struct cox_thread *new_thread(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/*
 * The map `enrol` lists the tasks that the next walk over all tasks enrols, and the part of the programs (clocks, snapshots, overlap or noise) that will
 * track them. Its key is ENROL_PROCESS | tgid for a whole process, or a tid for one thread.
 */
#define ENROL_PROCESS (1ull << 32)
#define ENROL_CLOCK 1
#define ENROL_SNAPSHOT 2
#define ENROL_OVERLAP 4
#define ENROL_NOISE 8

struct cox_enrolment {
	u32 part;
	u32 more; /* flags of the new clock, or the number of the process that asks for overlap */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct cox_enrolment);
} enrol SEC(".maps");

/* Number of tasks listed in `enrol` that the present enrolment has found and that may be tracked. A task that two walks find counts twice. */
u32 found;

#endif
