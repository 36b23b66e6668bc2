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
    double speed;                 // sum of mass times speed: what momentum is compared with
    double compression;           // sum over the particles denser than at the start of (density - 1)^4
    double compression_radius;    // the same times the particle's radius
};

// The particles are added in blocks that do not depend on the threads, and the blocks one after the other, so the
// sums have the same bits for any number of threads.
struct totals totals_sum(const struct particles *particles, struct loops *loops);

// The shock is where the gas is densest. The mean radius of the particles, weighted by the fourth power of their
// compression, is less noisy than the radius of the densest particle or shell.
double totals_shock_radius(const struct totals *totals);

#endif
