// SPDX-License-Identifier: Apache-2.0 OR MIT
// Molecules in a box, all pairs: a lock per molecule and two barriers per step. See --help.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"

enum { AXES = 3 };

// Forces and energies are added as integer multiples of this, so the sum is the same in any order, and
// action and reaction cancel exactly.
static const double unit = 0x1p-32;

static const double step_length = 2e-3, spacing = 1.2, first_speed = 0.7;

struct molecule {
    pthread_mutex_t lock;             // protects `force`
    int64_t force[AXES];              // in units
    double position[AXES], velocity[AXES];
};

// Sums that one thread has collected by itself.
struct worker {
    _Alignas(64) int64_t (*force)[AXES];
    int64_t potential;                // of the thread's pairs, in units
};

struct run {
    size_t threads, count;
    uint64_t steps;
    double box;
    struct molecule *molecules;
    struct worker *workers;
    struct crew_barrier barrier;
    double first_energy, last_energy;
};

// Places the molecules on a grid, with random velocities whose sum is zero.
static void place_molecules(struct run *run, size_t edge)
{
    double sum[AXES] = {0};
    for (size_t i = 0; i < run->count; i++) {
        struct molecule *molecule = &run->molecules[i];
        size_t at[AXES] = {i % edge, i / edge % edge, i / edge / edge};
        struct random_sequence sequence = random_numbered(i);
        crew_lock_create(&molecule->lock);
        for (int axis = 0; axis < AXES; axis++) {
            molecule->position[axis] = spacing * ((double)at[axis] + 0.5);
            molecule->velocity[axis] = first_speed * (2 * random_unit(&sequence) - 1);
            sum[axis] += molecule->velocity[axis];
        }
    }
    for (size_t i = 0; i < run->count; i++)
        for (int axis = 0; axis < AXES; axis++)
            run->molecules[i].velocity[axis] -= sum[axis] / (double)run->count;
}

// Returns the offset to the nearest periodic image of the other molecule. Positions stay within the box.
static double nearest(double offset, double box)
{
    if (offset > box / 2)
        return offset - box;
    return offset < -box / 2 ? offset + box : offset;
}

// Adds the Lennard-Jones 6-12 potential of a pair, shifted to vanish at the cutoff, which is half the box.
static void one_pair(const struct run *run, struct worker *worker, size_t a, size_t b)
{
    double offset[AXES], squared = 0;
    for (int axis = 0; axis < AXES; axis++) {
        offset[axis] = nearest(run->molecules[a].position[axis] - run->molecules[b].position[axis],
                               run->box);
        squared += offset[axis] * offset[axis];
    }
    double cutoff_squared = run->box * run->box / 4;
    if (squared >= cutoff_squared)
        return;
    double inverse = 1 / squared, sixth = inverse * inverse * inverse;
    double limit = 1 / (cutoff_squared * cutoff_squared * cutoff_squared);
    worker->potential += (int64_t)(4 * (sixth * (sixth - 1) - limit * (limit - 1)) / unit);
    double strength = 24 * inverse * sixth * (2 * sixth - 1) / unit;
    for (int axis = 0; axis < AXES; axis++) {
        int64_t part = (int64_t)(strength * offset[axis]);
        worker->force[a][axis] += part;
        worker->force[b][axis] -= part;
    }
}

// Every molecule is paired with the half of the other molecules that follow it, so that all have the same
// number of pairs. With an even number of molecules, only one of two opposite molecules counts their pair.
static void own_pairs(const struct run *run, struct worker *worker, struct share mine)
{
    for (size_t a = mine.begin; a < mine.end; a++) {
        size_t others = (run->count - 1) / 2 + (run->count % 2 == 0 && a < run->count / 2);
        for (size_t next = 1; next <= others; next++) {
            size_t b = a + next < run->count ? a + next : a + next - run->count;
            one_pair(run, worker, a, b);
        }
    }
}

// Adds the thread's forces to the molecules, beginning with the thread's own ones, so that threads do not
// contend for the same locks at the same time.
static void add_forces(struct run *run, struct worker *worker, struct share mine)
{
    for (size_t i = 0; i < run->count; i++) {
        size_t at = (mine.begin + i) % run->count;
        struct molecule *molecule = &run->molecules[at];
        int64_t *force = worker->force[at];
        crew_lock(&molecule->lock);
        for (int axis = 0; axis < AXES; axis++)
            molecule->force[axis] += force[axis];
        crew_unlock(&molecule->lock);
        for (int axis = 0; axis < AXES; axis++)
            force[axis] = 0;
    }
}

static void kick(struct run *run, struct share mine, double length)
{
    for (size_t i = mine.begin; i < mine.end; i++)
        for (int axis = 0; axis < AXES; axis++)
            run->molecules[i].velocity[axis] +=
                length * unit * (double)run->molecules[i].force[axis];
}

