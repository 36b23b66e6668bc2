// SPDX-License-Identifier: Apache-2.0 OR MIT
// The arithmetic that `--work` repeats, for both applications.
#ifndef COX_WORKLOADS_APPS_DAMPED_H
#define COX_WORKLOADS_APPS_DAMPED_H

#include <stdint.h>

// What a value can be above its range, or below, by damping.
#define DAMPING 0.01

// The solution x of x = value - DAMPING x³, by `repeats` steps towards it, each of which needs the one
// before: nothing can be left out, and nothing gets out of hand however many they are.
static inline double damped(double value, uint64_t repeats)
{
    double solution = value;
    for (uint64_t i = 0; i < repeats; i++)
        solution = value - DAMPING * solution * solution * solution;
    return solution;
}

#endif
