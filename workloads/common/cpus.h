// SPDX-License-Identifier: Apache-2.0 OR MIT
// CPU lists as people write them (0-3,8) and pinning of the calling thread.
#ifndef COX_WORKLOADS_CPUS_H
#define COX_WORKLOADS_CPUS_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_CPUS = 4096 };

struct cpu_list {
    size_t count;
    unsigned cpus[MAX_CPUS];
};

// Reads a list such as "0-3,8" into `list`, in the given order. Returns false if the text is not a valid
// list.
bool cpu_list_parse(struct cpu_list *list, const char *text);

// Stores the CPUs that this process may use, in ascending order.
void cpu_list_allowed(struct cpu_list *list);

bool cpu_list_contains(const struct cpu_list *list, unsigned cpu);

// Pins the calling thread to one CPU.
void pin_to_cpu(unsigned cpu);

#endif
