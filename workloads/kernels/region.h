// SPDX-License-Identifier: Apache-2.0 OR MIT
// The measured part of an OpenMP kernel (needs -fopenmp).
#ifndef COX_WORKLOADS_REGION_H
#define COX_WORKLOADS_REGION_H

#include "kernel.h"

// Fixes the team size and starts the team's threads, so that their creation is not measured. Call before
// any other use of OpenMP.
void region_prepare(const struct kernel *kernel);

// Runs `body`, which contains the parallel regions, with teams of the prepared size. Sets the elapsed time,
// and measures each thread if a truth is wanted.
void region_run(struct kernel *kernel, void (*body)(void *work), void *work);

#endif
