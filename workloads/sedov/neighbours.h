// SPDX-License-Identifier: Apache-2.0 OR MIT
// Lists of neighbours. Two particles are neighbours if the kernel of one of them reaches the other one. So each is in
// the list of the other, and forces between them are equal and opposite.
#ifndef COX_WORKLOADS_SEDOV_NEIGHBOURS_H
#define COX_WORKLOADS_SEDOV_NEIGHBOURS_H

#include <stddef.h>
#include <stdint.h>

#include "cells.h"
#include "loops.h"
#include "particles.h"

struct neighbours {
    size_t capacity;       // places in the list of a particle
    uint32_t *lists;       // particle i has lists[i * capacity] and the following
    uint32_t *counts;      // by particle
    uint64_t total;        // sum of all counts
    // Since the start: the sum of `total` over all steps, and particles of which it was computed whether they are
    // neighbours.
    uint64_t pairs, candidates;
};

void neighbours_create(struct neighbours *neighbours, const struct particles *particles);
void neighbours_destroy(struct neighbours *neighbours);

// Ends the program unless each particle is in the lists of all particles in its own list.
void neighbours_find(struct neighbours *neighbours, const struct cells *cells, const struct particles *particles,
                     struct loops *loops);

static inline const uint32_t *neighbours_of(const struct neighbours *neighbours, size_t i)
{
    return &neighbours->lists[i * neighbours->capacity];
}

// The vector from particle i to particle j, and its length.
struct separation {
    double x, y, z;
    double distance;
};

static inline double separation_squared(const struct particles *particles, size_t i, size_t j)
{
    double x = minimum_image(particles->x[j] - particles->x[i]);
    double y = minimum_image(particles->y[j] - particles->y[i]);
    double z = minimum_image(particles->z[j] - particles->z[i]);
    return x * x + y * y + z * z;
}

static inline bool are_neighbours(const struct particles *particles, size_t i, size_t j)
{
    double reach = 2 * larger(particles->smoothing[i], particles->smoothing[j]);
    return separation_squared(particles, i, j) < reach * reach;
}

#endif
