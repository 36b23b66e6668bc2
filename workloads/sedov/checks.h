// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the program checks about its own particles, apart from the totals. Each ends the program if it fails.
#ifndef COX_WORKLOADS_SEDOV_CHECKS_H
#define COX_WORKLOADS_SEDOV_CHECKS_H

#include "neighbours.h"
#include "particles.h"

// The kernel's sum over the lattice at the start gives the density of the gas, 1.
void check_lattice_density(const struct particles *particles);

// The lists of a sample of particles against a search among all particles.
void check_neighbours(const struct particles *particles, const struct neighbours *neighbours);

// The gradient of the coordinates themselves, at the same sample, is the unit matrix.
void check_gradients(const struct particles *particles, const struct neighbours *neighbours);

// In an ideal gas, gamma * pressure is density * (speed of sound)^2.
void check_sound_speeds(const struct particles *particles);

#endif
