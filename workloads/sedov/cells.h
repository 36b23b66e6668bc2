// SPDX-License-Identifier: Apache-2.0 OR MIT
// Cell list: which particles are in which cell of a grid, so that neighbours are searched in nearby cells only.
//
// A cell is at least as wide as the radius of a kernel in the gas at rest. In the hot centre kernels are larger: each
// cell has a range, a number of cells in each direction. Particles further away are not neighbours of its members.
#ifndef COX_WORKLOADS_SEDOV_CELLS_H
#define COX_WORKLOADS_SEDOV_CELLS_H

#include <stddef.h>
#include <stdint.h>

#include "loops.h"
#include "particles.h"

// For the largest --size: 400 / 2.4.
enum { MOST_CELLS_ALONG_EDGE = 166 };

struct cells {
    long edge;             // cells along an edge of the cube
    long count;
    double width;
    uint32_t *cell_of;     // by particle
    uint32_t *begin;       // cell c has members[begin[c]] to members[begin[c + 1] - 1]
    uint32_t *members;     // particles, in ascending order within a cell
    uint32_t *filled;      // by cell: number of members so far
    double *reach;         // by cell: radius of the largest kernel of its particles
    long *range;           // by cell
};

// The cells within a range along one axis: every cell at most once, also if the grid is smaller than the range.
struct offsets {
    long first, last;
};

static inline struct offsets offsets_within(const struct cells *cells, long range)
{
    long before = (cells->edge - 1) / 2, after = cells->edge / 2;
    return (struct offsets){-(range < before ? range : before), range < after ? range : after};
}

// Returns a coordinate of a cell, moved by an offset, in the periodic grid.
static inline long moved(const struct cells *cells, long at, long offset)
{
    at += offset;
    return at < 0 ? at + cells->edge : at >= cells->edge ? at - cells->edge : at;
}

void cells_create(struct cells *cells, const struct particles *particles);
void cells_destroy(struct cells *cells);

// Assigns all particles anew. The result does not depend on the number of threads.
void cells_build(struct cells *cells, const struct particles *particles, struct loops *loops);

#endif
