// SPDX-License-Identifier: Apache-2.0 OR MIT
// Poisson's equation on a cube by multigrid: grids from fine to coarse, and the V-cycle over them. Every
// function except the first and the last consists of OpenMP loops over planes, and its result has the same
// bits for any team.
#ifndef COX_WORKLOADS_MULTIGRID_H
#define COX_WORKLOADS_MULTIGRID_H

#include <stddef.h>
#include <stdint.h>

enum { MULTIGRID_MAX_LEVELS = 10 };

// A grid on the unit cube, with a border on which the solution is 0.
struct level {
    size_t edge;       // intervals along an edge: points 0 to edge, of which 0 and edge are the border
    double spacing_squared;
    double *solution, *right, *residual;
};

struct multigrid {
    unsigned level_count;
    struct level levels[MULTIGRID_MAX_LEVELS];    // the finest first
    uint64_t loops;                               // number of parallel loops so far
    double *plane_sums;
};

static inline size_t point_at(const struct level *level, size_t i, size_t j, size_t k)
{
    size_t pitch = level->edge + 1;
    return (k * pitch + j) * pitch + i;
}

// `edge` is the number of intervals of the finest level, a power of two.
void multigrid_create(struct multigrid *grid, size_t edge);

// Does one V-cycle, starting with the present solution of the finest level.
void multigrid_cycle(struct multigrid *grid);

// Computes the residual of a level.
void multigrid_residual(struct multigrid *grid, struct level *level);

// Sets right side and solution of the finest level to 0.
void multigrid_clear(struct multigrid *grid);

// Returns the root of the sum of squares over all points of the finest level.
double multigrid_norm(struct multigrid *grid, const double *values);

void multigrid_destroy(struct multigrid *grid);

#endif
