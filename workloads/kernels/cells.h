// SPDX-License-Identifier: Apache-2.0 OR MIT
// Equations on a cube of cells with several unknowns each, coupled within a cell and to the six neighbours,
// and the step of successive over-relaxation (SOR) on one cell.
#ifndef COX_WORKLOADS_CELLS_H
#define COX_WORKLOADS_CELLS_H

#include <stddef.h>

enum { CELL_PARTS = 4 };    // unknowns per cell

struct cells {
    size_t size;             // cells along an edge, numbered from 1, without the border of zeros
    double coupling[CELL_PARTS][CELL_PARTS];
    double inverse[CELL_PARTS][CELL_PARTS];    // of `coupling`
    double *values, *right;
    size_t value_count;      // of all cells, including the border
};

void cells_create(struct cells *cells, size_t size);
void cells_destroy(struct cells *cells);

// Solves the equations of one cell for the present values of its neighbours, with over-relaxation.
void cells_relax(struct cells *cells, size_t i, size_t j, size_t k);

// Returns the squared residual of one cell.
double cells_residual(const struct cells *cells, size_t i, size_t j, size_t k);

#endif
