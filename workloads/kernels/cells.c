// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "cells.h"

#include <stdlib.h>

#include "kernel.h"

static const double relaxation = 1.2;

// Gauss-Jordan elimination without pivoting: the diagonal has the largest value of each row.
static void invert_coupling(struct cells *cells)
{
    double work[CELL_PARTS][2 * CELL_PARTS] = {0};
    for (size_t row = 0; row < CELL_PARTS; row++) {
        for (size_t column = 0; column < CELL_PARTS; column++)
            work[row][column] = cells->coupling[row][column];
        work[row][CELL_PARTS + row] = 1;
    }
    for (size_t pivot = 0; pivot < CELL_PARTS; pivot++) {
        double scale = 1 / work[pivot][pivot];
        for (size_t column = 0; column < 2 * CELL_PARTS; column++)
            work[pivot][column] *= scale;
        for (size_t row = 0; row < CELL_PARTS; row++) {
            double factor = row == pivot ? 0 : work[row][pivot];
            for (size_t column = 0; column < 2 * CELL_PARTS; column++)
                work[row][column] -= factor * work[pivot][column];
        }
    }
    for (size_t row = 0; row < CELL_PARTS; row++)
        for (size_t column = 0; column < CELL_PARTS; column++)
            cells->inverse[row][column] = work[row][CELL_PARTS + column];
}

void cells_create(struct cells *cells, size_t size)
{
    *cells = (struct cells){.size = size};
    cells->value_count = (size + 2) * (size + 2) * (size + 2) * CELL_PARTS;
    cells->values = kernel_array(cells->value_count, sizeof *cells->values);
    cells->right = kernel_array(cells->value_count, sizeof *cells->right);
    for (size_t i = 0; i < cells->value_count; i++) {
        struct random_sequence sequence = random_numbered(i);
        cells->right[i] = random_unit(&sequence) - 0.5;
    }
    for (size_t row = 0; row < CELL_PARTS; row++)
        for (size_t column = 0; column < CELL_PARTS; column++)
            cells->coupling[row][column] = row == column ? 6.5 : row > column ? -0.2 : 0.1;
    invert_coupling(cells);
}

void cells_destroy(struct cells *cells)
{
    free(cells->values);
    free(cells->right);
}

// Returns the index of the cell's first unknown.
static size_t index_of(const struct cells *cells, size_t i, size_t j, size_t k)
{
    size_t pitch = cells->size + 2;
    return ((k * pitch + j) * pitch + i) * CELL_PARTS;
}

static void neighbour_sum(const struct cells *cells, size_t index, double sum[CELL_PARTS])
{
    const size_t pitch = cells->size + 2, row = pitch * CELL_PARTS, plane = pitch * row;
    for (size_t part = 0; part < CELL_PARTS; part++) {
        const double *at = &cells->values[index + part];
        sum[part] = *(at - CELL_PARTS) + at[CELL_PARTS] + *(at - row) + at[row] + *(at - plane) +
                    at[plane];
    }
}

void cells_relax(struct cells *cells, size_t i, size_t j, size_t k)
{
    const size_t index = index_of(cells, i, j, k);
    double sum[CELL_PARTS];
    neighbour_sum(cells, index, sum);
    for (size_t part = 0; part < CELL_PARTS; part++)
        sum[part] += cells->right[index + part];
    for (size_t row = 0; row < CELL_PARTS; row++) {
        double solved = 0;
        for (size_t column = 0; column < CELL_PARTS; column++)
            solved += cells->inverse[row][column] * sum[column];
        double *value = &cells->values[index + row];
        *value += relaxation * (solved - *value);
    }
}

double cells_residual(const struct cells *cells, size_t i, size_t j, size_t k)
{
    const size_t index = index_of(cells, i, j, k);
    double sum[CELL_PARTS], squared = 0;
    neighbour_sum(cells, index, sum);
    for (size_t row = 0; row < CELL_PARTS; row++) {
        double missing = cells->right[index + row] + sum[row];
        for (size_t column = 0; column < CELL_PARTS; column++)
            missing -= cells->coupling[row][column] * cells->values[index + column];
        squared += missing * missing;
    }
    return squared;
}
