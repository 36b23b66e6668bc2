// SPDX-License-Identifier: Apache-2.0 OR MIT
// An octree over bodies, filled by many threads at once. The place of a body depends only on its position,
// so the tree, and everything computed by walking it in the order of the children, is the same for any
// number of threads.
#ifndef COX_WORKLOADS_OCTREE_H
#define COX_WORKLOADS_OCTREE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { AXES = 3, OCTANTS = 8, OCTREE_LOCKS = 256, OCTREE_ROOT = 1 };

struct body {
    double position[AXES], velocity[AXES], acceleration[AXES];
    uint64_t cost;    // number of interactions in the last force computation
};

// A child is 0 (empty), a cell (its index) or a body (−1 − its index).
struct cell {
    _Atomic int32_t child[OCTANTS];
    double mass;
    double centre[AXES];    // centre of mass
};

// A cube, given by its centre and half its edge.
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

// Removes everything except the root, which is then empty.
void octree_clear(struct octree *tree);

// Inserts a body. `cube` is the cube of the root. Any number of threads may call this at the same time.
void octree_insert(struct octree *tree, struct cube cube, uint32_t body);

// Computes mass and centre of mass of every cell; each body has mass 1/body_count. Writes all bodies into
// `order` in the order of the tree walk. Call it in one thread, when all others have finished inserting.
void octree_summarise(struct octree *tree, uint32_t *order);

// Sums the attraction of all other bodies on one body: a cell whose edge ÷ distance is below `openness`
// counts as one point. Sets the body's acceleration and cost.
void octree_attract(struct octree *tree, struct cube cube, double openness, uint32_t body);

// Returns the factor that, multiplied by the vector `offset` to a unit mass, gives the softened acceleration.
double octree_pull(const double offset[AXES]);

#endif
