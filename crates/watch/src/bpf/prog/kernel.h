/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types and fields that the programs read, and nothing more. CO-RE relocates each access to the running kernel's layout, so no
 * generated header of 130,000 lines is needed.
 */
#ifndef COX_KERNEL_H
#define COX_KERNEL_H

#include "cox/processor.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
/* Used by libbpf's helper definitions. */
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2, BPF_RB_AVAIL_DATA = 0 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

/* Task states, from include/linux/sched.h; unchanged since 4.14, except for TASK_FROZEN (6.1). */
enum {
	TASK_STOPPED = 0x0004,
	TASK_TRACED = 0x0008,
	TASK_DEAD = 0x0080,
	TASK_FROZEN = 0x8000,
};
enum { PF_IO_WORKER = 0x10, PF_KTHREAD = 0x00200000 };

/* include/uapi/linux/stat.h */
enum { S_IFMT = 0170000, S_IFSOCK = 0140000, S_IFIFO = 0010000, S_IFCHR = 0020000 };
/* include/uapi/linux/magic.h */
#define ANON_INODE_FS_MAGIC 0x09041934
#define AF_UNIX 1

/*
 * Integers are unsigned here, whatever they are in the kernel, because libbpf adjusts the width of a load to the kernel's field only for unsigned
 * integers. A field may become narrower in later kernels (task_struct.on_cpu: an int up to 6.18, a byte in 7.3).
 */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct rq {
	u64 clock;
	u64 prev_steal_time_rq;
	u64 prev_irq_time;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	struct sock *sk;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	unsigned int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

typedef struct {
	u32 val;
} kuid_t;

typedef struct {
	u32 val;
} kgid_t;

/* A set of capabilities: two words before Linux 6.3, one word since; 64 bits in both. */
struct capabilities {
	u64 bits;
};

struct cred {
	kuid_t uid;
	kgid_t gid;
	kuid_t suid;
	kgid_t sgid;
	kuid_t euid;
	kgid_t egid;
	struct capabilities cap_permitted;
};

struct task_struct {
	struct thread_info thread_info;
	void *stack;
	unsigned int __state;
	unsigned int flags;
	unsigned int on_cpu;
	unsigned int wake_cpu;
	struct sched_entity se;
	unsigned int nr_cpus_allowed;
	struct cpumask cpus_mask;
	struct sched_info sched_info;
	unsigned int exit_code;
	unsigned in_iowait : 1;
	unsigned int pid;
	unsigned int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	const struct cred *real_cred;
	struct files_struct *files;
	void *bpf_storage;
	char comm[16];
};

/* Noise: functions of timers, of work items, and of requests of other CPUs. */
struct hrtimer {
	void *function;
};

struct timer_list {
	void *function;
};

struct work_struct {
	void *func;
};

struct __call_single_data {
	void *func;
};

struct linux_binprm {
	unsigned int argc;
	unsigned secureexec : 1;
};

struct seq_file {
	u64 count;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#endif
