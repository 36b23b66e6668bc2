// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sweeps of successive over-relaxation (SOR), pipelined over the threads by flags on which the program itself
// spins. See --help.
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cells.h"
#include "fail.h"
#include "kernel.h"
#include "region.h"

enum { BARRIERS_OF_STEP = 4 };

// Raised: a plane is finished, and the neighbouring thread has not yet taken it. All flags are down at the
// end of every sweep.
struct flag {
    _Alignas(64) _Atomic int raised;
};

struct run {
    struct cells cells;
    uint64_t steps;
    double *plane_residual;   // squared
    struct flag *flags;       // flag i is between threads i and i + 1
    double first_residual, last_residual;
};

// A separate function, so that samples of the instruction pointer can identify waiting. It deliberately has
// no pause instruction, no yield and no system call.
__attribute__((noinline)) static void spin_until(const struct flag *flag, int raised)
{
    while (atomic_load(&flag->raised) != raised) {
    }
}

static void take_up_plane(struct flag *flag)
{
    spin_until(flag, 1);
    atomic_store(&flag->raised, 0);
}

static void hand_on_plane(struct flag *flag)
{
    spin_until(flag, 0);
    atomic_store(&flag->raised, 1);
}

// In an upward sweep, every cell needs the new values of the cells before it in all three directions.
// Within a plane, the threads work one after the other, from the first rows to the last, while the earlier
// threads already work on the next planes: a thread is at most one plane ahead of the next one.
static void sweep_up(struct run *run, size_t thread, size_t threads, struct share rows)
{
    for (size_t k = 1; k <= run->cells.size; k++) {
        if (thread > 0)
            take_up_plane(&run->flags[thread - 1]);
        for (size_t j = rows.begin + 1; j <= rows.end; j++)
            for (size_t i = 1; i <= run->cells.size; i++)
                cells_relax(&run->cells, i, j, k);
        if (thread + 1 < threads)
            hand_on_plane(&run->flags[thread]);
    }
}

// The same in the opposite direction.
static void sweep_down(struct run *run, size_t thread, size_t threads, struct share rows)
{
    for (size_t k = run->cells.size; k >= 1; k--) {
        if (thread + 1 < threads)
            take_up_plane(&run->flags[thread]);
        for (size_t j = rows.end; j > rows.begin; j--)
            for (size_t i = run->cells.size; i >= 1; i--)
                cells_relax(&run->cells, i, j, k);
        if (thread > 0)
            hand_on_plane(&run->flags[thread - 1]);
    }
}

// An orphaned worksharing loop: divides the planes among the calling team, and ends with its implicit
// barrier.
static void find_residuals(struct run *run)
{
#pragma omp for schedule(static)
    for (size_t k = 1; k <= run->cells.size; k++) {
        double squared = 0;
        for (size_t j = 1; j <= run->cells.size; j++)
            for (size_t i = 1; i <= run->cells.size; i++)
                squared += cells_residual(&run->cells, i, j, k);
        run->plane_residual[k] = squared;
    }
}

// Adds plane by plane in order, so the result does not depend on the team.
static double residual_norm(const struct run *run)
{
    double squared = 0;
    for (size_t k = 1; k <= run->cells.size; k++)
        squared += run->plane_residual[k];
    return sqrt(squared);
}

static void one_step(struct run *run)
{
    size_t thread = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
    struct share rows = share_of(run->cells.size, threads, thread);
    sweep_up(run, thread, threads, rows);
#pragma omp barrier
    sweep_down(run, thread, threads, rows);
#pragma omp barrier
    find_residuals(run);
}

static void all_steps(void *work)
{
    struct run *run = work;
    for (uint64_t step = 0; step < run->steps; step++) {
#pragma omp parallel
        one_step(run);
        run->last_residual = residual_norm(run);
        if (step == 0)
            run->first_residual = run->last_residual;
    }
}

static void run_create(struct run *run, size_t size, uint64_t steps)
{
    *run = (struct run){.steps = steps};
    cells_create(&run->cells, size);
    run->plane_residual = kernel_array(size + 1, sizeof *run->plane_residual);
    run->flags = kernel_array(KERNEL_MAX_THREADS, sizeof *run->flags);
}

static void run_destroy(struct run *run)
{
    cells_destroy(&run->cells);
    free(run->plane_residual);
    free(run->flags);
}

static uint64_t digest_of(const struct run *run)
{
    uint64_t digest = digest_doubles(0, &run->last_residual, 1);
    return digest_doubles(digest, run->cells.values, run->cells.value_count);
}

// Repeats the sweeps in one thread, outside of any team.
static void check_sequentially(const struct run *run)
{
    struct run reference;
    run_create(&reference, run->cells.size, run->steps);
    for (uint64_t step = 0; step < run->steps; step++) {
        sweep_up(&reference, 0, 1, (struct share){0, run->cells.size});
        sweep_down(&reference, 0, 1, (struct share){0, run->cells.size});
    }
    find_residuals(&reference);
    reference.last_residual = residual_norm(&reference);
    if (digest_of(&reference) != digest_of(run))
        check_failed("the result is not that of one thread");
    run_destroy(&reference);
}

int main(int argc, char **argv)
{
    // Below this number of cells times steps, the sequential reference takes a small fraction of a second.
    const uint64_t small_work = 200000;
    struct kernel kernel = {0};
    uint64_t size = 48, steps = 200;
    bool verify = false;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 2, 256, NULL, "N", "N x N x N cells (48)", NULL},
        {"steps", OPTION_COUNT, &steps, 2, 1e6, NULL, "S", "sweeps up and down (200)", NULL},
        {"verify", OPTION_FLAG, &verify, 0, 0, NULL, NULL,
         "compare with a sequential run (always with little work)", NULL},
    };
    const struct program program = {
        .name = "kernel-lu",
        .summary = "Sweeps of successive over-relaxation through a cube, up and down. Each cell needs\n"
                   "those before it, so the threads follow each other plane by plane, at most one\n"
                   "plane apart; they wait for the neighbour's flag in an empty loop of the program\n"
                   "(no pause, no yield, no system call). A few OpenMP barriers per step.",
        .example = "kernel-lu --threads 2 --steps 20 --verify --truth -",
        .checked = "The residual is lower after the last step than after the first; with --verify the\n"
                   "result against that of one thread. The checksum, of the last residual and all\n"
                   "values, bit by bit, is the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    region_prepare(&kernel);
    struct run run;
    run_create(&run, size, steps);

    region_run(&kernel, all_steps, &run);
    kernel.phases = steps * (2 * size + BARRIERS_OF_STEP);
    if (!(run.last_residual < run.first_residual))
        check_failed("the residual went from %g to %g", run.first_residual, run.last_residual);
    if (verify || size * size * size * steps <= small_work)
        check_sequentially(&run);
    kernel.checksum = digest_of(&run);
    run_destroy(&run);
    return kernel_end(&kernel, &program, "%" PRIu64 "^3 cells, %" PRIu64 " steps", size, steps);
}
