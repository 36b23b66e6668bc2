// SPDX-License-Identifier: Apache-2.0 OR MIT
// Bodies that attract each other, computed with an octree: long phases between pthread barriers. See
// --help.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"
#include "octree.h"

struct bounds {
    _Alignas(64) double low[AXES];
    double high[AXES];
};

struct run {
    size_t threads, body_count;
    uint64_t steps;
    struct body *bodies;
    struct octree tree;
    struct bounds *bounds;      // bounds of the bodies in each thread's zone
    uint32_t *order;            // bodies in the order of the last tree walk: neighbours are close
    uint64_t *cost_before;      // total cost of the bodies before this position of the order
    struct crew_barrier barrier;
};

static const double step_length = 2e-3, openness = 0.7;

// Two clumps that move towards each other and are dense in the middle, so that equal numbers of bodies are
// unequal work.
static void place_bodies(struct run *run)
{
    for (size_t i = 0; i < run->body_count; i++) {
        struct random_sequence sequence = random_numbered(i);
        struct body *body = &run->bodies[i];
        double side = i % 2 == 0 ? 1 : -1, direction[AXES], length = 1e-9;
        for (int axis = 0; axis < AXES; axis++) {
            direction[axis] = 2 * random_unit(&sequence) - 1;
            length += direction[axis] * direction[axis];
        }
        double radius = random_unit(&sequence) / sqrt(length);
        for (int axis = 0; axis < AXES; axis++)
            body->position[axis] = radius * direction[axis] + (axis == 0 ? 1.2 * side : 0);
        body->velocity[0] = -0.3 * side;
        body->velocity[1] = 0.2 * side;
        body->cost = 1;
        run->order[i] = (uint32_t)i;
        run->cost_before[i] = i;
    }
    run->cost_before[run->body_count] = run->body_count;
}

// Returns the first position of the order with at least this much cost before it.
static size_t place_of_cost(const struct run *run, uint64_t cost)
{
    size_t low = 0, high = run->body_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (run->cost_before[middle] < cost)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Returns the thread's part of the order. All parts have the same cost.
static struct share zone_of(const struct run *run, size_t thread)
{
    uint64_t all = run->cost_before[run->body_count];
    struct share cost = share_of(all, run->threads, thread);
    return (struct share){place_of_cost(run, cost.begin), place_of_cost(run, cost.end)};
}

static void note_bounds(struct run *run, size_t thread)
{
    struct bounds *mine = &run->bounds[thread];
    struct share zone = zone_of(run, thread);
    for (int axis = 0; axis < AXES; axis++) {
        mine->low[axis] = INFINITY;
        mine->high[axis] = -INFINITY;
        for (size_t i = zone.begin; i < zone.end; i++) {
            double at = run->bodies[run->order[i]].position[axis];
            mine->low[axis] = fmin(mine->low[axis], at);
            mine->high[axis] = fmax(mine->high[axis], at);
        }
    }
}

// Returns a cube around all bodies. Minimum and maximum do not depend on the order, so all threads get the
// same.
static struct cube cube_around_all(const struct run *run)
{
    struct cube cube = {.half = 0};
    for (int axis = 0; axis < AXES; axis++) {
        double low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < run->threads; i++) {
            low = fmin(low, run->bounds[i].low[axis]);
            high = fmax(high, run->bounds[i].high[axis]);
        }
        cube.middle[axis] = (low + high) / 2;
        cube.half = fmax(cube.half, (high - low) / 2);
    }
    cube.half *= 1.001;
    return cube;
}

static void move_bodies(struct run *run, struct share zone)
{
    for (size_t i = zone.begin; i < zone.end; i++) {
        struct body *body = &run->bodies[run->order[i]];
        for (int axis = 0; axis < AXES; axis++) {
            body->velocity[axis] += step_length * body->acceleration[axis];
            body->position[axis] += step_length * body->velocity[axis];
        }
    }
}

static void attract_bodies(struct run *run, struct share zone, struct cube cube)
{
    for (size_t i = zone.begin; i < zone.end; i++)
        octree_attract(&run->tree, cube, openness, run->order[i]);
}

// The costs are those of the step before, because the costs of the next step are not known in advance.
static void walk_tree(struct run *run)
{
    octree_summarise(&run->tree, run->order);
    for (size_t i = 0; i < run->body_count; i++)
        run->cost_before[i + 1] = run->cost_before[i] + run->bodies[run->order[i]].cost;
}

