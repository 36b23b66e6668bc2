// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "totals.h"

#include <math.h>
#include <stdlib.h>

// Particles. Small enough for several blocks in the smallest run.
enum { BLOCK = 128 };

static void add(struct totals *sum, const struct totals *more)
{
    sum->kinetic += more->kinetic;
    sum->internal += more->internal;
    sum->momentum_x += more->momentum_x;
    sum->momentum_y += more->momentum_y;
    sum->momentum_z += more->momentum_z;
    sum->momentum_sum += more->momentum_sum;
    sum->compression += more->compression;
    sum->compression_radius += more->compression_radius;
}

static struct totals of_particle(const struct particles *particles, size_t i)
{
    const double mass = particles->mass;
    double x = particles->x[i], y = particles->y[i], z = particles->z[i];
    double vx = particles->vx[i], vy = particles->vy[i], vz = particles->vz[i];
    double speed_squared = vx * vx + vy * vy + vz * vz;
    double excess = larger(particles->density[i] - 1 - lattice_density_error, 0);
    double compression = excess * excess * excess * excess;
    return (struct totals){
        .kinetic = 0.5 * mass * speed_squared,
        .internal = mass * particles->energy[i],
        .momentum_x = mass * vx,
        .momentum_y = mass * vy,
        .momentum_z = mass * vz,
        .momentum_sum = mass * sqrt(speed_squared),
        .compression = compression,
        .compression_radius = compression * sqrt(x * x + y * y + z * z),
    };
}

static struct totals of_block(const struct particles *particles, size_t block)
{
    size_t begin = block * BLOCK, end = begin + BLOCK;
    end = end < particles->count ? end : particles->count;
    struct totals sum = {0};
    for (size_t i = begin; i < end; i++) {
        struct totals more = of_particle(particles, i);
        add(&sum, &more);
    }
    return sum;
}

struct totals totals_sum(const struct particles *particles, struct loops *loops)
{
    const size_t blocks = (particles->count + BLOCK - 1) / BLOCK;
    struct totals *parts = zeroed_array(CACHE_LINE, blocks, sizeof *parts);
    LOOP_BEGIN(loops, LOOP_TOTALS);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (size_t block = 0; block < blocks; block++)
            parts[block] = of_block(particles, block);
        loop_thread_finished(loops);
    }
    loop_end(loops);
    struct totals sum = {0};
    for (size_t block = 0; block < blocks; block++)
        add(&sum, &parts[block]);
    free(parts);
    return sum;
}

double totals_shock_radius(const struct totals *totals)
{
    return totals->compression > 0 ? totals->compression_radius / totals->compression : 0;
}
