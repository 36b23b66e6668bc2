// SPDX-License-Identifier: Apache-2.0 OR MIT
// A point explosion in a gas (Sedov's blast wave) by smoothed particle hydrodynamics: 16 OpenMP loops in each time
// step, three of them schedule(runtime). See --help.
//
//   particles    the gas, and how it begins             forces    gradient terms, momentum and energy
//   cells        the grid for finding neighbours        motion    time integration, time step
//   neighbours   the list of each particle              totals    energy, momentum, shock radius
//   spline       the kernel                             exact     the solution for the shock radius
//   density      density, pressure, smoothing length    checks    what is checked particle by particle
//   loops        the loops' names and times
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cells.h"
#include "checks.h"
#include "clocks.h"
#include "density.h"
#include "exact.h"
#include "fail.h"
#include "forces.h"
#include "loops.h"
#include "motion.h"
#include "neighbours.h"
#include "numbers.h"
#include "options.h"
#include "particles.h"
#include "team.h"
#include "totals.h"
#include "truth.h"

// Bounds of the checks, all relative.
static const double most_energy_error = 1e-3;       // of total energy, per 100 steps
static const double most_momentum_error = 1e-12;    // in units of the sum of the momenta's absolute values
static const double most_radius_error = 0.05;

// The exact radius is that of an explosion in a point, in a gas without end. It is compared from this number of lattice
// spacings on, when the shock is far from the particles that had the energy at the start, and up to this part of the
// cube, before it meets the shocks of the periodic images.
static const double first_radius_spacings = 7.5, last_radius = 0.45;

struct blast {
    struct particles particles;
    struct cells cells;
    struct neighbours neighbours;
    struct loops loops;
    double time, time_step;
    struct totals totals;
};

struct outcome {
    double energy_error, momentum_error;
    double radius, exact_radius;
    bool radius_compared;
};

static void blast_create(struct blast *blast, size_t size, double gamma, size_t threads, bool timed)
{
    *blast = (struct blast){0};
    particles_create(&blast->particles, size, gamma);
    cells_create(&blast->cells, &blast->particles);
    neighbours_create(&blast->neighbours, &blast->particles);
    loops_create(&blast->loops, threads, timed);
}

static void blast_destroy(struct blast *blast)
{
    particles_destroy(&blast->particles);
    cells_destroy(&blast->cells);
    neighbours_destroy(&blast->neighbours);
    loops_destroy(&blast->loops);
}

// A time step: all 16 loops.
static void advance(struct blast *blast)
{
    struct particles *particles = &blast->particles;
    struct loops *loops = &blast->loops;
    density_smoothing_length(particles, loops);
    motion_positions(particles, blast->time_step, loops);
    cells_build(&blast->cells, particles, loops);
    neighbours_find(&blast->neighbours, &blast->cells, particles, loops);
    density_sum(particles, &blast->neighbours, loops);
    density_equation_of_state(particles, loops);
    forces_gradient_terms(particles, &blast->neighbours, loops);
    forces_momentum_and_energy(particles, &blast->neighbours, loops);
    motion_velocities(particles, blast->time_step, loops);
    blast->time += blast->time_step;
    blast->time_step = motion_time_step(particles, loops);
    blast->totals = totals_sum(particles, loops);
    loops_end_step(loops);
}

static struct outcome compare(const struct blast *blast, double start_energy)
{
    const struct totals *totals = &blast->totals;
    double momentum = sqrt(totals->momentum_x * totals->momentum_x + totals->momentum_y * totals->momentum_y +
                           totals->momentum_z * totals->momentum_z);
    double exact = exact_radius(exact_xi0(blast->particles.gamma), blast->time);
    return (struct outcome){
        .energy_error = (totals->kinetic + totals->internal) / start_energy - 1,
        .momentum_error = momentum / totals->speed,
        .radius = totals_shock_radius(totals),
        .exact_radius = exact,
        .radius_compared = exact * (double)blast->particles.edge >= first_radius_spacings && exact <= last_radius,
    };
}

static void check(const struct blast *blast, const struct outcome *outcome)
{
    check_neighbours(&blast->particles, &blast->neighbours);
    check_gradients(&blast->particles, &blast->neighbours);
    double energy_bound = most_energy_error * fmax(1, (double)blast->loops.steps / 100);
    if (!(fabs(outcome->energy_error) <= energy_bound))
        check_failed("the total energy has changed by %.2g of itself", outcome->energy_error);
    if (!(outcome->momentum_error <= most_momentum_error))
        check_failed("the total momentum is %.2g of the sum of all momenta", outcome->momentum_error);
    if (outcome->radius_compared && !(fabs(outcome->radius / outcome->exact_radius - 1) <= most_radius_error))
        check_failed("the shock's radius is %.4f instead of %.4f", outcome->radius, outcome->exact_radius);
}

