// SPDX-License-Identifier: Apache-2.0 OR MIT
// A point explosion in a gas (Sedov's blast wave) by smoothed particle hydrodynamics: 16 OpenMP loops in each time
// step, three of them schedule(runtime). See --help.
//
//   particles    the gas, and how it begins             forces    gradient terms, momentum and energy
//   cells        the grid for finding neighbours        motion    time integration, time step
//   neighbours   the list of each particle              totals    energy, momentum, shock radius
//   spline       the kernel                             exact     the solution for the shock radius
//   density      density, pressure, smoothing length    checks    what is checked particle by particle
//   loops        the loops' names and times               counts    operations and bytes of a run
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cells.h"
#include "checks.h"
#include "clocks.h"
#include "counts.h"
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

// The exact radius is that of an explosion in a point, in a gas without end. So radii are compared from this number of
// lattice spacings on, twice the distance of the particles that had the energy at the start, and up to this part of the
// cube's edge, before the shock meets those of the periodic images.
static const double first_radius_spacings = 6, last_radius = 0.45;

// The shock's radius against the exact one, over all steps in which the larger of the two is inside the bounds. Both
// radii decide: a shock that is too fast or too slow enters the bounds at another time, and is compared all the same.
struct radius_check {
    uint64_t steps;    // in which radii were compared
    double error;      // the largest deviation, relative
};

struct blast {
    struct particles particles;
    struct cells cells;
    struct neighbours neighbours;
    struct loops loops;
    double time, time_step;
    double xi0;                    // of the exact radius
    struct totals totals;          // at the end of the last step
    double start_energy;
    struct radius_check radius;
};

struct outcome {
    double energy_error, momentum_error;
    double radius, exact_radius;
    uint64_t checksum;
};

static void blast_create(struct blast *blast, size_t size, double gamma, size_t threads, bool timed)
{
    *blast = (struct blast){0};
    particles_create(&blast->particles, size, gamma);
    cells_create(&blast->cells, &blast->particles);
    neighbours_create(&blast->neighbours, &blast->particles);
    loops_create(&blast->loops, threads, timed);
    blast->xi0 = exact_xi0(gamma);
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
}

static double first_radius(const struct blast *blast)
{
    return first_radius_spacings / (double)blast->particles.edge;
}

static void compare_radius(struct blast *blast)
{
    const double radius = totals_shock_radius(&blast->totals);
    const double exact = exact_radius(blast->xi0, blast->time);
    const double farther = larger(radius, exact);
    if (farther < first_radius(blast) || farther > last_radius)
        return;
    const double error = radius / exact - 1;
    blast->radius.steps++;
    if (!(fabs(error) <= fabs(blast->radius.error)))
        blast->radius.error = error;
}

