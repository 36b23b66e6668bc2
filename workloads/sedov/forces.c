// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "forces.h"

// Artificial viscosity (Monaghan and Gingold 1983) with the usual factors alpha, beta and epsilon. It turns the motion
// of particles towards each other into heat, so a shock is a few smoothing lengths wide.
static const double viscosity_linear = 1, viscosity_quadratic = 2, viscosity_softening = 0.01;

// Returns the viscous pressure of a pair divided by density squared. `approach` is the scalar product of the
// differences of position and of velocity: negative if the two come closer.
static double viscosity(const struct particles *particles, size_t i, size_t j, double approach, double distance)
{
    if (approach >= 0)
        return 0;
    double smoothing = 0.5 * (particles->smoothing[i] + particles->smoothing[j]);
    double sound_speed = 0.5 * (particles->sound_speed[i] + particles->sound_speed[j]);
    double density = 0.5 * (particles->density[i] + particles->density[j]);
    double speed =
        smoothing * approach / (distance * distance + viscosity_softening * smoothing * smoothing);
    return (-viscosity_linear * sound_speed * speed + viscosity_quadratic * speed * speed) / density;
}

static double pressure_term(const struct particles *particles, size_t i)
{
    return particles->pressure[i] / (particles->density[i] * particles->density[i]);
}

static void interact(struct particles *particles, const struct neighbours *neighbours, size_t i)
{
    const uint32_t *list = neighbours_of(neighbours, i);
    const double pressure_i = pressure_term(particles, i);
    double ax = 0, ay = 0, az = 0, expansion = 0, heating = 0;
    double fastest = 2 * particles->sound_speed[i];
    for (uint32_t place = 0; place < neighbours->counts[i]; place++) {
        const uint32_t j = list[place];
        const struct separation to = separation_of(particles, i, j);
        const struct vector mine = gradient_term(&particles->gradient[i], to, particles->smoothing[i]);
        const struct vector theirs = gradient_term(&particles->gradient[j], to, particles->smoothing[j]);
        const double vx = particles->vx[i] - particles->vx[j];
        const double vy = particles->vy[i] - particles->vy[j];
        const double vz = particles->vz[i] - particles->vz[j];
        const double approach = -(vx * to.x + vy * to.y + vz * to.z);
        const double viscous = viscosity(particles, i, j, approach, to.distance);
        const double pressure_j = pressure_term(particles, j);

        const struct vector mean = {
            0.5 * (mine.x + theirs.x), 0.5 * (mine.y + theirs.y), 0.5 * (mine.z + theirs.z)};
        ax -= pressure_i * mine.x + pressure_j * theirs.x + viscous * mean.x;
        ay -= pressure_i * mine.y + pressure_j * theirs.y + viscous * mean.y;
        az -= pressure_i * mine.z + pressure_j * theirs.z + viscous * mean.z;
        expansion += vx * mine.x + vy * mine.y + vz * mine.z;
        heating += 0.5 * viscous * (vx * mean.x + vy * mean.y + vz * mean.z);

        // Signal speed of a pair (Monaghan 1997).
        double towards = approach < 0 ? -3 * approach / to.distance : 0;
        fastest = larger(fastest, particles->sound_speed[i] + particles->sound_speed[j] + towards);
    }
    particles->ax[i] = particles->mass * ax;
    particles->ay[i] = particles->mass * ay;
    particles->az[i] = particles->mass * az;
    particles->energy_rate[i] = particles->mass * (pressure_i * expansion + heating);
    particles->signal_speed[i] = fastest;
}

void forces_momentum_and_energy(struct particles *particles, const struct neighbours *neighbours,
                                struct loops *loops)
{
    LOOP_BEGIN(loops, LOOP_MOMENTUM_AND_ENERGY);
#pragma omp parallel
    {
#pragma omp for schedule(runtime) nowait
        for (size_t i = 0; i < particles->count; i++)
            interact(particles, neighbours, i);
        loop_thread_finished(loops);
    }
    loop_end(loops);
}
