// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "cells.h"

#include <math.h>
#include <stdlib.h>

void cells_create(struct cells *cells, const struct particles *particles)
{
    long edge = (long)floor((double)particles->edge / (2 * smoothing_per_distance));
    edge = edge > 1 ? edge : 1;
    const size_t count = (size_t)(edge * edge * edge);
    *cells = (struct cells){
        .edge = edge,
        .count = (long)count,
        .width = 1 / (double)edge,
        .cell_of = zeroed_array(CACHE_LINE, particles->count, sizeof *cells->cell_of),
        .begin = zeroed_array(CACHE_LINE, count + 1, sizeof *cells->begin),
        .members = zeroed_array(CACHE_LINE, particles->count, sizeof *cells->members),
        .filled = zeroed_array(CACHE_LINE, count, sizeof *cells->filled),
        .reach = zeroed_array(CACHE_LINE, count, sizeof *cells->reach),
        .range = zeroed_array(CACHE_LINE, count, sizeof *cells->range),
    };
}

void cells_destroy(struct cells *cells)
{
    free(cells->cell_of);
    free(cells->begin);
    free(cells->members);
    free(cells->filled);
    free(cells->reach);
    free(cells->range);
}

static void clear(struct cells *cells, struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_CLEAR_CELLS);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (long cell = 0; cell < cells->count; cell++)
            cells->filled[cell] = 0;
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

static long coordinate(const struct cells *cells, double position)
{
    long at = (long)((position + 0.5) * (double)cells->edge);
    return at < cells->edge ? at : cells->edge - 1;
}

static void assign(struct cells *cells, const struct particles *particles, struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_ASSIGN_CELLS);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++) {
            long at_x = coordinate(cells, particles->x[i]);
            long at_y = coordinate(cells, particles->y[i]);
            long at_z = coordinate(cells, particles->z[i]);
            uint32_t cell = (uint32_t)((at_z * cells->edge + at_y) * cells->edge + at_x);
            cells->cell_of[i] = cell;
#pragma omp atomic
            cells->filled[cell]++;
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

// Computes the first place of each cell, a prefix sum of the numbers of members, and sets these numbers to 0.
static void sum_prefixes(struct cells *cells)
{
    uint32_t place = 0;
    for (long cell = 0; cell < cells->count; cell++) {
        cells->begin[cell] = place;
        place += cells->filled[cell];
        cells->filled[cell] = 0;
    }
    cells->begin[cells->count] = place;
}

// The order within a cell depends on which thread adds its particle first.
static void fill(struct cells *cells, const struct particles *particles, struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_FILL_CELLS);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++) {
            uint32_t cell = cells->cell_of[i], place;
#pragma omp atomic capture
            place = cells->filled[cell]++;
            cells->members[cells->begin[cell] + place] = (uint32_t)i;
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

// Insertion sort: a cell has few members, and most are in order.
static void sort_members(uint32_t *members, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t member = members[i];
        size_t place = i;
        for (; place > 0 && members[place - 1] > member; place--)
            members[place] = members[place - 1];
        members[place] = member;
    }
}

static double largest_kernel_radius(const struct cells *cells, const struct particles *particles, long cell)
{
    double largest = 0;
    for (uint32_t place = cells->begin[cell]; place < cells->begin[cell + 1]; place++)
        largest = larger(largest, 2 * particles->smoothing[cells->members[place]]);
    return largest;
}

// Sums over neighbours are made in the order of the members, so sorting gives them the same bits in every run.
static void sort(struct cells *cells, const struct particles *particles, struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_SORT_CELLS);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (long cell = 0; cell < cells->count; cell++) {
            uint32_t begin = cells->begin[cell];
            sort_members(&cells->members[begin], cells->begin[cell + 1] - begin);
            cells->reach[cell] = largest_kernel_radius(cells, particles, cell);
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

// Returns the square of the smallest distance between points of two cells, less a margin: rounding decides which cell
// has a particle on the border of both.
static double gap_squared(const struct cells *cells, long dx, long dy, long dz)
{
    const long offsets[3] = {dx, dy, dz};
    double sum = 0;
    for (int axis = 0; axis < 3; axis++) {
        long between = labs(offsets[axis]) - 1;
        if (between > 0)
            sum += (double)(between * between);
    }
    return sum * cells->width * cells->width * (1 - 1e-9);
}

// Returns the distance, in cells, to the farthest cell that a kernel of this cell reaches or that has a kernel which
// reaches this cell. `limit` is the range of the largest kernel of all.
static long range_of(const struct cells *cells, long cell, long limit)
{
    long at_x = cell % cells->edge, at_y = cell / cells->edge % cells->edge;
    long at_z = cell / cells->edge / cells->edge, range = 1;
    struct offsets within = offsets_within(cells, limit);
    for (long dz = within.first; dz <= within.last; dz++)
        for (long dy = within.first; dy <= within.last; dy++)
            for (long dx = within.first; dx <= within.last; dx++) {
                long away = labs(dx) > labs(dy) ? labs(dx) : labs(dy);
                away = labs(dz) > away ? labs(dz) : away;
                if (away <= range)
                    continue;
                long other = (moved(cells, at_z, dz) * cells->edge + moved(cells, at_y, dy)) * cells->edge +
                             moved(cells, at_x, dx);
                double reach = larger(cells->reach[cell], cells->reach[other]);
                if (gap_squared(cells, dx, dy, dz) < reach * reach)
                    range = away;
            }
    return range;
}

static void find_ranges(struct cells *cells, struct loops *loops)
{
    double largest = 0;
    for (long cell = 0; cell < cells->count; cell++)
        largest = larger(largest, cells->reach[cell]);
    const long limit = (long)ceil(largest / cells->width);
    LOOP_BEGIN(loops, LOOP_RANGE_OF_CELLS);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (long cell = 0; cell < cells->count; cell++)
            cells->range[cell] = range_of(cells, cell, limit);
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

void cells_build(struct cells *cells, const struct particles *particles, struct loops *loops)
{
    clear(cells, loops);
    assign(cells, particles, loops);
    sum_prefixes(cells);
    fill(cells, particles, loops);
    sort(cells, particles, loops);
    find_ranges(cells, loops);
}
