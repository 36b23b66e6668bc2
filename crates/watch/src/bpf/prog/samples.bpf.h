/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples of tracked threads' user code. For clocks they are taken a few hundred times per second on each CPU, for the packer as often as it
 * requests. Clocks and packer have separate perf events, on different CPUs and at different times.
 */
#ifndef COX_SAMPLES_BPF_H
#define COX_SAMPLES_BPF_H

#include "clocks.bpf.h"
#include "place.bpf.h"
#include "snapshots.bpf.h"

/* Returns whether a tracked thread waits for a CPU. Threads that are bound to one CPU are seen only on that CPU. */
COX_INLINE int is_queued(struct cox_cpu *cpu)
{
	u64 queued = cox_cell_count(cpu->pinned);

	for (int k = 0; k < COX_MASK_CLASSES; k++)
		queued += cox_cell_count(tracked.waiting[k].cell);
	return queued != 0;
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cox_sample sample = {};
	struct cox_cpu *cpu;
	struct cox_clock *c;
	u32 number;

	cpu = this_cpu(&number);
	if (!cpu)
		return 0;
	c = p->pid ? clock_of(p) : NULL;
	if (cpu->kind == COX_CPU_UNSEEN) {
		/* No switch has occurred on this CPU yet, so this sample is the first event that shows what the CPU runs. */
		cpu_first_seen(cpu, number, !p->pid ? COX_CPU_IDLE : c ? COX_CPU_OURS : COX_CPU_OTHERS,
			       bpf_ktime_get_ns());
	}
	if (!c || has_left(p, c))
		return 0;
	sample.tid = c->tid;
	sample.tgid = c->tgid;
	sample.t_ns = bpf_ktime_get_ns();
	sample.flags = is_queued(cpu) ? COX_SAMPLE_QUEUED : tracked.busy == 1 ? COX_SAMPLE_ONLY : 0;
	sample_place(&sample, ctx, p);
	cpu->samples++;
	if (bpf_ringbuf_output(&samples, &sample, sizeof(sample), BPF_RB_NO_WAKEUP))
		LOSE(samples, 1);
	return 0;
}

/*
 * Samples of packed threads. They are taken in a timer interrupt and not by a thread. A sampling thread would need one of the CPUs that the packed
 * threads share, and so change what it measures.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} looks SEC(".maps");

SEC("perf_event")
int on_look(struct bpf_perf_event_data *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cox_thread_snapshot *s = p->pid ? snapshot_of(thread_of(p)) : NULL;
	struct cox_sample sample = {};

	if (!s || (owned && !is_owners(p)))
		return 0;
	sample.tid = s->tid;
	sample.tgid = s->tgid;
	sample_place(&sample, ctx, p);
	/* If the ring is full, samples are lost, which costs only precision. */
	bpf_ringbuf_output(&looks, &sample, sizeof(sample), BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
