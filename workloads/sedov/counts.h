// SPDX-License-Identifier: Apache-2.0 OR MIT
// Floating-point operations and bytes of a run, counted from the source code.
//
// An addition, subtraction, multiplication, division or square root is one operation. Comparisons and changes of sign
// do not count. Left out, because they are a few percent together: the loops without neighbours, and the viscosity,
// which only approaching pairs have.
//
// Bytes are what the loops move at least: each array that a loop reads, and each that it writes, once per instance of
// the loop.
#ifndef COX_WORKLOADS_SEDOV_COUNTS_H
#define COX_WORKLOADS_SEDOV_COUNTS_H

#include "neighbours.h"

enum {
    // Three coordinates of 4 (the difference to the nearest image), three squares and two sums.
    OPERATIONS_SEPARATION_SQUARED = 17,
    OPERATIONS_SEPARATION = OPERATIONS_SEPARATION_SQUARED + 1,
    // In the outer half of the kernel's radius, where seven of eight neighbours are.
    OPERATIONS_SPLINE = 10,
    // Three sums of three products, times the weight.
    OPERATIONS_GRADIENT_TERM = OPERATIONS_SPLINE + 18,

    OPERATIONS_CANDIDATE = OPERATIONS_SEPARATION_SQUARED + 2,
    OPERATIONS_DENSITY = OPERATIONS_SEPARATION + OPERATIONS_SPLINE + 1,
    // The weight, and six sums.
    OPERATIONS_MOMENTS = OPERATIONS_SEPARATION + OPERATIONS_SPLINE + 2 + 15,
    // Two gradient terms and their mean, velocity and approach, pressure, acceleration, expansion, heating, signal.
    OPERATIONS_FORCES = OPERATIONS_SEPARATION + 2 * OPERATIONS_GRADIENT_TERM + 6 + 3 + 5 + 2 + 18 + 6 + 8 + 2,
    OPERATIONS_PAIR = OPERATIONS_DENSITY + OPERATIONS_MOMENTS + OPERATIONS_FORCES,

    // Five loops read or write the list, 4 bytes each.
    BYTES_PAIR = 5 * 4,
    // By loop, in the order of a step: 3 numbers of 8 bytes; 22; the cells (0, 28, 8, 12, 0); 44; 4; 5; 4; 11 with a
    // gradient matrix; 21 with one; 12; 2; 8.
    BYTES_PARTICLE = 24 + 176 + 48 + 44 + 4 + 40 + 32 + 88 + 168 + 96 + 16 + 64
};

static inline uint64_t counts_operations(const struct neighbours *neighbours)
{
    return OPERATIONS_CANDIDATE * neighbours->candidates + OPERATIONS_PAIR * neighbours->pairs;
}

// `steps` includes the one of length 0 at the start.
static inline uint64_t counts_bytes(const struct neighbours *neighbours, size_t particles, uint64_t steps)
{
    return BYTES_PAIR * neighbours->pairs + BYTES_PARTICLE * particles * steps;
}

#endif
