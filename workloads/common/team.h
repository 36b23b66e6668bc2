// SPDX-License-Identifier: Apache-2.0 OR MIT
// Measures what each thread of an OpenMP team used between two moments (needs -fopenmp).
#ifndef COX_WORKLOADS_TEAM_H
#define COX_WORKLOADS_TEAM_H

#include <stddef.h>

#include "members.h"

// Fixes the team size to `threads`; 0 means the value of OMP_NUM_THREADS or the machine's default. Loops with
// schedule(runtime) get a static schedule, unless OMP_SCHEDULE is set. Returns the size. Call before any
// other use of OpenMP.
size_t team_prepare(size_t threads);

// team_begin does nothing unless `wanted`, and team_end then does nothing either. Each starts a parallel
// region.
void team_begin(struct team *team, bool wanted);
// Exit 1 if the runtime has given a thread number to another thread in between.
void team_end(struct team *team);

// Writes the schedule of schedule(runtime) loops in the form of OMP_SCHEDULE.
void runtime_schedule_text(char *text, size_t bytes);

#endif
