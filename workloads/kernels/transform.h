// SPDX-License-Identifier: Apache-2.0 OR MIT
// Discrete Fourier transforms of rows and of squares, as OpenMP loops over the rows.
#ifndef COX_WORKLOADS_TRANSFORM_H
#define COX_WORKLOADS_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

struct complex_number {
    double re, im;
};

enum direction { FORWARD, INVERSE };

// Tables for rows of one length, which must be a power of two.
struct plan {
    size_t size;
    struct complex_number *roots;    // exp(−2πi·k/size), k < size/2
    uint32_t *reversed;              // each index with its bits reversed
};

static inline struct complex_number multiply(struct complex_number a, struct complex_number b)
{
    return (struct complex_number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Returns the complex number with absolute value 1 at this angle.
struct complex_number unit_at(double angle);

void plan_create(struct plan *plan, size_t size);
void plan_destroy(struct plan *plan);

// Transforms a row in place; neither direction divides by the size.
void transform_row(const struct plan *plan, struct complex_number *row, enum direction direction);

// Transforms both axes, in three loops. Overwrites `from`; the transposed result is in `to`.
void transform_square(const struct plan *plan, struct complex_number *from,
                      struct complex_number *to, enum direction direction);

#endif
