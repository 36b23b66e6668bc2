// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sums over all particles: energy, momentum and the shock's radius.
#ifndef COX_WORKLOADS_SEDOV_TOTALS_H
#define COX_WORKLOADS_SEDOV_TOTALS_H

#include <stddef.h>

#include "loops.h"
#include "particles.h"

struct totals {
    double kinetic, internal;
    double momentum_x, momentum_y, momentum_z;
    double momentum_sum;          // of the particles' absolute values: what momentum is compared with
    double compression;           // of (density - 1.01)^4 over the particles that are denser than 1.01
    double compression_radius;    // the same times the particle's radius
};

// The particles are added in blocks that do not depend on the threads, and the blocks one after the other, so the
// sums have the same bits for any number of threads.
struct totals totals_sum(const struct particles *particles, struct loops *loops);

// The shock is where the gas is densest. The mean radius of the particles, weighted by the fourth power of their
// compression, is less noisy than the radius of the densest particle or shell. Gas that the shock has not reached has
// weight 0: its density is within 1 % of 1. Returns 0 if no gas is compressed.
double totals_shock_radius(const struct totals *totals);

#endif
