// SPDX-License-Identifier: Apache-2.0 OR MIT
// Forces between neighbours, and the rate at which they change the internal energy.
//
// Gradients come from the integral approach to derivatives (IAD: García-Senz, Cabezón and Escartín 2012), not from the
// derivative of the kernel: the gradient term of a neighbour is the kernel times a matrix times the vector to it. With
// that matrix, the gradient of a linear function is exact. Forces of a pair are equal and opposite, so total momentum
// is conserved up to rounding, and total energy up to the error of the time integration.
#ifndef COX_WORKLOADS_SEDOV_FORCES_H
#define COX_WORKLOADS_SEDOV_FORCES_H

#include <math.h>

#include "loops.h"
#include "neighbours.h"
#include "particles.h"
#include "spline.h"

// Sets `gradient` of all particles.
void forces_gradient_terms(struct particles *particles, const struct neighbours *neighbours, struct loops *loops);

// Sets acceleration, energy_rate and signal_speed of all particles.
void forces_momentum_and_energy(struct particles *particles, const struct neighbours *neighbours,
                                struct loops *loops);

static inline struct separation separation_of(const struct particles *particles, size_t i, size_t j)
{
    struct separation to = {
        .x = minimum_image(particles->x[j] - particles->x[i]),
        .y = minimum_image(particles->y[j] - particles->y[i]),
        .z = minimum_image(particles->z[j] - particles->z[i]),
    };
    to.distance = sqrt(to.x * to.x + to.y * to.y + to.z * to.z);
    return to;
}

struct vector {
    double x, y, z;
};

// The gradient term between two particles with the kernel and the matrix of one of them.
static inline struct vector gradient_term(const struct symmetric_matrix *matrix, struct separation to,
                                          double smoothing)
{
    const double weight = spline(to.distance, smoothing);
    return (struct vector){
        .x = weight * (matrix->xx * to.x + matrix->xy * to.y + matrix->xz * to.z),
        .y = weight * (matrix->xy * to.x + matrix->yy * to.y + matrix->yz * to.z),
        .z = weight * (matrix->xz * to.x + matrix->yz * to.y + matrix->zz * to.z),
    };
}

#endif
