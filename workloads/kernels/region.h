// SPDX-License-Identifier: Apache-2.0 OR MIT
// The measured part of an OpenMP kernel (needs -fopenmp).
#ifndef COX_WORKLOADS_REGION_H
#define COX_WORKLOADS_REGION_H

#include "kernel.h"

// Fixes the team size and starts the team's threads, so that their creation is not measured. Call
// before anything else that is OpenMP.
void region_prepare(const struct kernel *kernel);

// Runs `body`, which opens the parallel regions itself, with teams of the size prepared. Sets the
// elapsed time; meters each thread when a truth is wanted.
void region_run(struct kernel *kernel, void (*body)(void *work), void *work);

#endif
