// SPDX-License-Identifier: Apache-2.0 OR MIT
// The arithmetic that `--work` repeats, in all applications.
#ifndef COX_WORKLOADS_APPS_DAMPED_H
#define COX_WORKLOADS_APPS_DAMPED_H

#include <stdint.h>

// Damping lets a value leave its range by at most this much.
#define DAMPING 0.01

// Solves x = value - DAMPING x³ for x by `repeats` fixed-point iterations. Each needs the one before, so the
// compiler cannot skip any, and the result stays bounded for any number of repeats.
static inline double damped(double value, uint64_t repeats)
{
    double solution = value;
    for (uint64_t i = 0; i < repeats; i++)
        solution = value - DAMPING * solution * solution * solution;
    return solution;
}

#endif
