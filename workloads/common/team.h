// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the kernel did with each thread of an OpenMP team between two moments (needs -fopenmp).
#ifndef COX_WORKLOADS_TEAM_H
#define COX_WORKLOADS_TEAM_H

#include <stddef.h>

#include "members.h"

// Fixes the team size, `threads`, or what OMP_NUM_THREADS or the machine says when 0, and makes
// static the schedule of schedule(runtime) loops unless OMP_SCHEDULE names one. Returns the size.
// Call before anything else that is OpenMP.
size_t team_prepare(size_t threads);

// Both do nothing unless `wanted`. Each starts one parallel region.
void team_begin(struct team *team, bool wanted);
// Exit 1 when the runtime gave a thread number to another thread in the meantime.
void team_end(struct team *team);

// The schedule that schedule(runtime) loops use, as OMP_SCHEDULE writes it.
void runtime_schedule_text(char *text, size_t bytes);

#endif
