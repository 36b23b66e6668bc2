// SPDX-License-Identifier: Apache-2.0 OR MIT
// Time integration: leapfrog with the forces at the end of the step, for which velocity and energy are predicted.
//
//   1. motion_positions    v½ = v + a·dt/2, x += v½·dt, prediction v = v½ + a·dt/2; the internal energy likewise
//   2. (neighbours, density, forces at the new positions)
//   3. motion_velocities   v = v½ + a·dt/2 with the new a; the internal energy likewise
//   4. motion_time_step    the next dt
#ifndef COX_WORKLOADS_SEDOV_MOTION_H
#define COX_WORKLOADS_SEDOV_MOTION_H

#include "loops.h"
#include "particles.h"

void motion_positions(struct particles *particles, double time_step, struct loops *loops);
void motion_velocities(struct particles *particles, double time_step, struct loops *loops);

// Returns the longest step in which no signal crosses more than a part of a smoothing length.
double motion_time_step(const struct particles *particles, struct loops *loops);

#endif
