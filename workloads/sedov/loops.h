// SPDX-License-Identifier: Apache-2.0 OR MIT
// The OpenMP loops of a time step, and when each thread finishes its share of each loop.
//
// Every loop is an `omp for` with `nowait` in a parallel region of its own. The finish time of a thread goes from the
// start of the region, which is the same moment for the whole team, until the thread has no iteration left. It
// contains how long the thread took to arrive, and not its wait for the others. Without --truth no clock is read.
//
//     LOOP_BEGIN(loops, LOOP_DENSITY);
//     #pragma omp parallel
//     {
//     #pragma omp for schedule(static) nowait
//         for (...) ...
//         loop_thread_finished(loops);
//     }
//     loop_end(loops);
#ifndef COX_WORKLOADS_SEDOV_LOOPS_H
#define COX_WORKLOADS_SEDOV_LOOPS_H

#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array.h"
#include "clocks.h"
#include "truth.h"

// In the order of a time step.
enum loop {
    LOOP_SMOOTHING_LENGTH,
    LOOP_POSITIONS,
    LOOP_CLEAR_CELLS,
    LOOP_ASSIGN_CELLS,
    LOOP_FILL_CELLS,
    LOOP_SORT_CELLS,
    LOOP_RANGE_OF_CELLS,
    LOOP_FIND_NEIGHBOURS,
    LOOP_COUNT_NEIGHBOURS,
    LOOP_DENSITY,
    LOOP_EQUATION_OF_STATE,
    LOOP_GRADIENT_TERMS,
    LOOP_MOMENTUM_AND_ENERGY,
    LOOP_VELOCITIES,
    LOOP_TIME_STEP,
    LOOP_TOTALS,
    LOOP_COUNT
};

// When a thread finished the present loop, on a cache line of its own.
struct loop_finish {
    _Alignas(CACHE_LINE) uint64_t monotonic_ns;
};

// Sums over the instances of one loop so far.
struct loop_record {
    const char *function;    // where the loop is
    int line;
    uint64_t instances;
    uint64_t region_ns;      // from the start to the end of the parallel region
    uint64_t last_ns;        // finish time of the last thread
    uint64_t *thread_ns;     // finish time, by thread
};

struct loops {
    size_t threads;
    bool timed;
    enum loop present;              // the loop between LOOP_BEGIN and loop_end
    uint64_t begin_ns;              // when it began
    struct loop_finish *finishes;   // by thread
    struct loop_record records[LOOP_COUNT];
};

void loops_create(struct loops *loops, size_t threads, bool timed);
void loops_destroy(struct loops *loops);

// Writes the JSON member "loops".
void loops_truth(struct truth *truth, const struct loops *loops);

// The main thread calls these two before and after the parallel region. The macro stands directly before
// `#pragma omp parallel`; the line that it records is that of `#pragma omp for`, two lines further down.
void loop_begin(struct loops *loops, enum loop loop, const char *function, int line);
#define LOOP_BEGIN(loops, loop) loop_begin((loops), (loop), __func__, __LINE__ + 3)
void loop_end(struct loops *loops);

// Each thread calls this when it has no iteration left.
static inline void loop_thread_finished(struct loops *loops)
{
    if (loops->timed)
        loops->finishes[omp_get_thread_num()].monotonic_ns = monotonic_ns();
}

#endif
