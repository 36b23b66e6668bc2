// SPDX-License-Identifier: Apache-2.0 OR MIT
// Ranks that compute in step with each other: barriers, sums over all ranks, and exchanges with neighbours. The
// ranks are threads of one process (group_threads.c) or processes over MPI (group_mpi.c).
#ifndef COX_WORKLOADS_BULK_GROUP_H
#define COX_WORKLOADS_BULK_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpus.h"

enum { GROUP_MAX_THREADS = 256, GROUP_NO_CPU = -1 };

// What the options say about the group.
struct group_options {
    uint64_t threads;         // 0: as many as there are CPUs
    bool has_threads;
    unsigned wait;            // enum barrier_wait_mode
    bool has_wait;
    struct cpu_list cpus;     // rank i of this machine is pinned to CPU i modulo their number; empty: not pinned
};

// A rank, in the rank itself. `shared` is private to the implementation.
struct member {
    size_t rank, ranks;
    int cpu;                  // GROUP_NO_CPU if it is not pinned
    struct group *group;
    uint64_t sums;            // number of sums so far
    uint64_t exchanges;       // number of exchanges so far
};

// Directions to neighbours, in pairs of opposites.
enum direction { WEST, EAST, NORTH, SOUTH, DIRECTIONS };

static inline enum direction opposite(enum direction direction)
{
    return (enum direction)(direction ^ 1);
}

// The ranks form a rectangle: `columns` from west to east, `rows` from north to south.
struct layout {
    size_t columns, rows;
    size_t column, row;       // of the rank
    bool has[DIRECTIONS];
    size_t neighbour[DIRECTIONS];
};

// The most square layout with at least as many columns as rows.
struct layout layout_of(size_t rank, size_t ranks);

// Values to send to a neighbour, and room for those of the neighbour. Unused where there is none.
struct border {
    const double *own;
    double *theirs;
    size_t count;
};

typedef void group_body(struct member *me, void *problem);

// Rows for the option table. MPI programs accept and then refuse --threads and --wait.
#define GROUP_OPTIONS(options)                                                                     \
    {"threads", OPTION_COUNT, &(options)->threads, 1, GROUP_MAX_THREADS, NULL, "N",                \
     "ranks, which are threads (one per CPU); not with MPI", &(options)->has_threads},             \
    {"wait", OPTION_CHOICE, &(options)->wait, 0, 0, group_wait_names, "MODE",                      \
     "futex, spin, yield (spin if there are enough CPUs, else futex); not with MPI",               \
     &(options)->has_wait},                                                                        \
    {"cpus", OPTION_CPUS, &(options)->cpus, 0, 0, NULL, "LIST",                                    \
     "rank i is pinned to the i-th CPU of LIST, in turn", NULL}

extern const char *const group_wait_names[];

// "-mpi" or "": what to append to a program's name.
extern const char *const group_suffix;

// Starts the ranks and joins them. Every rank calls `body`; with MPI, once in each process. Call once.
void group_run(const struct group_options *options, group_body *body, void *problem);

void group_barrier(struct member *me);
// The sum of `own` over all ranks, the same bits in all ranks. Threads are added in the order of the ranks; MPI may
// take another order.
double group_sum(struct member *me, double own);
uint64_t group_sum_u64(struct member *me, uint64_t own);
// Exchanges borders with all neighbours.
void group_exchange(struct member *me, const struct layout *layout, const struct border borders[DIRECTIONS]);

// Rank 0 calls `take` with the values of each rank, in the order of the ranks. Every rank has `count` values.
typedef void take_values(void *context, size_t rank, const uint64_t *values, size_t count);
void group_collect(struct member *me, const uint64_t *values, size_t count, take_values *take, void *context);

#endif
