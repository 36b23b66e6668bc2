// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "plate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "damped.h"
#include "fail.h"
#include "numbers.h"

// The frame and the cells start with pseudorandom values. With a cold plate and a warm edge, most cells would
// be denormal for a long time, and arithmetic on denormals is a hundred times slower.
static double first_value(size_t size, size_t row, size_t column)
{
    struct random_sequence sequence = random_numbered(row * (size + 2) + column);
    return random_unit(&sequence);
}

// The mean of the four neighbours, damped.
static inline double relaxed(const double *cell, size_t pitch, uint64_t work)
{
    return damped(0.25 * ((*(cell - pitch) + cell[pitch]) + (cell[-1] + cell[1])), work);
}

void plate_create(struct plate *plate, size_t size, size_t block, size_t first_row, size_t rows,
                  uint64_t work)
{
    *plate = (struct plate){.size = size, .block = block, .columns = size / block,
                            .first_row = first_row, .rows = rows, .pitch = size + 2, .work = work};
    size_t height = rows * block + 2;
    plate->cells = zeroed_array(CACHE_LINE, height * plate->pitch, sizeof *plate->cells);
    for (size_t row = 0; row < height; row++)
        for (size_t column = 0; column < plate->pitch; column++)
            plate->cells[row * plate->pitch + column] =
                first_value(size, first_row * block + row, column);
}

void plate_destroy(struct plate *plate)
{
    free(plate->cells);
}

// Rows of cells are counted from the upper frame, which is row 0.
static double *cells_at(const struct plate *plate, size_t cell_row, size_t column)
{
    return &plate->cells[cell_row * plate->pitch + 1 + column * plate->block];
}

double *plate_block(const struct plate *plate, size_t row, size_t column)
{
    return cells_at(plate, 1 + row * plate->block, column);
}

double *plate_above(const struct plate *plate, size_t column)
{
    return cells_at(plate, 0, column);
}

double *plate_first(const struct plate *plate, size_t column)
{
    return cells_at(plate, 1, column);
}

double *plate_last(const struct plate *plate, size_t column)
{
    return cells_at(plate, plate->rows * plate->block, column);
}

double *plate_below(const struct plate *plate, size_t column)
{
    return cells_at(plate, plate->rows * plate->block + 1, column);
}

void plate_relax(struct plate *plate, size_t row, size_t column)
{
    double *cells = plate_block(plate, row, column);
    for (size_t i = 0; i < plate->block; i++, cells += plate->pitch)
        for (size_t j = 0; j < plate->block; j++)
            cells[j] = relaxed(&cells[j], plate->pitch, plate->work);
}

void plate_copy_out(const struct plate *plate, size_t row, size_t column, double *values)
{
    const double *cells = plate_block(plate, row, column);
    for (size_t i = 0; i < plate->block; i++)
        memcpy(&values[i * plate->block], &cells[i * plate->pitch], plate->block * sizeof *values);
}

uint64_t plate_checksum(const struct plate *plate)
{
    uint64_t sum = 0;
    for (size_t row = 1; row <= plate->rows * plate->block; row++) {
        const double *cells = &plate->cells[row * plate->pitch + 1];
        for (size_t j = 0; j < plate->size; j++)
            if (!(cells[j] > -DAMPING && cells[j] < 1))
                check_failed("cell %zu of row %zu is %g", j, row - 1, cells[j]);
        sum += digest_doubles(plate->first_row * plate->block + row, cells, plate->size);
    }
    return sum;
}

void plate_step(struct plate *whole)
{
    for (size_t row = 1; row <= whole->size; row++)
        for (size_t column = 1; column <= whole->size; column++) {
            double *cell = &whole->cells[row * whole->pitch + column];
            *cell = relaxed(cell, whole->pitch, whole->work);
        }
}

void plate_compare(const struct plate *plate, const struct plate *whole)
{
    for (size_t row = 1; row <= plate->rows * plate->block; row++) {
        const double *here = &plate->cells[row * plate->pitch + 1];
        size_t whole_row = plate->first_row * plate->block + row;
        if (memcmp(here, &whole->cells[whole_row * whole->pitch + 1], plate->size * sizeof *here))
            check_failed("row %zu differs from the result of a loop without tasks", whole_row - 1);
    }
}
