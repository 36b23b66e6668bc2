/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The overlap part (user-monitored threads). It counts the runnable threads of runtimes that have asked for doorbells. Standby threads sleep until
 * they are needed. When one of a runtime's threads blocks, or a CPU goes idle, this part wakes one of them, if tasks are pending and the runtime has
 * fewer runnable threads than CPUs.
 *
 * The protocol, and why it loses no task, are explained in crates/umt-client/src/lib.rs; this is its step 2. Whether a thread is runnable is kept
 * in the thread's own state, and `runnable` changes only together with that state. If an event is lost or comes twice, the thread's next event
 * corrects it.
 */
#ifndef COX_OVERLAP_BPF_H
#define COX_OVERLAP_BPF_H

#include "threads.bpf.h"
#include "cox/umt.h"

/*
 * All process numbers that are in use are below this value. If it is 0, no thread is counted, because the overlap part has not begun yet or has
 * ended.
 */
u32 processes;

/*
 * Limit of the search for tasks when a CPU goes idle: processes searched + queues searched. The context switch waits for this search. The limit is
 * needed because each process itself says how many queues it has, and a user without privilege may have several sessions of 128 processes.
 */
#define LOOKS_AT_MOST 1024

/* The process with which the next search begins. A search that reaches the limit continues here the next time. */
u32 first_looked;

/*
 * One flag per process number: set if the process has closed its connection to cox. Its standby threads are then no longer woken. Only the session
 * can write these flags; no observed process can.
 */
u8 over[COX_UMT_PROCESSES];

/*
 * Each process has two pages of its own, and no descriptor of another process's pages. Writes to these pages, by the process or by a process that
 * has inherited its descriptors, affect no other process. The next process with the same number gets new pages.
 */
struct program_page_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct cox_program_page));
};

/* The kernel page of a process, which only these programs write. It is frozen when it is created, so user space can only read it. */
struct kernel_page_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct cox_kernel_page));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, COX_UMT_PROCESSES);
	__type(key, u32);
	__array(values, struct program_page_map);
} program_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, COX_UMT_PROCESSES);
	__type(key, u32);
	__array(values, struct kernel_page_map);
} kernel_pages SEC(".maps");

struct bell {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, COX_UMT_PROCESSES * COX_UMT_BELLS);
	__type(key, u32);
	__array(values, struct bell);
} bells SEC(".maps");

COX_INLINE struct cox_monitored *monitored_in(struct cox_thread *thread)
{
	return thread && thread->monitored.process ? &thread->monitored : NULL;
}

/* Returns the program page of a process. Returns NULL also if the process has no page yet, or a page of another layout. */
COX_INLINE struct cox_program_page *program_page_of(u32 process)
{
	struct cox_program_page *program;
	u32 only = 0;
	void *page;

	if (!has_overlap)
		return NULL;
	page = bpf_map_lookup_elem(&program_pages, &process);
	program = page ? bpf_map_lookup_elem(page, &only) : NULL;
	return program && program->version == COX_UMT_VERSION ? program : NULL;
}

COX_INLINE struct cox_kernel_page *kernel_page_of(u32 process)
{
	u32 only = 0;
	void *page;

	if (!has_overlap)
		return NULL;
	page = bpf_map_lookup_elem(&kernel_pages, &process);
	return page ? bpf_map_lookup_elem(page, &only) : NULL;
}

COX_INLINE struct cox_umt_cpu *cpu_of(struct cox_kernel_page *kernel, u32 cpu)
{
	return &kernel->cpu[cpu & (COX_UMT_CPUS - 1)];
}

COX_INLINE s32 ready_on(struct cox_kernel_page *kernel, u32 cpu)
{
	return (s32)(cpu_of(kernel, cpu)->unblocked - cpu_of(kernel, cpu)->blocked);
}

/* --- doorbells --------------------------------------------------------------------------------- */

/* Returns whether one of the first `used` queues has a task. */
COX_INLINE bool has_ready(struct cox_program_page *program, u32 used)
{
	for (u32 i = 0; i < COX_UMT_QUEUES && i < used; i++)
		if (program->queue[i].begin < program->queue[i].end)
			return true;
	return false;
}

