// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Measures the minimal cost of an observer of switches and wake-ups: the programs only count their calls and optionally
 * read the clock. */
/* The types that libbpf's header of helpers takes from <linux/types.h>, which clang's BPF target cannot find
 * everywhere. */
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
enum bpf_map_type { BPF_MAP_TYPE_UNSPEC };

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* MAX_CPUS is also the limit of cox's observer. Each CPU has a cache line of its own, because false sharing would cost
 * more than the programs themselves. */
#define MAX_CPUS 1024
struct {
	__u64 events;
	__u64 last_ns;
	__u64 pad[6];
} cpus[MAX_CPUS];

const volatile _Bool reads_clock = 0;

static __attribute__((always_inline)) int observe(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (cpu >= MAX_CPUS)
		return 0;
	cpus[cpu].events++;
	if (reads_clock)
		cpus[cpu].last_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int on_switch(void *ctx)
{
	return observe();
}

SEC("tp_btf/sched_waking")
int on_waking(void *ctx)
{
	return observe();
}