// All bits of what describes the gas, and of the totals.
static uint64_t checksum_of(const struct blast *blast)
{
    const struct particles *particles = &blast->particles;
    const double *const results[] = {particles->x,  particles->y,  particles->z,      particles->vx,
                                     particles->vy, particles->vz, particles->energy, particles->density};
    uint64_t digest = digest_doubles(0, &blast->time, 1);
    for (size_t i = 0; i < COUNT_OF(results); i++)
        digest = digest_doubles(digest, results[i], particles->count);
    const double totals[] = {blast->totals.kinetic, blast->totals.internal, blast->totals.compression_radius};
    return digest_doubles(digest, totals, COUNT_OF(totals));
}

static void print_outcome(const struct blast *blast, const struct outcome *outcome)
{
    printf("time %.5f, energy error %.1e, momentum error %.1e, %.1f neighbours\n", blast->time,
           outcome->energy_error, outcome->momentum_error,
           (double)blast->neighbours.total / (double)blast->particles.count);
    printf("shock radius %.4f, exact %.4f", outcome->radius, outcome->exact_radius);
    if (outcome->radius_compared)
        printf(": %+.1f %%\n", 100 * (outcome->radius / outcome->exact_radius - 1));
    else
        printf(", not compared: the exact one is not between %.4f and %.4f\n",
               first_radius_spacings / (double)blast->particles.edge, last_radius);
}

static void write_outcome(struct truth *truth, const struct blast *blast, const struct outcome *outcome)
{
    truth_double(truth, "gamma", blast->particles.gamma);
    truth_double(truth, "time", blast->time);
    truth_double(truth, "energy_error", outcome->energy_error);
    truth_double(truth, "momentum_error", outcome->momentum_error);
    truth_double(truth, "xi0", exact_xi0(blast->particles.gamma));
    truth_double(truth, "exact_radius", outcome->exact_radius);
    truth_double(truth, "radius", outcome->radius);
    truth_bool(truth, "radius_compared", outcome->radius_compared);
    truth_u64(truth, "neighbours", blast->neighbours.total);
}

int main(int argc, char **argv)
{
    static const char *const gamma_names[] = {"5/3", "1.4", NULL};
    static const double gammas[] = {5.0 / 3, 1.4};
    uint64_t size = 50, steps = 100, threads = 0;
    unsigned gamma = 0;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"size", OPTION_COUNT, &size, 8, 400, NULL, "N", "N x N x N particles (50)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "T", "time steps (100)", NULL},
        {"gamma", OPTION_CHOICE, &gamma, 0, 0, gamma_names, NULL,
         "ratio of the gas's specific heats (5/3)", NULL},
    };
    const struct program program = {
        .name = "sedov",
        .summary = "A point explosion in a cube of gas, by smoothed particle hydrodynamics. A time step\n"
                   "has 16 OpenMP loops. Those for gradient terms, momentum and energy, and smoothing\n"
                   "length are schedule(runtime): what OMP_SCHEDULE says, else static. With --truth, the\n"
                   "times of each loop and thread are measured.",
        .example = "OMP_SCHEDULE=guided sedov --threads 2 --truth -\n"
                   "OMP_SCHEDULE=dynamic,64 sedov --size 24 --steps 90",
        .checked = "In each step, two particles are in each other's list of neighbours or in none; at the\n"
                   "end, 200 lists against a search among all particles, and 200 times the gradient of a\n"
                   "linear function. Density before the explosion (1 %), total energy (0.1 % per 100\n"
                   "steps), total momentum (1e-12 of the sum of all), and the radius of the shock against\n"
                   "Sedov's solution (5 %), if it is at least 7.5/N and at most 0.45. The checksum, of all\n"
                   "bits of the particles, is the same for every schedule and number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    threads = team_prepare(threads);
    struct blast blast;
    blast_create(&blast, size, gammas[gamma], threads, truth_wanted(&truth));

    struct team team;
    team_begin(&team, truth_wanted(&truth));
    uint64_t begin_ns = monotonic_ns();
    // Step 0 has length 0: it computes the forces at the start.
    advance(&blast);
    check_lattice_density(&blast.particles);
    const double start_energy = blast.totals.kinetic + blast.totals.internal;
    for (uint64_t step = 0; step < steps; step++)
        advance(&blast);
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    team_end(&team);
    const struct outcome outcome = compare(&blast, start_energy);
    check(&blast, &outcome);

    const uint64_t checksum = checksum_of(&blast);
    char schedule[32];
    runtime_schedule_text(schedule, sizeof schedule);
    printf("sedov: %" PRIu64 "^3 particles, %" PRIu64 " steps, %" PRIu64 " threads, schedule %s: %.4f s\n", size,
           steps, threads, schedule, (double)elapsed_ns / NS_PER_SECOND);
    print_outcome(&blast, &outcome);
    printf("checksum 0x%016" PRIx64 "\n", checksum);
    truth_begin(&truth, "sedov");
    truth_u64(&truth, "size", size);
    truth_u64(&truth, "steps", steps);
    truth_string(&truth, "schedule", schedule);
    truth_u64(&truth, "elapsed_ns", elapsed_ns);
    write_outcome(&truth, &blast, &outcome);
    truth_hex(&truth, "checksum", checksum);
    loops_truth(&truth, &blast.loops);
    team_truth(&truth, &team);
    truth_end(&truth);
    team_destroy(&team);
    blast_destroy(&blast);
    return program_end();
}
