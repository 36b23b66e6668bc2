// SPDX-License-Identifier: Apache-2.0 OR MIT
// Equations on a cube of cells with several unknowns each, coupled within a cell and to the six
// neighbours, and the step of successive over-relaxation on one cell.
#ifndef COX_WORKLOADS_CELLS_H
#define COX_WORKLOADS_CELLS_H

#include <stddef.h>

enum { CELL_PARTS = 4 };    // unknowns of a cell

struct cells {
    size_t size;             // cells along an edge, without the border of zeros: 1 to size
    double coupling[CELL_PARTS][CELL_PARTS];
    double inverse[CELL_PARTS][CELL_PARTS];    // of the coupling
    double *values, *right;
    size_t value_count;      // of all cells, border and all
};

void cells_create(struct cells *cells, size_t size);
void cells_destroy(struct cells *cells);

// Solves the equations of one cell for what its neighbours are now, and goes a little further.
void cells_relax(struct cells *cells, size_t i, size_t j, size_t k);

// Squared, of one cell.
double cells_residual(const struct cells *cells, size_t i, size_t j, size_t k);

#endif
