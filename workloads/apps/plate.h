// SPDX-License-Identifier: Apache-2.0 OR MIT
// The plate of `heat`: a square of cells in blocks, of which a rank has some rows of blocks, and a frame
// of cells that do not change or belong to the other rank.
#ifndef COX_WORKLOADS_APPS_PLATE_H
#define COX_WORKLOADS_APPS_PLATE_H

#include <stddef.h>
#include <stdint.h>

struct plate {
    size_t size, block;         // cells of an edge of the whole plate, of a block
    size_t columns;             // blocks beside each other
    size_t first_row, rows;     // of blocks, that are here
    size_t pitch;               // from a cell to the one below
    double *cells;              // with the frame
    uint64_t work;
};

// The blocks [first_row, first_row + rows) of a plate as it is at the start.
void plate_create(struct plate *plate, size_t size, size_t block, size_t first_row, size_t rows,
                  uint64_t work);
void plate_destroy(struct plate *plate);

// The cells of a block of this rank: row 0 is its first.
double *plate_block(const struct plate *plate, size_t row, size_t column);

// The row of cells above the first block of the column, or below the last: what the other rank sends.
double *plate_above(const struct plate *plate, size_t column);
double *plate_below(const struct plate *plate, size_t column);
// The first and the last row of cells of the column: what the other rank wants.
double *plate_first(const struct plate *plate, size_t column);
double *plate_last(const struct plate *plate, size_t column);

// One Gauss-Seidel step of a block.
void plate_relax(struct plate *plate, size_t row, size_t column);

// Puts the cells of a block one behind the other.
void plate_copy_out(const struct plate *plate, size_t row, size_t column, double *values);

// The sum of the digests of all rows of cells: those of two ranks together have that of the whole plate.
// Exit 1 when a cell is out of the range of what it was made from.
uint64_t plate_checksum(const struct plate *plate);

// A step of a whole plate without blocks: what it is verified with.
void plate_step(struct plate *whole);
// Exit 1 unless each cell here is the same bits in the whole plate.
void plate_compare(const struct plate *plate, const struct plate *whole);

#endif