static void explode(struct blast *blast, uint64_t steps)
{
    // A step of length 0 computes the forces at the start.
    advance(blast);
    check_lattice_density(&blast->particles);
    blast->start_energy = blast->totals.kinetic + blast->totals.internal;
    for (uint64_t step = 0; step < steps; step++) {
        advance(blast);
        compare_radius(blast);
    }
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

static struct outcome outcome_of(const struct blast *blast)
{
    const struct totals *totals = &blast->totals;
    double momentum = sqrt(totals->momentum_x * totals->momentum_x + totals->momentum_y * totals->momentum_y +
                           totals->momentum_z * totals->momentum_z);
    return (struct outcome){
        .energy_error = (totals->kinetic + totals->internal) / blast->start_energy - 1,
        .momentum_error = momentum / totals->momentum_sum,
        .radius = totals_shock_radius(totals),
        .exact_radius = exact_radius(blast->xi0, blast->time),
        .checksum = checksum_of(blast),
    };
}

static void check(const struct blast *blast, const struct outcome *outcome, uint64_t steps)
{
    check_neighbours(&blast->particles, &blast->neighbours);
    check_gradients(&blast->particles, &blast->neighbours);
    check_sound_speeds(&blast->particles);
    double energy_bound = most_energy_error * fmax(1, (double)steps / 100);
    if (!(fabs(outcome->energy_error) <= energy_bound))
        check_failed("the total energy has changed by %.2g of itself", outcome->energy_error);
    if (!(outcome->momentum_error <= most_momentum_error))
        check_failed("the total momentum is %.2g of the sum of all momenta", outcome->momentum_error);
    if (!(fabs(blast->radius.error) <= most_radius_error))
        check_failed("the shock's radius differs by %+.1f %% from the exact one", 100 * blast->radius.error);
}

// What a run was asked for, and what it took.
struct run {
    uint64_t size, steps, threads;
    char schedule[32];    // of the loops with schedule(runtime)
    uint64_t elapsed_ns;
};

static void print_report(const struct run *run, const struct blast *blast, const struct outcome *outcome)
{
    printf("sedov: %" PRIu64 "^3 particles, %" PRIu64 " steps, %" PRIu64 " threads, schedule %s: %.4f s\n", run->size,
           run->steps, run->threads, run->schedule, (double)run->elapsed_ns / NS_PER_SECOND);
    printf("time %.5f, energy error %.1e, momentum error %.1e, %.1f neighbours\n", blast->time,
           outcome->energy_error, outcome->momentum_error,
           (double)blast->neighbours.total / (double)blast->particles.count);
    printf("shock radius %.4f, exact %.4f, ", outcome->radius, outcome->exact_radius);
    if (blast->radius.steps > 0)
        printf("compared in %" PRIu64 " steps: at most %+.1f %%\n", blast->radius.steps, 100 * blast->radius.error);
    else
        printf("not compared: in no step at least %.4f and at most %.4f\n", first_radius(blast), last_radius);
    printf("checksum 0x%016" PRIx64 "\n", outcome->checksum);
}

static void write_truth(struct truth *truth, const struct run *run, const struct blast *blast,
                        const struct outcome *outcome, const struct team *team)
{
    truth_begin(truth, "sedov");
    truth_u64(truth, "size", run->size);
    truth_u64(truth, "steps", run->steps);
    truth_string(truth, "schedule", run->schedule);
    truth_u64(truth, "elapsed_ns", run->elapsed_ns);
    truth_u64(truth, "operations", counts_operations(&blast->neighbours));
    truth_u64(truth, "bytes", counts_bytes(&blast->neighbours, blast->particles.count, run->steps + 1));
    truth_double(truth, "gamma", blast->particles.gamma);
    truth_double(truth, "time", blast->time);
    truth_double(truth, "energy_error", outcome->energy_error);
    truth_double(truth, "momentum_error", outcome->momentum_error);
    truth_double(truth, "xi0", blast->xi0);
    truth_double(truth, "exact_radius", outcome->exact_radius);
    truth_double(truth, "radius", outcome->radius);
    truth_u64(truth, "radius_steps", blast->radius.steps);
    truth_double(truth, "radius_error", blast->radius.error);
    truth_u64(truth, "neighbours", blast->neighbours.total);
    truth_hex(truth, "checksum", outcome->checksum);
    loops_truth(truth, &blast->loops);
    team_truth(truth, team);
    truth_end(truth);
}

int main(int argc, char **argv)
{
    static const char *const gamma_names[] = {"5/3", "1.4", NULL};
    static const double gammas[] = {5.0 / 3, 1.4};
    struct run run = {.size = 50, .steps = 100};
    unsigned gamma = 0;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &run.threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"size", OPTION_COUNT, &run.size, 8, 400, NULL, "N", "N x N x N particles (50)", NULL},
        {"steps", OPTION_COUNT, &run.steps, 1, 1e6, NULL, "T", "time steps (100)", NULL},
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
        .checked = "In each step: two particles are in each other's list of neighbours or in none; the\n"
                   "radius of the shock against Sedov's solution (5 %), from 6/N to 0.45. At the start:\n"
                   "the density (1 %). At the end: total energy (0.1 % per 100 steps), total momentum\n"
                   "(1e-12 of the sum of all), 200 lists of neighbours against a search among all\n"
                   "particles, 200 gradients of a linear function, pressure against speed of sound. The\n"
                   "checksum, of all bits of the particles, is the same for every schedule and number of\n"
                   "threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    run.threads = team_prepare(run.threads);
    runtime_schedule_text(run.schedule, sizeof run.schedule);
    struct blast blast;
    blast_create(&blast, run.size, gammas[gamma], run.threads, truth_wanted(&truth));

    struct team team;
    team_begin(&team, truth_wanted(&truth));
    uint64_t begin_ns = monotonic_ns();
    explode(&blast, run.steps);
    run.elapsed_ns = monotonic_ns() - begin_ns;
    team_end(&team);

    const struct outcome outcome = outcome_of(&blast);
    check(&blast, &outcome, run.steps);
    print_report(&run, &blast, &outcome);
    write_truth(&truth, &run, &blast, &outcome, &team);
    team_destroy(&team);
    blast_destroy(&blast);
    return program_end();
}
