// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "multigrid.h"

#include <math.h>
#include <stdlib.h>

#include "kernel.h"

enum { SWEEPS_BEFORE = 2, SWEEPS_AFTER = 1, SWEEPS_COARSEST = 4 };

void multigrid_create(struct multigrid *grid, size_t edge)
{
    *grid = (struct multigrid){0};
    for (; edge >= 2; edge /= 2) {
        struct level *level = &grid->levels[grid->level_count++];
        size_t points = (edge + 1) * (edge + 1) * (edge + 1);
        *level = (struct level){.edge = edge,
                                .spacing_squared = 1 / ((double)edge * (double)edge)};
        level->solution = kernel_array(points, sizeof *level->solution);
        level->right = kernel_array(points, sizeof *level->right);
        level->residual = kernel_array(points, sizeof *level->residual);
    }
    grid->plane_sums = kernel_array(grid->levels[0].edge, sizeof *grid->plane_sums);
}

void multigrid_destroy(struct multigrid *grid)
{
    for (unsigned i = 0; i < grid->level_count; i++) {
        free(grid->levels[i].solution);
        free(grid->levels[i].right);
        free(grid->levels[i].residual);
    }
    free(grid->plane_sums);
}

static double neighbour_sum(const struct level *level, size_t point)
{
    size_t pitch = level->edge + 1, plane = pitch * pitch;
    const double *at = &level->solution[point];
    return at[-1] + at[1] + *(at - pitch) + at[pitch] + *(at - plane) + at[plane];
}

// As on a chessboard, points of one colour only have neighbours of the other colour. So the order within a
// colour, and with it the team, does not affect the result.
static void smooth_colour(struct multigrid *grid, struct level *level, size_t colour)
{
    grid->loops++;
#pragma omp parallel for schedule(static)
    for (size_t k = 1; k < level->edge; k++)
        for (size_t j = 1; j < level->edge; j++)
            for (size_t i = 1 + (j + k + colour) % 2; i < level->edge; i += 2) {
                size_t point = point_at(level, i, j, k);
                level->solution[point] = (level->spacing_squared * level->right[point] +
                                          neighbour_sum(level, point)) / 6;
            }
}

static void smooth(struct multigrid *grid, struct level *level, int sweeps)
{
    for (int sweep = 0; sweep < sweeps; sweep++) {
        smooth_colour(grid, level, 0);
        smooth_colour(grid, level, 1);
    }
}

void multigrid_residual(struct multigrid *grid, struct level *level)
{
    grid->loops++;
#pragma omp parallel for schedule(static)
    for (size_t k = 1; k < level->edge; k++)
        for (size_t j = 1; j < level->edge; j++)
            for (size_t i = 1; i < level->edge; i++) {
                size_t point = point_at(level, i, j, k);
                level->residual[point] =
                    level->right[point] -
                    (6 * level->solution[point] - neighbour_sum(level, point)) /
                        level->spacing_squared;
            }
}

// Returns the mean of the 27 points around a fine point, weighted 1/4, 1/2, 1/4 in each direction.
static double weighted_mean(const struct level *fine, size_t i, size_t j, size_t k)
{
    static const double weights[3] = {0.25, 0.5, 0.25};
    double sum = 0;
    for (size_t c = 0; c < 3; c++)
        for (size_t b = 0; b < 3; b++)
            for (size_t a = 0; a < 3; a++)
                sum += weights[a] * weights[b] * weights[c] *
                       fine->residual[point_at(fine, i + a - 1, j + b - 1, k + c - 1)];
    return sum;
}

// The right side of the coarse grid is the residual of the fine one; its initial solution is 0.
static void restrict_residual(struct multigrid *grid, const struct level *fine, struct level *coarse)
{
    grid->loops++;
#pragma omp parallel for schedule(static)
    for (size_t k = 1; k < coarse->edge; k++)
        for (size_t j = 1; j < coarse->edge; j++)
            for (size_t i = 1; i < coarse->edge; i++) {
                size_t point = point_at(coarse, i, j, k);
                coarse->right[point] = weighted_mean(fine, 2 * i, 2 * j, 2 * k);
                coarse->solution[point] = 0;
            }
}

// Returns the mean of the eight coarse points around a fine one; some of them may coincide.
static double interpolated(const struct level *coarse, size_t i, size_t j, size_t k)
{
    double sum = 0;
    for (size_t c = 0; c < 2; c++)
        for (size_t b = 0; b < 2; b++)
            for (size_t a = 0; a < 2; a++)
                sum += coarse->solution[point_at(coarse, (i + a) / 2, (j + b) / 2, (k + c) / 2)];
    return sum / 8;
}

static void add_correction(struct multigrid *grid, const struct level *coarse, struct level *fine)
{
    grid->loops++;
#pragma omp parallel for schedule(static)
    for (size_t k = 1; k < fine->edge; k++)
        for (size_t j = 1; j < fine->edge; j++)
            for (size_t i = 1; i < fine->edge; i++)
                fine->solution[point_at(fine, i, j, k)] += interpolated(coarse, i, j, k);
}

void multigrid_cycle(struct multigrid *grid)
{
    unsigned last = grid->level_count - 1;
    for (unsigned i = 0; i < last; i++) {
        smooth(grid, &grid->levels[i], SWEEPS_BEFORE);
        multigrid_residual(grid, &grid->levels[i]);
        restrict_residual(grid, &grid->levels[i], &grid->levels[i + 1]);
    }
    smooth(grid, &grid->levels[last], SWEEPS_COARSEST);
    for (unsigned i = last; i-- > 0;) {
        add_correction(grid, &grid->levels[i + 1], &grid->levels[i]);
        smooth(grid, &grid->levels[i], SWEEPS_AFTER);
    }
}

void multigrid_clear(struct multigrid *grid)
{
    struct level *finest = &grid->levels[0];
    grid->loops++;
#pragma omp parallel for schedule(static)
    for (size_t k = 1; k < finest->edge; k++)
        for (size_t j = 1; j < finest->edge; j++)
            for (size_t i = 1; i < finest->edge; i++) {
                size_t point = point_at(finest, i, j, k);
                finest->right[point] = 0;
                finest->solution[point] = 0;
            }
}

// Planes are added in order, so the sum does not depend on the team.
double multigrid_norm(struct multigrid *grid, const double *values)
{
    const struct level *finest = &grid->levels[0];
    grid->loops++;
#pragma omp parallel for schedule(static)
    for (size_t k = 1; k < finest->edge; k++) {
        grid->plane_sums[k] = 0;
        for (size_t point = point_at(finest, 0, 0, k); point < point_at(finest, 0, 0, k + 1); point++)
            grid->plane_sums[k] += values[point] * values[point];
    }
    double sum = 0;
    for (size_t k = 1; k < finest->edge; k++)
        sum += grid->plane_sums[k];
    return sqrt(sum);
}
