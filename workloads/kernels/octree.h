// SPDX-License-Identifier: Apache-2.0 OR MIT
// An octree over bodies that many threads fill at once. Where a body ends up depends on its position
// only, so that the tree, and everything computed by walking it in the order of the children, is the
// same whatever the threads did.
#ifndef COX_WORKLOADS_OCTREE_H
#define COX_WORKLOADS_OCTREE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { AXES = 3, OCTANTS = 8, OCTREE_LOCKS = 256, OCTREE_ROOT = 1 };

struct body {
    double position[AXES], velocity[AXES], acceleration[AXES];
    uint64_t cost;    // interactions of the last force computation
};

// A child is 0 (nothing), a cell (its index) or a body (−1 − its index).
struct cell {
    _Atomic int32_t child[OCTANTS];
    double mass;
    double centre[AXES];    // of mass
};

// A cube, by its middle.
struct cube {
    double middle[AXES];
    double half;
};

struct octree {
    struct body *bodies;
    size_t body_count;
    struct cell *cells;
    size_t cell_limit;
    _Atomic uint32_t cells_used;
    pthread_mutex_t locks[OCTREE_LOCKS];    // cell i has lock i mod OCTREE_LOCKS
};

void octree_create(struct octree *tree, struct body *bodies, size_t body_count);
void octree_destroy(struct octree *tree);

// Leaves the root, empty.
void octree_clear(struct octree *tree);

// Hangs a body below the root, which is `cube`. Any number of threads at once.
void octree_insert(struct octree *tree, struct cube cube, uint32_t body);

// Mass and centre of mass of every cell; each body has mass 1/body_count. Writes all bodies into
// `order` as a walk of the tree meets them. One thread, when all others are done inserting.
void octree_summarise(struct octree *tree, uint32_t *order);

// Adds up what the bodies do to the body: cells that look smaller than `openness` (edge ÷ distance)
// count as one point. Sets acceleration and cost.
void octree_attract(struct octree *tree, struct cube cube, double openness, uint32_t body);

// Acceleration by a unit mass at distance vector `offset`, softened.
double octree_pull(const double offset[AXES]);

#endif
