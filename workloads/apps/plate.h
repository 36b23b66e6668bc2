// SPDX-License-Identifier: Apache-2.0 OR MIT
// The plate of `heat`: a square of cells, divided into blocks. A rank has some rows of blocks, and a frame of
// cells that are constant or belong to the other rank.
#ifndef COX_WORKLOADS_APPS_PLATE_H
#define COX_WORKLOADS_APPS_PLATE_H

#include <stddef.h>
#include <stdint.h>

struct plate {
    size_t size, block;         // cells along an edge of the whole plate, of a block
    size_t columns;             // blocks in a row
    size_t first_row, rows;     // rows of blocks that this rank has
    size_t pitch;               // distance from a cell to the one below
    double *cells;              // including the frame
    uint64_t work;
};

// Creates the rows of blocks [first_row, first_row + rows) of a plate in its initial state.
void plate_create(struct plate *plate, size_t size, size_t block, size_t first_row, size_t rows,
                  uint64_t work);
void plate_destroy(struct plate *plate);

// The cells of a block; row 0 is this rank's first row of blocks.
double *plate_block(const struct plate *plate, size_t row, size_t column);

// The row of cells above the first block of a column, or below the last: received from the other rank.
double *plate_above(const struct plate *plate, size_t column);
double *plate_below(const struct plate *plate, size_t column);
// The first and the last row of cells of a column: sent to the other rank.
double *plate_first(const struct plate *plate, size_t column);
double *plate_last(const struct plate *plate, size_t column);

// Does one Gauss-Seidel step of a block.
void plate_relax(struct plate *plate, size_t row, size_t column);

// Copies the cells of a block into a contiguous array.
void plate_copy_out(const struct plate *plate, size_t row, size_t column, double *values);

// Returns the sum of the digests of all rows of cells. The sums of two ranks add up to the sum of
// the whole plate. Exit 1 if a cell is out of range.
uint64_t plate_checksum(const struct plate *plate);

// Does one step of a whole plate without blocks, for verification.
void plate_step(struct plate *whole);
// Exit 1 unless each cell here has the same bits as in the whole plate.
void plate_compare(const struct plate *plate, const struct plate *whole);

#endif
