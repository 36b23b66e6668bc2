// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "octree.h"

#include <math.h>
#include <stdlib.h>

#include "crew.h"
#include "fail.h"

// Halving a cube more often than this cannot separate two bodies, given the precision of a double.
enum { DEPTH_LIMIT = 50 };

// Softens the attraction, so that close encounters do not throw bodies out.
static const double softening_squared = 1e-4;

void octree_create(struct octree *tree, struct body *bodies, size_t body_count)
{
    tree->bodies = bodies;
    tree->body_count = body_count;
    tree->cell_limit = 4 * body_count + DEPTH_LIMIT;
    tree->cells = kernel_array(tree->cell_limit, sizeof *tree->cells);
    for (size_t i = 0; i < OCTREE_LOCKS; i++)
        crew_lock_create(&tree->locks[i]);
    octree_clear(tree);
}

void octree_destroy(struct octree *tree)
{
    for (size_t i = 0; i < OCTREE_LOCKS; i++)
        pthread_mutex_destroy(&tree->locks[i]);
    free(tree->cells);
}

static void empty_cell(struct cell *cell)
{
    for (int octant = 0; octant < OCTANTS; octant++)
        atomic_store_explicit(&cell->child[octant], 0, memory_order_relaxed);
}

void octree_clear(struct octree *tree)
{
    atomic_store(&tree->cells_used, OCTREE_ROOT + 1);
    empty_cell(&tree->cells[OCTREE_ROOT]);
}

static int octant_of(const double middle[AXES], const double position[AXES])
{
    int octant = 0;
    for (int axis = 0; axis < AXES; axis++)
        octant |= (position[axis] >= middle[axis]) << axis;
    return octant;
}

static void enter_octant(struct cube *cube, int octant)
{
    cube->half /= 2;
    for (int axis = 0; axis < AXES; axis++)
        cube->middle[axis] += octant >> axis & 1 ? cube->half : -cube->half;
}

// Makes a cell with one body in it. No other thread knows the cell yet.
static int32_t new_cell(struct octree *tree, struct cube cube, int32_t body_child)
{
    uint32_t index = atomic_fetch_add(&tree->cells_used, 1);
    if (index >= tree->cell_limit)
        check_failed("the tree needs more than %zu cells", tree->cell_limit);
    struct cell *cell = &tree->cells[index];
    empty_cell(cell);
    const double *position = tree->bodies[-1 - body_child].position;
    atomic_store_explicit(&cell->child[octant_of(cube.middle, position)], body_child,
                          memory_order_relaxed);
    return (int32_t)index;
}

// If the place still has the content `seen`, puts the body into an empty place, or replaces another
// body by a cell. If another thread has changed the place, does nothing. Returns the content of the
// place.
static int32_t change_child(struct octree *tree, int32_t cell, int octant, struct cube octant_cube,
                            int32_t seen, int32_t body_child)
{
    _Atomic int32_t *place = &tree->cells[cell].child[octant];
    pthread_mutex_t *lock = &tree->locks[cell % OCTREE_LOCKS];
    crew_lock(lock);
    int32_t now = atomic_load_explicit(place, memory_order_relaxed);
    if (now == seen) {
        now = seen == 0 ? body_child : new_cell(tree, octant_cube, seen);
        // Release: a thread that sees the cell without the lock also sees its content.
        atomic_store_explicit(place, now, memory_order_release);
    }
    crew_unlock(lock);
    return now;
}

void octree_insert(struct octree *tree, struct cube cube, uint32_t body)
{
    int32_t cell = OCTREE_ROOT, body_child = -1 - (int32_t)body;
    for (int depth = 0; depth < DEPTH_LIMIT; depth++) {
        int octant = octant_of(cube.middle, tree->bodies[body].position);
        enter_octant(&cube, octant);
        int32_t child = atomic_load_explicit(&tree->cells[cell].child[octant], memory_order_acquire);
        // At most three iterations: an empty place becomes a body, a body becomes a cell, and a cell stays.
        while (child <= 0) {
            child = change_child(tree, cell, octant, cube, child, body_child);
            if (child == body_child)
                return;
        }
        cell = child;
    }
    check_failed("two bodies are at the same place");
}

