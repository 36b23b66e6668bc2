// SPDX-License-Identifier: Apache-2.0 OR MIT
// Conjugate gradients on a sparse matrix: very many short OpenMP loops and reductions. See --help.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "fail.h"
#include "kernel.h"
#include "region.h"

enum {
    BLOCK_ROWS = 128,        // rows whose partial sum is one number
    DIAGONALS = 6,           // pairs of off-diagonal values per row
    ROW_VALUES = 2 * DIAGONALS + 1,
    ITERATIONS = 25,         // per solve
    LOOPS_OF_ITERATION = 3,
    LOOPS_OF_SOLVE = 2,
};

struct run {
    size_t rows, blocks;
    uint64_t steps;
    uint32_t *columns;       // ROW_VALUES per row
    double *values;
    double *right, *solution, *residual, *direction, *product;
    // Partial sums of the blocks. All threads read them after the barrier of the loop that wrote them, and
    // they are written again only after a later barrier.
    double *direction_product, *residual_squared, *solution_squared;
    uint64_t checksum;       // of all residuals
};

// The matrix is symmetric, because both rows of a pair use the same value, and positive definite, because the
// diagonal exceeds the sum of the other values in its row.
static void make_matrix(struct run *run)
{
    struct random_sequence sequence = random_numbered(0);
    size_t distances[DIAGONALS];
    for (size_t k = 0; k < DIAGONALS; k++)
        distances[k] = 1 + random_below(&sequence, run->rows / 2 - 1);
    for (size_t row = 0; row < run->rows; row++) {
        uint32_t *columns = &run->columns[row * ROW_VALUES];
        double *values = &run->values[row * ROW_VALUES], sum = 0;
        for (size_t k = 0; k < DIAGONALS; k++) {
            size_t ends[2] = {row, (row + run->rows - distances[k]) % run->rows};
            columns[2 * k] = (uint32_t)((row + distances[k]) % run->rows);
            columns[2 * k + 1] = (uint32_t)ends[1];
            for (size_t end = 0; end < 2; end++) {
                struct random_sequence pair = random_numbered(1 + ends[end] * DIAGONALS + k);
                values[2 * k + end] = -random_unit(&pair);
                sum -= values[2 * k + end];
            }
        }
        columns[ROW_VALUES - 1] = (uint32_t)row;
        values[ROW_VALUES - 1] = sum + 1;
        run->right[row] = 1;
    }
}

static double row_product(const struct run *run, size_t row, const double *vector)
{
    double sum = 0;
    for (size_t i = row * ROW_VALUES; i < (row + 1) * ROW_VALUES; i++)
        sum += run->values[i] * vector[run->columns[i]];
    return sum;
}

static struct share rows_of(const struct run *run, size_t block)
{
    size_t end = (block + 1) * BLOCK_ROWS;
    return (struct share){block * BLOCK_ROWS, end < run->rows ? end : run->rows};
}

// Every thread adds the same numbers in the same order, so the result does not depend on the team.
static double sum_of_blocks(const struct run *run, const double *partial)
{
    double sum = 0;
    for (size_t block = 0; block < run->blocks; block++)
        sum += partial[block];
    return sum;
}

// The loops below are orphaned worksharing loops: they divide the blocks among the calling team, and end
// with its implicit barrier.
static void start_solve(struct run *run)
{
#pragma omp for schedule(static)
    for (size_t block = 0; block < run->blocks; block++) {
        struct share rows = rows_of(run, block);
        double squared = 0;
        for (size_t row = rows.begin; row < rows.end; row++) {
            run->solution[row] = 0;
            run->residual[row] = run->direction[row] = run->right[row];
            squared += run->right[row] * run->right[row];
        }
        run->residual_squared[block] = squared;
    }
}

static void multiply(struct run *run)
{
#pragma omp for schedule(static)
    for (size_t block = 0; block < run->blocks; block++) {
        struct share rows = rows_of(run, block);
        double partial = 0;
        for (size_t row = rows.begin; row < rows.end; row++) {
            run->product[row] = row_product(run, row, run->direction);
            partial += run->direction[row] * run->product[row];
        }
        run->direction_product[block] = partial;
    }
}

static void advance(struct run *run, double length)
{
#pragma omp for schedule(static)
    for (size_t block = 0; block < run->blocks; block++) {
        struct share rows = rows_of(run, block);
        double squared = 0, solution_squared = 0;
        for (size_t row = rows.begin; row < rows.end; row++) {
            run->solution[row] += length * run->direction[row];
            run->residual[row] -= length * run->product[row];
            squared += run->residual[row] * run->residual[row];
            solution_squared += run->solution[row] * run->solution[row];
        }
        run->residual_squared[block] = squared;
        run->solution_squared[block] = solution_squared;
    }
}

