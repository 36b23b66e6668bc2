// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "particles.h"

#include <math.h>
#include <stdlib.h>

#include "array.h"
#include "spline.h"

// Internal energy per mass of the gas outside the explosion: so low that the pressure ahead of the shock does not
// matter, as the exact solution assumes. The explosion's energy, spread over the cube, would be 10^6 times as high.
static const double background_energy = 1e-6;

// The explosion's energy is distributed like the kernel with this smoothing length, in lattice spacings.
static const double explosion_spacings = 1.5;

// Moves the lattice, in spacings, so that the explosion is not in a centre of symmetry of the lattice. Otherwise forces
// that are not equal and opposite would cancel in the total momentum.
static const double lattice_x = 0.07, lattice_y = 0.19, lattice_z = 0.31;

static double *numbers(size_t count)
{
    return zeroed_array(CACHE_LINE, count, sizeof(double));
}

static double explosion_weight(const struct particles *particles, size_t i)
{
    double x = particles->x[i], y = particles->y[i], z = particles->z[i];
    return spline(sqrt(x * x + y * y + z * z), explosion_spacings / (double)particles->edge);
}

static void place(struct particles *particles)
{
    const size_t edge = particles->edge;
    const double spacing = 1 / (double)edge;
    double weight = 0;
    for (size_t i = 0; i < particles->count; i++) {
        particles->x[i] = ((double)(i % edge) + 0.5 + lattice_x) * spacing - 0.5;
        particles->y[i] = ((double)(i / edge % edge) + 0.5 + lattice_y) * spacing - 0.5;
        particles->z[i] = ((double)(i / edge / edge) + 0.5 + lattice_z) * spacing - 0.5;
        particles->density[i] = 1;
        particles->smoothing[i] = smoothing_per_distance * spacing;
        weight += explosion_weight(particles, i);
    }
    for (size_t i = 0; i < particles->count; i++)
        particles->energy[i] = background_energy + explosion_weight(particles, i) / weight / particles->mass;
}

void particles_create(struct particles *particles, size_t size, double gamma)
{
    const size_t count = size * size * size;
    *particles = (struct particles){
        .count = count,
        .edge = size,
        .mass = 1 / (double)count,
        .gamma = gamma,
        .x = numbers(count),
        .y = numbers(count),
        .z = numbers(count),
        .vx = numbers(count),
        .vy = numbers(count),
        .vz = numbers(count),
        .energy = numbers(count),
        .half_vx = numbers(count),
        .half_vy = numbers(count),
        .half_vz = numbers(count),
        .half_energy = numbers(count),
        .smoothing = numbers(count),
        .density = numbers(count),
        .pressure = numbers(count),
        .sound_speed = numbers(count),
        .gradient = zeroed_array(CACHE_LINE, count, sizeof *particles->gradient),
        .ax = numbers(count),
        .ay = numbers(count),
        .az = numbers(count),
        .energy_rate = numbers(count),
        .signal_speed = numbers(count),
    };
    place(particles);
}

void particles_destroy(struct particles *particles)
{
    double *const arrays[] = {
        particles->x,           particles->y,        particles->z,           particles->vx,
        particles->vy,          particles->vz,       particles->energy,      particles->half_vx,
        particles->half_vy,     particles->half_vz,  particles->half_energy, particles->smoothing,
        particles->density,     particles->pressure, particles->sound_speed, particles->ax,
        particles->ay,          particles->az,       particles->energy_rate, particles->signal_speed,
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(particles->gradient);
}
