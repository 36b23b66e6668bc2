// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "neighbours.h"

#include <math.h>
#include <stdlib.h>

#include "fail.h"
#include "numbers.h"

static void make_lists(struct neighbours *neighbours, const struct particles *particles, size_t capacity)
{
    free(neighbours->lists);
    neighbours->capacity = capacity;
    neighbours->lists = zeroed_array(CACHE_LINE, particles->count * capacity, sizeof *neighbours->lists);
}

void neighbours_create(struct neighbours *neighbours, const struct particles *particles)
{
    *neighbours = (struct neighbours){0};
    neighbours->counts = zeroed_array(CACHE_LINE, particles->count, sizeof *neighbours->counts);
    // 1.5 times the number in a uniform gas; the lists grow when a particle has more.
    const double uniform = 4 * M_PI / 3 * pow(2 * smoothing_per_distance, 3);
    make_lists(neighbours, particles, (size_t)(1.5 * uniform));
}

void neighbours_destroy(struct neighbours *neighbours)
{
    free(neighbours->lists);
    free(neighbours->counts);
}

// Adds the neighbours of particle i in one cell to its list. Returns the new count, which may exceed the capacity.
static uint32_t find_in_cell(const struct neighbours *neighbours, const struct cells *cells,
                             const struct particles *particles, size_t i, long cell, uint32_t count)
{
    // A copy of the pointers: the compiler need not load them again after each store to the list.
    const struct particles local = *particles;
    const uint32_t *members = cells->members;
    const uint32_t end = cells->begin[cell + 1], capacity = (uint32_t)neighbours->capacity;
    uint32_t *list = &neighbours->lists[i * capacity];
    for (uint32_t place = cells->begin[cell]; place < end; place++) {
        uint32_t j = members[place];
        // Always stored, and overwritten by the next one unless it is a neighbour: a branch would often be
        // mispredicted.
        if (count < capacity)
            list[count] = j;
        count += j != i && are_neighbours(&local, i, j);
    }
    return count;
}

// The cells along one axis that may have neighbours of a particle.
struct nearby {
    long count;
    long cell[MOST_CELLS_ALONG_EDGE];
    double gap_squared[MOST_CELLS_ALONG_EDGE];    // square of the distance from the particle
};

static void look_along(struct nearby *nearby, const struct cells *cells, long home, double position, long range)
{
    const struct offsets within = offsets_within(cells, range);
    const double in_home = position + 0.5 - (double)home * cells->width;
    nearby->count = 0;
    for (long offset = within.first; offset <= within.last; offset++) {
        double gap = 0;
        if (offset != 0) {
            // Both ways round: in a grid with an even number of cells, the opposite cell may be nearer downwards.
            long upwards = offset > 0 ? offset : offset + cells->edge;
            double gap_upwards = (double)upwards * cells->width - in_home;
            double gap_downwards = in_home + (double)(cells->edge - upwards - 1) * cells->width;
            gap = gap_upwards < gap_downwards ? gap_upwards : gap_downwards;
        }
        // A margin: rounding decides which cell has a particle on the border of two.
        gap = larger(gap - 1e-9, 0);
        nearby->cell[nearby->count] = moved(cells, home, offset);
        nearby->gap_squared[nearby->count++] = gap * gap;
    }
}

// Adds the number of particles that it looks at to `candidates`.
static uint32_t find_around(const struct neighbours *neighbours, const struct cells *cells,
                            const struct particles *particles, size_t i, uint64_t *candidates)
{
    const long home = cells->cell_of[i], edge = cells->edge, range = cells->range[home];
    const double own_reach = 2 * particles->smoothing[i];
    struct nearby x, y, z;
    look_along(&x, cells, home % edge, particles->x[i], range);
    look_along(&y, cells, home / edge % edge, particles->y[i], range);
    look_along(&z, cells, home / edge / edge, particles->z[i], range);
    uint32_t count = 0;
    for (long k = 0; k < z.count; k++)
        for (long j = 0; j < y.count; j++) {
            const double gap_squared = z.gap_squared[k] + y.gap_squared[j];
            const long row = (z.cell[k] * edge + y.cell[j]) * edge;
            for (long l = 0; l < x.count; l++) {
                const long cell = row + x.cell[l];
                const double reach = larger(own_reach, cells->reach[cell]);
                if (gap_squared + x.gap_squared[l] < reach * reach) {
                    *candidates += cells->begin[cell + 1] - cells->begin[cell];
                    count = find_in_cell(neighbours, cells, particles, i, cell, count);
                }
            }
        }
    return count;
}

static void find(struct neighbours *neighbours, const struct cells *cells, const struct particles *particles,
                 struct loops *loops)
{
    uint64_t candidates = 0;
    LOOP_BEGIN(loops, LOOP_FIND_NEIGHBOURS);
#pragma omp parallel reduction(+ : candidates)
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++)
            neighbours->counts[i] = find_around(neighbours, cells, particles, i, &candidates);
        loop_thread_finished(loops);
    }
    loop_end(loops);
    neighbours->candidates += candidates;
}

// Returns the particle's term of a sum that is 0 if each pair is in both lists: for each pair, the particle with the
// lower number adds a digest of the pair, and the other one subtracts it.
static uint64_t digest_of_pairs(const struct neighbours *neighbours, size_t i)
{
    const uint32_t *list = neighbours_of(neighbours, i);
    size_t stored = neighbours->counts[i] < neighbours->capacity ? neighbours->counts[i] : neighbours->capacity;
    uint64_t digest = 0;
    for (size_t place = 0; place < stored; place++) {
        uint64_t j = list[place];
        if (i < j)
            digest += mix_bits(i << 32 | j);
        else
            digest -= mix_bits(j << 32 | i);
    }
    return digest;
}

struct sums {
    uint64_t total, most, balance;
};

// The sums are of whole numbers, so they are the same in any order.
static struct sums count_neighbours(const struct neighbours *neighbours, size_t count, struct loops *loops)
{
    uint64_t total = 0, most = 0, balance = 0;
    LOOP_BEGIN(loops, LOOP_COUNT_NEIGHBOURS);
#pragma omp parallel reduction(+ : total, balance) reduction(max : most)
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < count; i++) {
            total += neighbours->counts[i];
            most = neighbours->counts[i] > most ? neighbours->counts[i] : most;
            balance += digest_of_pairs(neighbours, i);
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
    return (struct sums){total, most, balance};
}

void neighbours_find(struct neighbours *neighbours, const struct cells *cells, const struct particles *particles,
                     struct loops *loops)
{
    find(neighbours, cells, particles, loops);
    struct sums sums = count_neighbours(neighbours, particles->count, loops);
    if (sums.most > neighbours->capacity) {
        make_lists(neighbours, particles, sums.most + sums.most / 4);
        find(neighbours, cells, particles, loops);
        sums = count_neighbours(neighbours, particles->count, loops);
    }
    if (sums.balance != 0)
        check_failed("a particle is not in the list of one of its neighbours");
    neighbours->total = sums.total;
    neighbours->pairs += sums.total;
}