static void drift(struct run *run, struct share mine)
{
    for (size_t i = mine.begin; i < mine.end; i++) {
        struct molecule *molecule = &run->molecules[i];
        for (int axis = 0; axis < AXES; axis++) {
            double at = molecule->position[axis] + step_length * molecule->velocity[axis];
            molecule->position[axis] = at - run->box * floor(at / run->box);
            molecule->force[axis] = 0;
        }
    }
}

static void find_forces(struct run *run, struct worker *worker, struct share mine)
{
    worker->potential = 0;
    own_pairs(run, worker, mine);
    add_forces(run, worker, mine);
    crew_barrier_wait(&run->barrier);
}

static double energy_of(const struct run *run)
{
    double energy = 0;
    for (size_t i = 0; i < run->threads; i++)
        energy += unit * (double)run->workers[i].potential;
    for (size_t i = 0; i < run->count; i++)
        for (int axis = 0; axis < AXES; axis++)
            energy += run->molecules[i].velocity[axis] * run->molecules[i].velocity[axis] / 2;
    return energy;
}

// Velocity Verlet: half a kick, drift, forces, half a kick.
static void all_steps(void *work, size_t thread)
{
    struct run *run = work;
    struct worker *worker = &run->workers[thread];
    struct share mine = share_of(run->count, run->threads, thread);
    find_forces(run, worker, mine);
    if (thread == 0)
        run->first_energy = energy_of(run);
    crew_barrier_wait(&run->barrier);
    for (uint64_t step = 0; step < run->steps; step++) {
        kick(run, mine, step_length / 2);
        drift(run, mine);
        crew_barrier_wait(&run->barrier);
        find_forces(run, worker, mine);
        kick(run, mine, step_length / 2);
    }
}

// Recomputes the last forces in one thread, over all pairs.
static void check_forces(const struct run *run)
{
    struct worker all = {.force = kernel_array(run->count, sizeof *all.force)};
    for (size_t a = 0; a < run->count; a++)
        for (size_t b = a + 1; b < run->count; b++)
            one_pair(run, &all, a, b);
    for (size_t i = 0; i < run->count; i++)
        for (int axis = 0; axis < AXES; axis++)
            if (run->molecules[i].force[axis] != all.force[i][axis])
                check_failed("the force on molecule %zu is not that of all pairs", i);
    free(all.force);
}

static void check_physics(const struct run *run)
{
    for (int axis = 0; axis < AXES; axis++) {
        double momentum = 0;
        for (size_t i = 0; i < run->count; i++)
            momentum += run->molecules[i].velocity[axis];
        if (!(fabs(momentum) < 1e-6))
            check_failed("all momenta together are %g, not 0", momentum);
    }
    double drifted = fabs(run->last_energy - run->first_energy) / (double)run->count;
    if (!(drifted < 3e-4))
        check_failed("the energy went from %g to %g", run->first_energy, run->last_energy);
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 12, steps = 80;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 4, 64, NULL, "N", "N x N x N molecules (12)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "S", "time steps (80)", NULL},
    };
    const struct program program = {
        .name = "kernel-water",
        .summary = "Molecules in a periodic box act on each other, by all pairs. A thread adds up\n"
                   "the forces of its pairs, then adds them to each molecule under the molecule's\n"
                   "lock. Two pthread barriers per step: after the move, and after the forces.",
        .example = "kernel-water --threads 3 --steps 20 --truth -",
        .checked = "The last forces against those of one thread; momentum and energy are kept. Forces\n"
                   "are added up as whole numbers: the checksum, of all positions and velocities, bit\n"
                   "by bit, is the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    struct run run = {.threads = kernel.threads, .count = size * size * size, .steps = steps,
                      .box = spacing * (double)size};
    run.molecules = kernel_array(run.count, sizeof *run.molecules);
    run.workers = kernel_array(run.threads, sizeof *run.workers);
    for (size_t i = 0; i < run.threads; i++)
        run.workers[i].force = kernel_array(run.count, sizeof *run.workers[i].force);
    place_molecules(&run, size);
    crew_barrier_create(&run.barrier, run.threads);

    crew_run(&kernel, all_steps, &run);
    kernel.phases += crew_barrier_destroy(&run.barrier);
    run.last_energy = energy_of(&run);
    check_forces(&run);
    check_physics(&run);
    for (size_t i = 0; i < run.count; i++) {
        struct molecule *molecule = &run.molecules[i];
        kernel.checksum = digest_doubles(kernel.checksum, molecule->position, AXES);
        kernel.checksum = digest_doubles(kernel.checksum, molecule->velocity, AXES);
        pthread_mutex_destroy(&molecule->lock);
    }
    for (size_t i = 0; i < run.threads; i++)
        free(run.workers[i].force);
    free(run.workers);
    free(run.molecules);
    return kernel_end(&kernel, &program, "%" PRIu64 "^3 molecules, %" PRIu64 " steps", size, steps);
}