static void one_step(struct run *run, size_t thread)
{
    struct cube cube = cube_around_all(run);
    struct share zone = zone_of(run, thread);
    for (size_t i = zone.begin; i < zone.end; i++)
        octree_insert(&run->tree, cube, run->order[i]);
    crew_barrier_wait(&run->barrier);
    if (thread == 0)
        walk_tree(run);
    crew_barrier_wait(&run->barrier);
    zone = zone_of(run, thread);
    attract_bodies(run, zone, cube);
    crew_barrier_wait(&run->barrier);
    if (thread == 0)
        octree_clear(&run->tree);
    move_bodies(run, zone);
    note_bounds(run, thread);
    crew_barrier_wait(&run->barrier);
}

static void all_steps(void *work, size_t thread)
{
    struct run *run = work;
    for (uint64_t step = 0; step < run->steps; step++)
        one_step(run, thread);
}

// Computes the acceleration of the last step over all pairs, at the positions before the move.
static void direct_acceleration(const struct run *run, size_t of, double acceleration[AXES])
{
    const struct body *body = &run->bodies[of];
    for (size_t i = 0; i < run->body_count; i++) {
        const struct body *other = &run->bodies[i];
        double offset[AXES];
        for (int axis = 0; axis < AXES; axis++)
            offset[axis] = (other->position[axis] - step_length * other->velocity[axis]) -
                           (body->position[axis] - step_length * body->velocity[axis]);
        double pull = octree_pull(offset) / (double)run->body_count;
        for (int axis = 0; axis < AXES; axis++)
            acceleration[axis] += pull * offset[axis];
    }
}

static void check_accelerations(const struct run *run)
{
    enum { SAMPLES = 64 };
    double error = 0, norm = 0;
    for (size_t sample = 0; sample < SAMPLES; sample++) {
        size_t i = sample * run->body_count / SAMPLES;
        double direct[AXES] = {0};
        direct_acceleration(run, i, direct);
        for (int axis = 0; axis < AXES; axis++) {
            double difference = run->bodies[i].acceleration[axis] - direct[axis];
            error += difference * difference;
            norm += direct[axis] * direct[axis];
        }
    }
    if (!(sqrt(error / norm) < 0.03))
        check_failed("accelerations by the tree differ from those by all pairs by %.2f %%",
                     100 * sqrt(error / norm));
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 16384, steps = 24;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 2, 1e6, NULL, "N", "number of bodies (16384)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "S", "time steps (24)", NULL},
    };
    const struct program program = {
        .name = "kernel-barnes",
        .summary = "Bodies attract each other, by an octree. Per step: all threads build the tree (a\n"
                   "lock per cell), one sums it up and deals out the bodies by their cost of the last\n"
                   "step, all compute forces, all move. A pthread barrier after each, coarse phases.",
        .example = "kernel-barnes --threads 3 --steps 5 --truth -",
        .checked = "All bodies are in the tree; accelerations of 64 bodies against the sum over all\n"
                   "pairs. The checksum is that of all positions and velocities, bit by bit, and is\n"
                   "the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    struct run run = {.threads = kernel.threads, .body_count = size, .steps = steps};
    run.bodies = kernel_array(size, sizeof *run.bodies);
    run.order = kernel_array(size, sizeof *run.order);
    run.cost_before = kernel_array(size + 1, sizeof *run.cost_before);
    run.bounds = kernel_array(run.threads, sizeof *run.bounds);
    place_bodies(&run);
    octree_create(&run.tree, run.bodies, size);
    crew_barrier_create(&run.barrier, run.threads);
    for (size_t i = 0; i < run.threads; i++)
        note_bounds(&run, i);

    crew_run(&kernel, all_steps, &run);
    kernel.phases += crew_barrier_destroy(&run.barrier);
    check_accelerations(&run);
    for (size_t i = 0; i < size; i++)
        kernel.checksum = digest_doubles(digest_doubles(kernel.checksum, run.bodies[i].position, AXES),
                                         run.bodies[i].velocity, AXES);
    octree_destroy(&run.tree);
    free(run.bounds);
    free(run.cost_before);
    free(run.order);
    free(run.bodies);
    return kernel_end(&kernel, &program, "%" PRIu64 " bodies, %" PRIu64 " steps", size, steps);
}