/*
 * Called when a thread of the process has left this CPU. Wakes a standby thread by its doorbell if one of the first `used` queues has a task. There
 * is a second condition: no thread of the process is runnable on this CPU, or the process has fewer runnable threads than CPUs. The scheduler decides
 * where the standby runs; it wakes threads on idle CPUs. The verifier checks this function separately, not at each call.
 */
__attribute__((noinline)) int ring(u32 process, u32 cpu, u32 used)
{
	struct cox_program_page *program = program_page_of(process);
	struct cox_kernel_page *kernel = kernel_page_of(process);
	u32 at, key;
	u64 now;
	void *bell;

	if (!program || !kernel || process >= COX_UMT_PROCESSES || over[process])
		return 0;
	if (ready_on(kernel, cpu) > 0 && kernel->runnable >= (s32)program->cpus)
		return 0;
	if (!has_ready(program, used))
		return 0;
	/* Always prefers the doorbell with the lowest number: the memory of that standby is in the caches, and the others sleep on. */
	for (at = 0; at < COX_UMT_BELLS; at++) {
		u64 bit = 1ull << at;

		if (!(program->parked & bit) || !(__sync_fetch_and_and(&program->parked, ~bit) & bit))
			continue;
		now = bpf_ktime_get_ns();
		kernel->rung_ns[at] = now;
		__sync_fetch_and_add(&kernel->rings, 1);
		key = process * COX_UMT_BELLS + at;
		bell = bpf_map_lookup_elem(&bells, &key);
		if (bell)
			bpf_ringbuf_output(bell, &now, sizeof(now), BPF_RB_FORCE_WAKEUP);
		return 1;
	}
	__sync_fetch_and_add(&kernel->no_standby, 1);
	return 0;
}

/* --- runnable threads, by CPU ------------------------------------------------------------------------ */

/*
 * Called after a block or unblock was counted on a CPU: rings the CPU's doorbell (a ring buffer) if the program wants to know. This wakes a reader
 * only if it has read all earlier entries, so that a slow reader is not woken again and again. The verifier checks this function separately.
 */
__attribute__((noinline)) int tell(u32 process, u32 cpu, u32 what)
{
	struct cox_program_page *program = program_page_of(process);
	struct cox_kernel_page *kernel = kernel_page_of(process);
	u32 key = process * COX_UMT_BELLS + cpu % COX_UMT_BELLS;
	u64 now;
	void *bell;

	if (!program || !kernel)
		return 0;
	/*
	 * Every caller has counted its own thread as blocked before it tests whether a thread of the process is still runnable on this CPU. So if
	 * several such threads block at the same time, the last caller finds that none is left.
	 */
	if (what == COX_UMT_TELL_BLOCKS && ready_on(kernel, cpu) <= 0)
		what |= COX_UMT_TELL_IDLE;
	bell = program->tells & what ? bpf_map_lookup_elem(&bells, &key) : NULL;
	now = bpf_ktime_get_ns();
	/* If the ring buffer is full, its reader is not woken. That is right: an earlier entry, which it has not read yet, has woken it. */
	if (bell)
		bpf_ringbuf_output(bell, &now, sizeof(now), 0);
	return 0;
}

COX_INLINE void blocks_on(u32 process, struct cox_program_page *program, struct cox_kernel_page *kernel, u32 cpu)
{
	__sync_fetch_and_add(&cpu_of(kernel, cpu)->blocked, 1);
	if (program->tells)
		tell(process, cpu, COX_UMT_TELL_BLOCKS);
}

COX_INLINE void unblocks_on(u32 process, struct cox_program_page *program, struct cox_kernel_page *kernel, u32 cpu)
{
	__sync_fetch_and_add(&cpu_of(kernel, cpu)->unblocked, 1);
	if (program->tells)
		tell(process, cpu, COX_UMT_TELL_UNBLOCKS);
}

COX_INLINE void stops(struct cox_monitored *m, struct cox_program_page *program, struct cox_kernel_page *kernel)
{
	m->runs = false;
	__sync_fetch_and_add(&kernel->runnable, -1);
	blocks_on(m->process - 1, program, kernel, m->cpu);
}

COX_INLINE void starts(struct cox_monitored *m, struct cox_program_page *program, struct cox_kernel_page *kernel)
{
	m->runs = true;
	__sync_fetch_and_add(&kernel->runnable, 1);
	unblocks_on(m->process - 1, program, kernel, m->cpu);
}