struct walk {
    struct octree *tree;
    uint32_t *order;
    size_t met;
};

static void summarise_cell(struct walk *walk, int32_t index)
{
    struct cell *cell = &walk->tree->cells[index];
    double body_mass = 1 / (double)walk->tree->body_count, mass = 0, moment[AXES] = {0};
    for (int octant = 0; octant < OCTANTS; octant++) {
        int32_t child = atomic_load_explicit(&cell->child[octant], memory_order_relaxed);
        if (child == 0)
            continue;
        double child_mass = body_mass;
        const double *child_centre;
        if (child > 0) {
            summarise_cell(walk, child);
            child_mass = walk->tree->cells[child].mass;
            child_centre = walk->tree->cells[child].centre;
        } else {
            walk->order[walk->met++] = (uint32_t)(-1 - child);
            child_centre = walk->tree->bodies[-1 - child].position;
        }
        mass += child_mass;
        for (int axis = 0; axis < AXES; axis++)
            moment[axis] += child_mass * child_centre[axis];
    }
    cell->mass = mass;
    for (int axis = 0; axis < AXES; axis++)
        cell->centre[axis] = moment[axis] / mass;
}

void octree_summarise(struct octree *tree, uint32_t *order)
{
    struct walk walk = {tree, order, 0};
    summarise_cell(&walk, OCTREE_ROOT);
    if (walk.met != tree->body_count)
        check_failed("%zu of %zu bodies are in the tree", walk.met, tree->body_count);
}

double octree_pull(const double offset[AXES])
{
    double squared = offset[0] * offset[0] + offset[1] * offset[1] + offset[2] * offset[2] +
                     softening_squared;
    return 1 / (squared * sqrt(squared));
}

static void pull_towards(struct body *body, const double point[AXES], double mass)
{
    double offset[AXES];
    for (int axis = 0; axis < AXES; axis++)
        offset[axis] = point[axis] - body->position[axis];
    double pull = mass * octree_pull(offset);
    for (int axis = 0; axis < AXES; axis++)
        body->acceleration[axis] += pull * offset[axis];
    body->cost++;
}

static double squared_distance(const double a[AXES], const double b[AXES])
{
    double sum = 0;
    for (int axis = 0; axis < AXES; axis++)
        sum += (a[axis] - b[axis]) * (a[axis] - b[axis]);
    return sum;
}

// `limit` is the squared distance beyond which a cell of this size counts as one point.
static void attract_by_cell(struct octree *tree, int32_t index, double limit, uint32_t body)
{
    const struct cell *cell = &tree->cells[index];
    for (int octant = 0; octant < OCTANTS; octant++) {
        int32_t child = atomic_load_explicit(&cell->child[octant], memory_order_relaxed);
        if (child == 0 || child == -1 - (int32_t)body)
            continue;
        if (child < 0) {
            pull_towards(&tree->bodies[body], tree->bodies[-1 - child].position,
                         1 / (double)tree->body_count);
            continue;
        }
        const struct cell *below = &tree->cells[child];
        if (squared_distance(below->centre, tree->bodies[body].position) > limit / 4)
            pull_towards(&tree->bodies[body], below->centre, below->mass);
        else
            attract_by_cell(tree, child, limit / 4, body);
    }
}

void octree_attract(struct octree *tree, struct cube cube, double openness, uint32_t body)
{
    struct body *pulled = &tree->bodies[body];
    pulled->cost = 0;
    for (int axis = 0; axis < AXES; axis++)
        pulled->acceleration[axis] = 0;
    double limit = 2 * cube.half / openness;
    attract_by_cell(tree, OCTREE_ROOT, limit * limit, body);
}
