/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Other programs on the pack's CPUs: the CPU time, by name, of all threads that are neither packed nor cox's own.
 *
 * Only switches from or to such a thread on these CPUs cost time. If no other program runs there, the cost is a bit test at each switch.
 */
#ifndef COX_OTHERS_BPF_H
#define COX_OTHERS_BPF_H

#include "threads.bpf.h"

/*
 * Number of 64-bit words in the set of the pack's CPUs: the CPUs that the packed threads share. On CPUs whose numbers exceed the set, other programs
 * are not observed. This number is also in programs.rs.
 */
#define COX_PACK_WORDS 16
u64 pack_cpus[COX_PACK_WORDS];
/* cox's process id in its own namespace. */
const volatile u32 own_process = 0;

/* CPU time of programs whose names did not fit into the map. */
u64 unnamed_ns;

struct cox_other {
	char comm[COX_COMM_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct cox_other);
	__type(value, u64);
} others SEC(".maps");

/*
 * For each CPU: when the running thread was switched in. 0 if the thread is packed, if the CPU is idle, or if the switch-in was not seen.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} other_since SEC(".maps");

/* Charges the CPU time of the thread that leaves this CPU to the thread's name. The verifier checks this function separately. */
COX_RARE int charge_other(u64 ran_ns)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cox_other key = {};
	u64 *sum;

	if (!has_snapshots || tgid_of(p) == own_process)
		return 0;
	copy_name(key.comm, p);
	sum = bpf_map_lookup_elem(&others, &key);
	if (!sum && !bpf_map_update_elem(&others, &key, &ran_ns, BPF_NOEXIST))
		return 0;
	/* If no entry was created, either another CPU has just created it, or the map is full. */
	if (!sum)
		sum = bpf_map_lookup_elem(&others, &key);
	__sync_fetch_and_add(sum ? sum : &unnamed_ns, ran_ns);
	return 0;
}

COX_INLINE bool is_in_pack(u32 cpu)
{
	u32 word = cpu >> 6;

	/*
	 * Hides from clang that `word` is small, so that it keeps the mask. Clang keeps `cpu` on the stack, and the verifier of Linux 6.1 forgets the
	 * limit of a 32-bit number that it reads from there: without the mask it rejects the access.
	 */
	barrier_var(word);
	return cpu < 64 * COX_PACK_WORDS && pack_cpus[word & (COX_PACK_WORDS - 1)] >> (cpu & 63) & 1;
}

/* Called when a thread that is not packed leaves this CPU, comes to it, or both. The CPU is one of those that the packed threads share. */
COX_INLINE void other_switched(bool leaves, bool comes, u64 t)
{
	u32 only = 0;
	u64 *since;

	since = bpf_map_lookup_elem(&other_since, &only);
	if (!since)
		return;
	if (leaves && *since)
		charge_other(t - *since);
	*since = comes ? t : 0;
}

#endif
