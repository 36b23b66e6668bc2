// SPDX-License-Identifier: Apache-2.0 OR MIT
// Density, pressure and speed of sound, and the smoothing length, which follows the density.
#ifndef COX_WORKLOADS_SEDOV_DENSITY_H
#define COX_WORKLOADS_SEDOV_DENSITY_H

#include "loops.h"
#include "neighbours.h"
#include "particles.h"

// density = sum over the neighbours and the particle itself of mass * kernel.
void density_sum(struct particles *particles, const struct neighbours *neighbours, struct loops *loops);

// The ideal gas. Ends the program if a particle's internal energy is not positive.
void density_equation_of_state(struct particles *particles, struct loops *loops);

// Moves each smoothing length halfway to the one that belongs to the particle's density.
void density_smoothing_length(struct particles *particles, struct loops *loops);

#endif
