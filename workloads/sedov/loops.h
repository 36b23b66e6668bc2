// SPDX-License-Identifier: Apache-2.0 OR MIT
// The OpenMP loops of a time step, and how long each thread spends in each of them.
//
// Every loop is a parallel region around an `omp for` with `nowait`: a thread reads the clock before and after its
// iterations, so the wait for the others is not part of its time. Without --truth no clock is read.
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

// The times of one thread in the present step, on cache lines of its own.
struct loop_clock {
    _Alignas(CACHE_LINE) uint64_t begin_ns;
    uint64_t step_ns[LOOP_COUNT];
};

// One loop over all steps so far.
struct loop_record {
    const char *function;    // where the loop is
    int line;
    uint64_t slowest_ns;     // sum over the steps of the time of the slowest thread
    uint64_t all_ns;         // sum over the steps and threads
    uint64_t *thread_ns;     // sum over the steps, by thread
};

struct loops {
    size_t threads;
    uint64_t steps;
    bool timed;
    struct loop_clock *clocks;    // by thread
    struct loop_record records[LOOP_COUNT];
};

void loops_create(struct loops *loops, size_t threads, bool timed);
void loops_destroy(struct loops *loops);

// Adds the times of the step that has just ended to the records. Call outside parallel regions.
void loops_end_step(struct loops *loops);

// Writes the JSON member "loops".
void loops_truth(struct truth *truth, const struct loops *loops);

static inline void loop_enter(struct loops *loops, enum loop loop, const char *function, int line)
{
    if (!loops->timed)
        return;
    int thread = omp_get_thread_num();
    if (thread == 0) {
        loops->records[loop].function = function;
        loops->records[loop].line = line;
    }
    loops->clocks[thread].begin_ns = monotonic_ns();
}

// Stands directly before `#pragma omp for`.
#define LOOP_ENTER(loops, loop) loop_enter((loops), (loop), __func__, __LINE__ + 1)

static inline void loop_leave(struct loops *loops, enum loop loop)
{
    if (!loops->timed)
        return;
    struct loop_clock *clock = &loops->clocks[omp_get_thread_num()];
    clock->step_ns[loop] += monotonic_ns() - clock->begin_ns;
}

#endif