static void turn(struct run *run, double factor)
{
#pragma omp for schedule(static)
    for (size_t block = 0; block < run->blocks; block++) {
        struct share rows = rows_of(run, block);
        for (size_t row = rows.begin; row < rows.end; row++)
            run->direction[row] = run->residual[row] + factor * run->direction[row];
    }
}

// The next right side is the normalised solution plus a small constant, so that no solve starts with its own
// solution.
static void next_right_side(struct run *run)
{
    double scale = 1 / sqrt(sum_of_blocks(run, run->solution_squared));
    double constant = 0.5 / sqrt((double)run->rows);
#pragma omp for schedule(static)
    for (size_t row = 0; row < run->rows; row++)
        run->right[row] = scale * run->solution[row] + (row % 3 == 0 ? constant : 0);
}

static void solve(struct run *run)
{
    start_solve(run);
    double squared = sum_of_blocks(run, run->residual_squared);
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        multiply(run);
        advance(run, squared / sum_of_blocks(run, run->direction_product));
        double before = squared;
        squared = sum_of_blocks(run, run->residual_squared);
        turn(run, squared / before);
    }
#pragma omp master
    run->checksum = digest_doubles(run->checksum, &squared, 1);
}

static void all_solves(void *work)
{
    struct run *run = work;
    for (uint64_t step = 0; step < run->steps; step++) {
#pragma omp parallel
        {
            // The right side of the last solve is kept for the check.
            if (step > 0)
                next_right_side(run);
            solve(run);
        }
    }
}

static void check_solution(const struct run *run)
{
    double error = 0, norm = 0;
    for (size_t row = 0; row < run->rows; row++) {
        double difference = run->right[row] - row_product(run, row, run->solution);
        error += difference * difference;
        norm += run->right[row] * run->right[row];
    }
    if (!(sqrt(error / norm) < 1e-6))
        check_failed("matrix times solution misses the right side by a relative %.1e",
                     sqrt(error / norm));
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 14000, steps = 300;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 32, 4e6, NULL, "N", "rows of the matrix (14000)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "S",
         "solves of 25 iterations each; each right side is the solution before (300)", NULL},
    };
    const struct program program = {
        .name = "kernel-cg",
        .summary = "Conjugate gradients on a sparse, symmetric, positive definite matrix: three\n"
                   "short OpenMP loops per iteration, each with its implicit barrier, two of them a\n"
                   "sum over all rows. How the others wait is left to OMP_WAIT_POLICY.",
        .example = "OMP_WAIT_POLICY=passive kernel-cg --threads 3 --truth -",
        .checked = "Matrix times last solution against the right side. Sums are taken block by block,\n"
                   "in an order that does not depend on the team: the checksum, of all residuals and\n"
                   "the last solution, bit by bit, is the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    region_prepare(&kernel);
    struct run run = {.rows = size, .blocks = (size + BLOCK_ROWS - 1) / BLOCK_ROWS, .steps = steps};
    run.columns = kernel_array(size * ROW_VALUES, sizeof *run.columns);
    run.values = kernel_array(size * ROW_VALUES, sizeof *run.values);
    double **const vectors[] = {&run.right, &run.solution, &run.residual, &run.direction,
                                &run.product};
    for (size_t i = 0; i < COUNT_OF(vectors); i++)
        *vectors[i] = kernel_array(size, sizeof **vectors[i]);
    double **const partials[] = {&run.direction_product, &run.residual_squared,
                                 &run.solution_squared};
    for (size_t i = 0; i < COUNT_OF(partials); i++)
        *partials[i] = kernel_array(run.blocks, sizeof **partials[i]);
    make_matrix(&run);

    region_run(&kernel, all_solves, &run);
    kernel.phases = steps * (LOOPS_OF_SOLVE + ITERATIONS * LOOPS_OF_ITERATION + 1) - 1;
    check_solution(&run);
    kernel.checksum = digest_doubles(run.checksum, run.solution, size);
    for (size_t i = 0; i < COUNT_OF(vectors); i++)
        free(*vectors[i]);
    for (size_t i = 0; i < COUNT_OF(partials); i++)
        free(*partials[i]);
    free(run.values);
    free(run.columns);
    return kernel_end(&kernel, &program, "%" PRIu64 " rows, %" PRIu64 " solves", size, steps);
}
