// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "density.h"

#include <math.h>

#include "fail.h"
#include "spline.h"

static double density_at(const struct particles *particles, const struct neighbours *neighbours, size_t i)
{
    const double smoothing = particles->smoothing[i];
    const uint32_t *list = neighbours_of(neighbours, i);
    double sum = spline(0, smoothing);
    for (uint32_t place = 0; place < neighbours->counts[i]; place++)
        sum += spline(sqrt(separation_squared(particles, i, list[place])), smoothing);
    return particles->mass * sum;
}

void density_sum(struct particles *particles, const struct neighbours *neighbours, struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_DENSITY);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++)
            particles->density[i] = density_at(particles, neighbours, i);
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

void density_equation_of_state(struct particles *particles, struct loops *loops)
{
    const double gamma = particles->gamma;
    LOOP_BEGIN(loops, LOOP_EQUATION_OF_STATE);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++) {
            double energy = particles->energy[i];
            if (!(energy > 0))
                check_failed("the internal energy of particle %zu is %g", i, energy);
            particles->pressure[i] = (gamma - 1) * particles->density[i] * energy;
            particles->sound_speed[i] = sqrt(gamma * (gamma - 1) * energy);
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

void density_smoothing_length(struct particles *particles, struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_SMOOTHING_LENGTH);
#pragma omp parallel
    {
#pragma omp for schedule(runtime) nowait
        for (size_t i = 0; i < particles->count; i++) {
            double wanted = smoothing_per_distance * cbrt(particles->mass / particles->density[i]);
            particles->smoothing[i] = fmin(0.5 * (particles->smoothing[i] + wanted), longest_smoothing);
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
}
