// SPDX-License-Identifier: Apache-2.0 OR MIT
// Values on a ring, each relaxed towards its two neighbours: the field of the single-process programs.
#ifndef COX_WORKLOADS_APPS_RING_H
#define COX_WORKLOADS_APPS_RING_H

#include <stddef.h>
#include <stdint.h>

#include "damped.h"

// Creates `rings` rings of `count` values, all with the same pseudorandom values. Release with free().
double *ring_create(size_t rings, size_t count);

// Returns the value at `at` after the next step.
static inline double ring_relaxed(const double *values, size_t count, size_t at, uint64_t work)
{
    double before = values[at != 0 ? at - 1 : count - 1];
    double behind = values[at + 1 != count ? at + 1 : 0];
    return damped(0.5 * (before + behind), work);
}

// Relaxes the values from `from` up to, but not including, `to`.
static inline void ring_relax(const double *old, double *new, size_t count, size_t from, size_t to,
                              uint64_t work)
{
    for (size_t at = from; at < to; at++)
        new[at] = ring_relaxed(old, count, at, work);
}

// Exit 1 if a value is out of range.
uint64_t ring_checksum(const double *values, size_t count);

#endif
