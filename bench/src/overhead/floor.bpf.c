// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The least that an observer of switches and wakings can do: be called, and see what time it is. */
/* What libbpf's header of helpers takes from <linux/types.h>, which clang's BPF target cannot find everywhere. */
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

const volatile _Bool reads_clock = 0;
__u64 events;
__u64 last_ns;

static __attribute__((always_inline)) int observe(void)
{
	events++;
	if (reads_clock)
		last_ns = bpf_ktime_get_ns();
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
