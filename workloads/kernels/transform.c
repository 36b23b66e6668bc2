// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "transform.h"

#include <math.h>
#include <stdlib.h>

#include "kernel.h"

enum { TILE = 16 };    // edge of a tile for transposition: two tiles fit into the first-level cache

struct complex_number unit_at(double angle)
{
    return (struct complex_number){cos(angle), sin(angle)};
}

void plan_create(struct plan *plan, size_t size)
{
    plan->size = size;
    plan->roots = kernel_array(size / 2, sizeof *plan->roots);
    plan->reversed = kernel_array(size, sizeof *plan->reversed);
    for (size_t i = 0; i < size / 2; i++)
        plan->roots[i] = unit_at(-2 * M_PI * (double)i / (double)size);
    for (size_t i = 0; i < size; i++)
        plan->reversed[i] = plan->reversed[i / 2] / 2 + (uint32_t)(i % 2 * (size / 2));
}

void plan_destroy(struct plan *plan)
{
    free(plan->roots);
    free(plan->reversed);
}

void transform_row(const struct plan *plan, struct complex_number *row, enum direction direction)
{
    for (size_t i = 0; i < plan->size; i++) {
        size_t j = plan->reversed[i];
        if (j > i) {
            struct complex_number value = row[i];
            row[i] = row[j];
            row[j] = value;
        }
    }
    const double sign = direction == FORWARD ? 1 : -1;
    for (size_t half = 1; half < plan->size; half *= 2) {
        size_t root_step = plan->size / (2 * half);
        for (size_t first = 0; first < plan->size; first += 2 * half) {
            for (size_t k = 0; k < half; k++) {
                struct complex_number root = plan->roots[k * root_step];
                root.im *= sign;
                struct complex_number *low = &row[first + k], *high = &row[first + k + half];
                struct complex_number turned = multiply(root, *high);
                *high = (struct complex_number){low->re - turned.re, low->im - turned.im};
                *low = (struct complex_number){low->re + turned.re, low->im + turned.im};
            }
        }
    }
}

static void transform_rows(const struct plan *plan, struct complex_number *rows,
                           enum direction direction)
{
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < plan->size; row++)
        transform_row(plan, &rows[row * plan->size], direction);
}

static void transpose_tile(size_t size, const struct complex_number *from,
                           struct complex_number *to, size_t first_row, size_t first_column)
{
    for (size_t row = first_row; row < first_row + TILE && row < size; row++)
        for (size_t column = first_column; column < first_column + TILE && column < size; column++)
            to[row * size + column] = from[column * size + row];
}

static void transpose(size_t size, const struct complex_number *from, struct complex_number *to)
{
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < size; row += TILE)
        for (size_t column = 0; column < size; column += TILE)
            transpose_tile(size, from, to, row, column);
}

void transform_square(const struct plan *plan, struct complex_number *from,
                      struct complex_number *to, enum direction direction)
{
    transform_rows(plan, from, direction);
    transpose(plan->size, from, to);
    transform_rows(plan, to, direction);
}