COX_INLINE void is_on(struct cox_monitored *m, struct cox_program_page *program, struct cox_kernel_page *kernel, u32 cpu)
{
	u32 before = m->cpu;

	m->cpu = cpu;
	if (before == cpu || !m->runs)
		return;
	unblocks_on(m->process - 1, program, kernel, cpu);
	blocks_on(m->process - 1, program, kernel, before);
}

/* --- threads come and go ----------------------------------------------------------------------- */

COX_INLINE void take_in(struct task_struct *p, u32 process)
{
	struct cox_thread *thread = new_thread(p);
	struct cox_monitored *m;

	if (!thread)
		return;
	m = &thread->monitored;
	m->looked = 0;
	m->cpu = p->wake_cpu;
	m->counts = false;
	m->runs = false;
	barrier();
	m->process = process + 1;
}

/* Stops tracking the thread until its process asks for doorbells again. No standby thread is woken in its place. */
COX_INLINE void let_go(struct cox_monitored *m)
{
	struct cox_program_page *program = program_page_of(m->process - 1);
	struct cox_kernel_page *kernel = kernel_page_of(m->process - 1);

	if (program && kernel && m->counts && m->runs)
		stops(m, program, kernel);
	m->counts = false;
	m->process = 0;
}

COX_INLINE void overlap_newtask(struct task_struct *child, bool is_thread, struct cox_thread *creator)
{
	struct cox_monitored *m = monitored_in(creator);

	/* A child process is not tracked until it asks for doorbells (descriptors on which its standby threads wait) itself. */
	if (m && is_thread && (!owned || is_owners(child)))
		take_in(child, m->process - 1);
}

/* The thread executes another program, perhaps with more rights. That program has to ask for doorbells, and its rights are checked then. */
COX_INLINE void overlap_exec(struct cox_thread *thread)
{
	struct cox_monitored *m = monitored_in(thread);

	if (m)
		let_go(m);
}

/* --- threads block and unblock ------------------------------------------------------------------ */

/* Returns whether this thread is in its process's list of threads to count. Searches the list only if it has changed. */
COX_INLINE bool counts(struct cox_monitored *m, struct task_struct *p, struct cox_program_page *program,
		       struct cox_kernel_page *kernel)
{
	u32 generation = program->generation;
	bool listed = false;
	u32 tid, place;

	if (m->looked == generation)
		return m->counts;
	/* The list contains the ids that the threads get from gettid(2). */
	tid = inner_tid_of(p);
	for (u32 n = 0; n < COX_UMT_PROBES; n++) {
		place = cox_umt_place(tid, n);
		if (program->tids[place] != tid)
			continue;
		m->place = place;
		listed = true;
	}
	m->looked = generation;
	if (listed && !m->counts)
		starts(m, program, kernel);
	else if (!listed && m->counts && m->runs)
		stops(m, program, kernel);
	m->counts = listed;
	return listed;
}

COX_INLINE void runs_again(struct cox_monitored *m, struct cox_program_page *program, struct cox_kernel_page *kernel, bool corrected)
{
	starts(m, program, kernel);
	__sync_fetch_and_add(&kernel->unblocks, 1);
	if (corrected)
		__sync_fetch_and_add(&kernel->corrected, 1);
}

/*
 * Called at sched_wakeup and not at sched_waking, which comes before the scheduler has chosen a CPU. At sched_waking, a thread that is about to get
 * another CPU would be counted as unblocked on the old CPU, and then as moved. Also, sched_wakeup never comes before the switch-out that it undoes.
 */
COX_INLINE void overlap_wakeup(struct cox_thread *thread)
{
	struct cox_monitored *m = monitored_in(thread);
	struct cox_program_page *program;
	struct cox_kernel_page *kernel;

	if (!processes || !m || !m->counts || m->runs)
		return;
	program = program_page_of(m->process - 1);
	kernel = kernel_page_of(m->process - 1);
	if (program && kernel)
		runs_again(m, program, kernel, false);
}

COX_INLINE void overlap_migrate(struct cox_thread *thread, u32 to)
{
	struct cox_monitored *m = monitored_in(thread);
	struct cox_program_page *program;
	struct cox_kernel_page *kernel;

	if (!processes || !m || !m->counts)
		return;
	program = program_page_of(m->process - 1);
	kernel = kernel_page_of(m->process - 1);
	if (program && kernel)
		is_on(m, program, kernel, to);
}

