// SPDX-License-Identifier: Apache-2.0 OR MIT
// Multigrid on a cube: OpenMP loops over grids from fine to coarse and back, so that long and short phases
// alternate. See --help.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "fail.h"
#include "kernel.h"
#include "multigrid.h"
#include "region.h"

enum { CHARGES = 20 };

struct run {
    struct multigrid grid;
    uint64_t steps, cycles;
    double norm;             // residual norm of the last step
    uint64_t checksum;
};

// Places charges at positions that depend on the step, as many positive as negative ones.
static void place_charges(struct run *run, uint64_t step)
{
    struct level *finest = &run->grid.levels[0];
    multigrid_clear(&run->grid);
    struct random_sequence sequence = random_numbered(step);
    for (int charge = 0; charge < CHARGES; charge++) {
        size_t at[3];
        for (int axis = 0; axis < 3; axis++)
            at[axis] = 1 + random_below(&sequence, finest->edge - 1);
        finest->right[point_at(finest, at[0], at[1], at[2])] += charge % 2 == 0 ? 1 : -1;
    }
}

static void all_steps(void *work)
{
    struct run *run = work;
    struct level *finest = &run->grid.levels[0];
    for (uint64_t step = 0; step < run->steps; step++) {
        place_charges(run, step);
        double before = multigrid_norm(&run->grid, finest->right);
        for (uint64_t i = 0; i < run->cycles; i++)
            multigrid_cycle(&run->grid);
        multigrid_residual(&run->grid, finest);
        run->norm = multigrid_norm(&run->grid, finest->residual);
        // Any working cycle reduces the residual by far more than three quarters.
        if (!(run->norm <= before * pow(0.25, (double)run->cycles)))
            check_failed("%" PRIu64 " cycles took the residual from %g to %g", run->cycles, before,
                         run->norm);
        run->checksum = digest_doubles(run->checksum, &run->norm, 1);
    }
}

// Recomputes the residual in one thread and by another formula: the sum of differences to the neighbours.
static void check_residual(const struct run *run)
{
    const struct level *finest = &run->grid.levels[0];
    double sum = 0;
    for (size_t k = 1; k < finest->edge; k++)
        for (size_t j = 1; j < finest->edge; j++)
            for (size_t i = 1; i < finest->edge; i++) {
                double here = finest->solution[point_at(finest, i, j, k)];
                double flux = (here - finest->solution[point_at(finest, i - 1, j, k)]) +
                              (here - finest->solution[point_at(finest, i + 1, j, k)]) +
                              (here - finest->solution[point_at(finest, i, j - 1, k)]) +
                              (here - finest->solution[point_at(finest, i, j + 1, k)]) +
                              (here - finest->solution[point_at(finest, i, j, k - 1)]) +
                              (here - finest->solution[point_at(finest, i, j, k + 1)]);
                double missing = finest->right[point_at(finest, i, j, k)] -
                                 flux / finest->spacing_squared;
                sum += missing * missing;
            }
    if (!(fabs(sqrt(sum) - run->norm) <= 1e-6 * run->norm + 1e-12))
        check_failed("the last residual is %g, not %g", sqrt(sum), run->norm);
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 64, steps = 75, cycles = 4;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 4, 256, NULL, "N",
         "intervals along an edge of the cube, a power of two (64)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "S", "equations solved (75)", NULL},
        {"cycles", OPTION_COUNT, &cycles, 1, 12, NULL, "C", "V-cycles for each equation (4)", NULL},
    };
    const struct program program = {
        .name = "kernel-mg",
        .summary = "Poisson's equation on a cube by multigrid V-cycles: OpenMP loops over the planes\n"
                   "of grids that get coarser by two and finer again, so that the phases between the\n"
                   "implicit barriers go from long to very short and back. How the others wait is\n"
                   "left to OMP_WAIT_POLICY.",
        .example = "OMP_WAIT_POLICY=passive kernel-mg --threads 3 --truth -",
        .checked = "Each cycle takes away three quarters of the residual or more; the last residual\n"
                   "against one computed otherwise in one thread. The checksum, of all residuals and\n"
                   "the last solution, bit by bit, is the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    if ((size & (size - 1)) != 0)
        bad_input("--size must be a power of two, not %" PRIu64, size);
    region_prepare(&kernel);
    struct run run = {.steps = steps, .cycles = cycles};
    multigrid_create(&run.grid, size);

    region_run(&kernel, all_steps, &run);
    kernel.phases = run.grid.loops;
    check_residual(&run);
    kernel.checksum = digest_doubles(run.checksum, run.grid.levels[0].solution,
                                     (size + 1) * (size + 1) * (size + 1));
    multigrid_destroy(&run.grid);
    return kernel_end(&kernel, &program, "%" PRIu64 "^3 intervals, %" PRIu64 " steps", size, steps);
}
