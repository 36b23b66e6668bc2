// SPDX-License-Identifier: Apache-2.0 OR MIT
// The gas: particles of equal mass in a periodic cube of edge 1 with its centre at the origin.
//
// Units: the cube, the mass in it and the energy of the explosion are 1, so the density before the explosion is 1.
#ifndef COX_WORKLOADS_SEDOV_PARTICLES_H
#define COX_WORKLOADS_SEDOV_PARTICLES_H

#include <stddef.h>

struct symmetric_matrix {
    double xx, xy, xz, yy, yz, zz;
};

struct particles {
    size_t count;
    size_t edge;       // particles along an edge of the lattice at the start
    double mass;       // of each particle
    double gamma;      // ratio of specific heats
    double *x, *y, *z;
    double *vx, *vy, *vz;
    double *energy;                        // internal energy per mass
    double *half_vx, *half_vy, *half_vz;   // velocity in the middle of the time step
    double *half_energy;
    double *smoothing;                     // smoothing length; the kernel ends at twice of it
    double *density, *pressure, *sound_speed;
    struct symmetric_matrix *gradient;     // matrix of the gradient terms (IAD, see forces.h)
    double *ax, *ay, *az;
    double *energy_rate;
    double *signal_speed;                  // the highest one between the particle and a neighbour
};

// Smoothing length in units of the mean distance of particles, (mass / density)^(1/3), often called eta. A kernel with
// this length contains 58 particles of a uniform gas.
static const double smoothing_per_distance = 1.2;

// Longest smoothing length: the kernel must not reach the same particle from two sides of the periodic cube.
static const double longest_smoothing = 0.2499;

// Bound of what the kernel's sum over the lattice at the start differs from the density of the gas, 1.
static const double lattice_density_error = 0.01;

// Puts size^3 particles at rest on a lattice, the energy of the explosion among those next to the centre.
void particles_create(struct particles *particles, size_t size, double gamma);
void particles_destroy(struct particles *particles);

// Returns the difference of two coordinates to the nearest periodic image. Adding and subtracting 1.5 * 2^52 rounds
// to a whole number without a branch.
static inline double minimum_image(double difference)
{
    return difference - ((difference + 0x1.8p52) - 0x1.8p52);
}

// fmax without its rules for NaN: a single instruction.
static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

#endif