/* Called when a thread of a process that has asked for doorbells leaves its CPU. */
COX_INLINE void overlap_out(struct cox_monitored *m, struct task_struct *prev, bool preempt, u32 cpu)
{
	struct cox_program_page *program = program_page_of(m->process - 1);
	struct cox_kernel_page *kernel = kernel_page_of(m->process - 1);
	u32 state = prev->__state;

	if (!program || !kernel)
		return;
	is_on(m, program, kernel, cpu);
	if (!counts(m, prev, program, kernel))
		return;
	/*
	 * The thread has run here, so it was not blocked. If it is still counted as blocked, its switch-in was not reported: the tracepoints do not
	 * report every switch (ARCHITECTURE.md), nor the wake-ups during such a switch.
	 */
	if (!m->runs)
		runs_again(m, program, kernel, true);
	if (preempt || !state)
		return;
	stops(m, program, kernel);
	if (state & TASK_DEAD) {
		m->counts = false;
	} else {
		__sync_fetch_and_add(&kernel->blocks, 1);
		/* This needs no atomic operation: a thread's count is written only here, on the CPU that the thread leaves. */
		kernel->thread_blocks[m->place & (COX_UMT_TABLE - 1)]++;
	}
	/*
	 * Wakes a standby thread even if a thread of another program gets the CPU now. The standby thread can then use the share of this CPU that the
	 * blocked thread would have had.
	 */
	ring(m->process - 1, cpu, program->queues);
}

/*
 * Called when an untracked thread leaves this CPU and the CPU goes idle. If this process may use the CPU, wakes one of its standby threads under the
 * conditions of `ring`. Returns how many queues were searched for tasks, or -1 if a standby thread was woken. The queues of a process that has closed
 * its connection are not searched. The verifier checks this function separately.
 */
__attribute__((noinline)) int left_idle(u32 process, u32 cpu)
{
	struct cox_program_page *program = program_page_of(process);
	u32 used = program ? program->queues : 0;

	if (!program || process >= COX_UMT_PROCESSES || over[process] ||
	    !(program->allowed[cpu >> 6 & (COX_UMT_CPU_WORDS - 1)] >> (cpu & 63) & 1))
		return 0;
	if (used > COX_UMT_QUEUES)
		used = COX_UMT_QUEUES;
	return ring(process, cpu, used) ? -1 : (int)used;
}

/*
 * Called when this CPU has gone idle. Searches the processes, beginning with number `first_looked`, for a ready task, and wakes a standby thread for
 * it. The verifier checks this function separately.
 */
__attribute__((noinline)) int look_for_tasks(u32 cpu)
{
	u32 n, count = processes, first = first_looked, looks = 0;

	for (n = 0; n < COX_UMT_PROCESSES && n < count; n++) {
		u32 process = (first + n) % count;
		int looked = left_idle(process, cpu);

		if (looked < 0)
			break;
		looks += 1 + looked;
		FORGET(looks, cpu);
		if (looks > LOOKS_AT_MOST) {
			first_looked = process + 1;
			break;
		}
	}
	return 0;
}

COX_INLINE void overlap_switch(bool preempt, struct task_struct *prev, struct task_struct *next, struct cox_thread *prevs,
			       struct cox_thread *nexts, u32 cpu)
{
	struct cox_monitored *out = monitored_in(prevs), *in = monitored_in(nexts);

	if (!processes)
		return;
	/* The arriving thread runs, so it is not blocked. If its wake-up was not seen, it is counted as runnable from here on. */
	if (in && in->counts) {
		struct cox_program_page *program = program_page_of(in->process - 1);
		struct cox_kernel_page *kernel = kernel_page_of(in->process - 1);

		if (program && kernel) {
			is_on(in, program, kernel, cpu);
			if (!in->runs)
				runs_again(in, program, kernel, true);
		}
	}
	/* A thread that has become another user's (setuid(2)) must no longer be observed. */
	if (out && owned && !is_owners(prev))
		let_go(out);
	else if (out)
		overlap_out(out, prev, preempt, cpu);
	else if (!next->pid)
		look_for_tasks(cpu);
}

COX_INLINE void enrol_overlap(struct task_struct *p, u32 process)
{
	if (!monitored_in(thread_of(p)))
		take_in(p, process);
}

#endif
