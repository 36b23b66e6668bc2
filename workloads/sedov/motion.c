// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "motion.h"

#include <math.h>

// The part of a smoothing length that a signal may cross in a step (Courant's condition).
static const double courant = 0.3;

void motion_positions(struct particles *particles, double time_step, struct loops *loops)
{
    const double half = 0.5 * time_step;
    LOOP_BEGIN(loops, LOOP_POSITIONS);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++) {
            particles->half_vx[i] = particles->vx[i] + half * particles->ax[i];
            particles->half_vy[i] = particles->vy[i] + half * particles->ay[i];
            particles->half_vz[i] = particles->vz[i] + half * particles->az[i];
            particles->half_energy[i] = particles->energy[i] + half * particles->energy_rate[i];
            particles->x[i] = minimum_image(particles->x[i] + time_step * particles->half_vx[i]);
            particles->y[i] = minimum_image(particles->y[i] + time_step * particles->half_vy[i]);
            particles->z[i] = minimum_image(particles->z[i] + time_step * particles->half_vz[i]);
            particles->vx[i] = particles->half_vx[i] + half * particles->ax[i];
            particles->vy[i] = particles->half_vy[i] + half * particles->ay[i];
            particles->vz[i] = particles->half_vz[i] + half * particles->az[i];
            particles->energy[i] = particles->half_energy[i] + half * particles->energy_rate[i];
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

void motion_velocities(struct particles *particles, double time_step, struct loops *loops)
{
    const double half = 0.5 * time_step;
    LOOP_BEGIN(loops, LOOP_VELOCITIES);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++) {
            particles->vx[i] = particles->half_vx[i] + half * particles->ax[i];
            particles->vy[i] = particles->half_vy[i] + half * particles->ay[i];
            particles->vz[i] = particles->half_vz[i] + half * particles->az[i];
            particles->energy[i] = particles->half_energy[i] + half * particles->energy_rate[i];
        }
        loop_thread_finished(loops);
    }
    loop_end(loops);
}

double motion_time_step(const struct particles *particles, struct loops *loops)
{
    double shortest = INFINITY;
    LOOP_BEGIN(loops, LOOP_TIME_STEP);
#pragma omp parallel reduction(min : shortest)
    {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < particles->count; i++)
            shortest = fmin(shortest, particles->smoothing[i] / particles->signal_speed[i]);
        loop_thread_finished(loops);
    }
    loop_end(loops);
    return courant * shortest;
}
