// SPDX-License-Identifier: Apache-2.0 OR MIT
// A field that evolves in Fourier space and is transformed back in every step: few, long OpenMP loops.
// See --help.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "fail.h"
#include "kernel.h"
#include "region.h"
#include "transform.h"

enum { LOOPS_OF_STEP = 4 };

struct run {
    struct plan plan;
    uint64_t steps;
    struct complex_number *phases;      // factors by which a step rotates the frequencies of an axis
    struct complex_number *spectrum;    // evolves from step to step; stored transposed
    struct complex_number *scratch;
    struct complex_number *field;       // field of the last step
};

// Rotates every frequency, and copies it for the transform, which works in place.
static void evolve(struct run *run)
{
    const size_t size = run->plan.size;
    const double scale = 1 / ((double)size * (double)size);
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < size; row++) {
        for (size_t column = 0; column < size; column++) {
            struct complex_number *value = &run->spectrum[row * size + column];
            *value = multiply(*value, multiply(run->phases[row], run->phases[column]));
            run->scratch[row * size + column] =
                (struct complex_number){scale * value->re, scale * value->im};
        }
    }
}

static void all_steps(void *work)
{
    struct run *run = work;
    for (uint64_t step = 0; step < run->steps; step++) {
        evolve(run);
        transform_square(&run->plan, run->scratch, run->field, INVERSE);
    }
}

static struct complex_number first_value(size_t index)
{
    struct random_sequence sequence = random_numbered(index);
    double re = random_unit(&sequence);
    return (struct complex_number){re - 0.5, random_unit(&sequence) - 0.5};
}

// Returns the frequency of an index on one axis: the upper indices are the negative frequencies.
static double frequency_at(size_t index, size_t size)
{
    return index <= size / 2 ? (double)index : (double)index - (double)size;
}

static double phase_angle(const struct run *run, size_t index)
{
    double frequency = frequency_at(index, run->plan.size);
    return -0.37 * frequency * frequency / (double)run->plan.size;
}

static void prepare(struct run *run)
{
    const size_t size = run->plan.size;
    for (size_t i = 0; i < size; i++)
        run->phases[i] = unit_at(phase_angle(run, i));
    for (size_t i = 0; i < size * size; i++)
        run->scratch[i] = first_value(i);
    transform_square(&run->plan, run->scratch, run->spectrum, FORWARD);
}

static struct complex_number root_of(const struct plan *plan, size_t turns)
{
    return unit_at(-2 * M_PI * (double)(turns % plan->size) / (double)plan->size);
}

// Compares a forward transform of one row with the sum that defines it.
static void check_row(const struct plan *plan)
{
    struct complex_number *row = kernel_array(plan->size, sizeof *row);
    for (size_t i = 0; i < plan->size; i++)
        row[i] = first_value(i);
    transform_row(plan, row, FORWARD);
    double error = 0;
    for (size_t k = 0; k < plan->size; k++) {
        struct complex_number sum = {0, 0};
        for (size_t i = 0; i < plan->size; i++) {
            struct complex_number part = multiply(root_of(plan, i * k), first_value(i));
            sum = (struct complex_number){sum.re + part.re, sum.im + part.im};
        }
        error = fmax(error, hypot(sum.re - row[k].re, sum.im - row[k].im));
    }
    free(row);
    if (!(error < 1e-9))
        check_failed("a transformed row is off by %.1e", error);
}

// Compares one value of the last field with the sum over all frequencies.
static void check_value(const struct run *run, size_t x, size_t y)
{
    const size_t size = run->plan.size;
    const double scale = 1 / ((double)size * (double)size);
    struct complex_number sum = {0, 0}, found = run->field[y * size + x];
    for (size_t row = 0; row < size; row++) {
        struct complex_number row_sum = {0, 0};
        for (size_t column = 0; column < size; column++) {
            struct complex_number root = root_of(&run->plan, size - column * y % size);
            struct complex_number part = multiply(root, run->spectrum[row * size + column]);
            row_sum = (struct complex_number){row_sum.re + part.re, row_sum.im + part.im};
        }
        struct complex_number part = multiply(root_of(&run->plan, size - row * x % size), row_sum);
        sum = (struct complex_number){sum.re + part.re, sum.im + part.im};
    }
    double error = hypot(scale * sum.re - found.re, scale * sum.im - found.im);
    if (!(error < 1e-9))
        check_failed("the last field is off by %.1e at %zu,%zu", error, x, y);
}

// Transforms the last field forward, rotates every frequency back by all steps at once, and transforms the
// result back: it must be the first field.
static void check_by_inverse(struct run *run)
{
    const size_t size = run->plan.size;
    transform_square(&run->plan, run->field, run->scratch, FORWARD);
    for (size_t row = 0; row < size; row++) {
        for (size_t column = 0; column < size; column++) {
            double angle = phase_angle(run, row) + phase_angle(run, column);
            struct complex_number back = unit_at(-angle * (double)run->steps);
            struct complex_number *value = &run->scratch[row * size + column];
            *value = multiply(*value, back);
        }
    }
    transform_square(&run->plan, run->scratch, run->field, INVERSE);
    double error = 0, scale = 1 / ((double)size * (double)size);
    for (size_t i = 0; i < size * size; i++) {
        struct complex_number first = first_value(i);
        error = fmax(error, hypot(scale * run->field[i].re - first.re,
                                  scale * run->field[i].im - first.im));
    }
    if (!(error < 1e-8))
        check_failed("the inverse transform differs from the first field by %.1e", error);
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 1024, steps = 40;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 2, 4096, NULL, "N",
         "N x N complex values, N a power of two (1024)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "S", "time steps (40)", NULL},
    };
    const struct program program = {
        .name = "kernel-fft",
        .summary = "A field on a square evolves in Fourier space and is transformed back every step:\n"
                   "four coarse OpenMP loops (turn the frequencies, transform rows, transpose,\n"
                   "transform rows). How the others wait is left to OMP_WAIT_POLICY.",
        .example = "OMP_WAIT_POLICY=passive kernel-fft --threads 3 --truth -",
        .checked = "One row and one value of the last field against the sums that define them; the\n"
                   "last field, transformed forward, turned back by all steps and transformed back,\n"
                   "is the first one. The checksum, of the last field bit by bit, is the same for any\n"
                   "number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    if ((size & (size - 1)) != 0)
        bad_input("--size must be a power of two, not %" PRIu64, size);
    region_prepare(&kernel);
    struct run run = {.steps = steps};
    plan_create(&run.plan, size);
    run.phases = kernel_array(size, sizeof *run.phases);
    struct complex_number **const fields[] = {&run.spectrum, &run.scratch, &run.field};
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        *fields[i] = kernel_array(size * size, sizeof **fields[i]);
    prepare(&run);

    region_run(&kernel, all_steps, &run);
    kernel.phases = steps * LOOPS_OF_STEP;
    kernel.checksum = digest_doubles(0, &run.field[0].re, 2 * size * size);
    check_row(&run.plan);
    check_value(&run, 1, size / 2 - 1);
    check_by_inverse(&run);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        free(*fields[i]);
    free(run.phases);
    plan_destroy(&run.plan);
    return kernel_end(&kernel, &program, "%" PRIu64 "x%" PRIu64 " values, %" PRIu64 " steps", size,
                      size, steps);
}
