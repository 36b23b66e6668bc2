// SPDX-License-Identifier: Apache-2.0 OR MIT
// Measures what each thread of a group used between two moments, with OpenMP and with pthreads.
#ifndef COX_WORKLOADS_MEMBERS_H
#define COX_WORKLOADS_MEMBERS_H

#include <stddef.h>
#include <sys/types.h>

#include "clocks.h"
#include "truth.h"

struct team_member {
    pid_t tid;
    struct thread_meter meter;
    struct thread_instant begin;
    struct thread_span span;
};

struct team {
    size_t size;
    struct team_member *members;    // by thread number; NULL if no truth is wanted
};

void team_allocate(struct team *team, size_t size);

// Each thread calls member_begin and member_end for its own member.
void member_begin(struct team_member *me);
void member_end(struct team_member *me);

// Writes the JSON member "threads": tid, cpu_ns, wall_ns and run_delay_ns of each, by thread number.
void team_truth(struct truth *truth, const struct team *team);
// Frees the members.
void team_destroy(struct team *team);

#endif
