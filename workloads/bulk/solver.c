// SPDX-License-Identifier: Apache-2.0 OR MIT
// A barotropic solver like those of ocean models: conjugate gradients for a 5-point Laplacian. See --help.
//
// Each rank has a rectangle of `columns` x `rows` points, with a frame of neighbours' values around it; values beyond
// the ocean's border are 0. A step has three parts, each of them work and then a meeting:
//
//   p = r + beta p                              exchange of p's borders with the neighbours
//   q = A p, p . q                              sum over all ranks: alpha
//   x = x + alpha p, r = r - alpha q, r . r     sum over all ranks: beta
//
// The right-hand side is A u for a known u. When the residual is small enough, the solution is checked, which is not
// part of the measured time, and the next step begins anew with x = 0.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array.h"
#include "fail.h"
#include "group.h"
#include "numbers.h"
#include "options.h"
#include "series.h"

// Of the residual, relative to the right-hand side.
static const double tolerance = 1e-10;

// What no rank changes.
struct solver {
    const struct program *program;
    struct truth *truth;
    uint64_t columns, rows, steps, warm_up;
    FILE *phases;
};

// Fields of a rank, with frames.
struct fields {
    const struct solver *solver;
    struct member *me;
    struct layout layout;
    double *x, *r, *p, *q, *b, *known;
    double *sent[DIRECTIONS], *received[DIRECTIONS];
    double rho, beta, norm_b, norm_known;    // squared: rho = r . r, and both norms over all ranks
    uint64_t solves;
};

// Divides time into work and meetings.
struct stopwatch {
    uint64_t last_ns, compute_ns, sync_ns;
};

static void lap(struct stopwatch *watch, uint64_t *part_ns)
{
    uint64_t now_ns = monotonic_ns();
    *part_ns += now_ns - watch->last_ns;
    watch->last_ns = now_ns;
}

static size_t stride(const struct solver *solver)
{
    return solver->columns + 2;
}

static double *field(const struct solver *solver)
{
    return zeroed_array(CACHE_LINE, stride(solver) * (solver->rows + 2), sizeof(double));
}

// The known solution at a point of the whole ocean: a number between -1 and 1, and 0 beyond the border.
static double known_at(const struct fields *fields, int64_t row, int64_t column)
{
    const struct layout *layout = &fields->layout;
    row += (int64_t)(layout->row * fields->solver->rows);
    column += (int64_t)(layout->column * fields->solver->columns);
    int64_t all_rows = (int64_t)(layout->rows * fields->solver->rows);
    int64_t all_columns = (int64_t)(layout->columns * fields->solver->columns);
    if (row < 0 || row >= all_rows || column < 0 || column >= all_columns)
        return 0;
    struct random_sequence sequence = random_numbered((uint64_t)(row * all_columns + column));
    return 2 * random_unit(&sequence) - 1;
}

static double apply_at(const double *field, size_t at, size_t stride)
{
    return 4 * field[at] - field[at - 1] - field[at + 1] - field[at - stride] - field[at + stride];
}

// q = A p; returns p . q of this rank.
static double apply(const struct solver *solver, const double *p, double *q)
{
    const size_t width = stride(solver);
    double product = 0;
    for (size_t row = 1; row <= solver->rows; row++)
        for (size_t at = row * width + 1; at <= row * width + solver->columns; at++) {
            q[at] = apply_at(p, at, width);
            product += p[at] * q[at];
        }
    return product;
}

static double squared(const struct solver *solver, const double *values)
{
    double sum = 0;
    for (size_t row = 1; row <= solver->rows; row++)
        for (size_t at = row * stride(solver) + 1; at <= row * stride(solver) + solver->columns; at++)
            sum += values[at] * values[at];
    return sum;
}

// First point of the own or the neighbour's border, and the distance between its points.
static double *border_of(const struct solver *solver, double *values, enum direction direction, bool own, size_t *step)
{
    const size_t width = stride(solver);
    *step = direction == WEST || direction == EAST ? width : 1;
    switch (direction) {
    case WEST: return &values[width + (own ? 1 : 0)];
    case EAST: return &values[width + solver->columns + (own ? 0 : 1)];
    case NORTH: return &values[(own ? 1 : 0) * width + 1];
    default: return &values[(solver->rows + (own ? 0 : 1)) * width + 1];
    }
}

static size_t border_length(const struct solver *solver, enum direction direction)
{
    return direction == WEST || direction == EAST ? solver->rows : solver->columns;
}

static void pack(struct fields *fields, double *values)
{
    for (enum direction to = 0; to < DIRECTIONS; to++) {
        size_t step;
        const double *border = border_of(fields->solver, values, to, true, &step);
        for (size_t i = 0; fields->layout.has[to] && i < border_length(fields->solver, to); i++)
            fields->sent[to][i] = border[i * step];
    }
}

static void exchange(struct fields *fields)
{
    struct border borders[DIRECTIONS];
    for (enum direction to = 0; to < DIRECTIONS; to++)
        borders[to] = (struct border){fields->sent[to], fields->received[to], border_length(fields->solver, to)};
    group_exchange(fields->me, &fields->layout, borders);
}

static void unpack(struct fields *fields, double *values)
{
    for (enum direction to = 0; to < DIRECTIONS; to++) {
        size_t step;
        double *border = border_of(fields->solver, values, to, false, &step);
        for (size_t i = 0; fields->layout.has[to] && i < border_length(fields->solver, to); i++)
            border[i * step] = fields->received[to][i];
    }
}

// x = 0 and r = b.
static void begin_solve(struct fields *fields)
{
    const size_t points = stride(fields->solver) * (fields->solver->rows + 2);
    for (size_t at = 0; at < points; at++) {
        fields->x[at] = 0;
        fields->r[at] = fields->b[at];
    }
    fields->rho = fields->norm_b;
    fields->beta = 0;
}

static void create(struct fields *fields, struct member *me, const struct solver *solver)
{
    *fields = (struct fields){.solver = solver, .me = me, .layout = layout_of(me->rank, me->ranks)};
    double **const all[] = {&fields->x, &fields->r, &fields->p, &fields->q, &fields->b, &fields->known};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        *all[i] = field(solver);
    for (enum direction to = 0; to < DIRECTIONS; to++) {
        fields->sent[to] = zeroed_array(CACHE_LINE, border_length(solver, to), sizeof(double));
        fields->received[to] = zeroed_array(CACHE_LINE, border_length(solver, to), sizeof(double));
    }
    // The frame, too.
    for (size_t row = 0; row < solver->rows + 2; row++)
        for (size_t column = 0; column < stride(solver); column++)
            fields->known[row * stride(solver) + column] = known_at(fields, (int64_t)row - 1, (int64_t)column - 1);
    apply(solver, fields->known, fields->b);
    fields->norm_b = group_sum(me, squared(solver, fields->b));
    fields->norm_known = group_sum(me, squared(solver, fields->known));
    begin_solve(fields);
}

static void destroy(struct fields *fields)
{
    double *const all[] = {fields->x, fields->r, fields->p, fields->q, fields->b, fields->known};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        free(all[i]);
    for (enum direction to = 0; to < DIRECTIONS; to++) {
        free(fields->sent[to]);
        free(fields->received[to]);
    }
}

static void do_step(struct fields *fields, struct stopwatch *watch)
{
    const struct solver *solver = fields->solver;
    const size_t width = stride(solver);
    double *x = fields->x, *r = fields->r, *p = fields->p, *q = fields->q;
    for (size_t row = 1; row <= solver->rows; row++)
        for (size_t at = row * width + 1; at <= row * width + solver->columns; at++)
            p[at] = r[at] + fields->beta * p[at];
    pack(fields, p);
    lap(watch, &watch->compute_ns);
    exchange(fields);
    lap(watch, &watch->sync_ns);

    unpack(fields, p);
    double product = apply(solver, p, q);
    lap(watch, &watch->compute_ns);
    double alpha = fields->rho / group_sum(fields->me, product);
    lap(watch, &watch->sync_ns);

    double own_rho = 0;
    for (size_t row = 1; row <= solver->rows; row++)
        for (size_t at = row * width + 1; at <= row * width + solver->columns; at++) {
            x[at] += alpha * p[at];
            r[at] -= alpha * q[at];
            own_rho += r[at] * r[at];
        }
    lap(watch, &watch->compute_ns);
    double rho = group_sum(fields->me, own_rho);
    fields->beta = rho / fields->rho;
    fields->rho = rho;
    lap(watch, &watch->sync_ns);
}

struct accuracy {
    double residual;    // |b - A x| / |b|
    double error;       // |x - u| / |u|
};

// The smallest eigenvalue of A.
static double smallest_eigenvalue(const struct fields *fields)
{
    double across = sin(M_PI / 2 / (double)(fields->layout.columns * fields->solver->columns + 1));
    double down = sin(M_PI / 2 / (double)(fields->layout.rows * fields->solver->rows + 1));
    return 4 * (across * across + down * down);
}

// Uses q. |x - u| cannot be above |b - A x| divided by the smallest eigenvalue, and never grows in conjugate gradients.
static struct accuracy verify(struct fields *fields)
{
    const struct solver *solver = fields->solver;
    double residual = 0, drift = 0, error = 0;
    pack(fields, fields->x);
    exchange(fields);
    unpack(fields, fields->x);
    apply(solver, fields->x, fields->q);
    for (size_t row = 1; row <= solver->rows; row++)
        for (size_t at = row * stride(solver) + 1; at <= row * stride(solver) + solver->columns; at++) {
            double rest = fields->b[at] - fields->q[at], wrong = fields->x[at] - fields->known[at];
            residual += rest * rest;
            drift += (rest - fields->r[at]) * (rest - fields->r[at]);
            error += wrong * wrong;
        }
    residual = sqrt(group_sum(fields->me, residual));
    drift = sqrt(group_sum(fields->me, drift));
    error = sqrt(group_sum(fields->me, error));
    double norm_b = sqrt(fields->norm_b), norm_known = sqrt(fields->norm_known);
    if (!(drift <= 1e-10 * norm_b))
        check_failed("the residual is not b - A x: they differ by %g of b", drift / norm_b);
    if (!(error <= residual / smallest_eigenvalue(fields) * 1.001 + 1e-9 * norm_known))
        check_failed("the solution is farther from the known one than its residual allows");
    if (!(error < norm_known))
        check_failed("the steps have not come nearer to the known solution");
    return (struct accuracy){residual / norm_b, error / norm_known};
}

// A converged solution is checked, and the next solve begins.
static void run_steps(struct fields *fields, uint64_t steps, struct recording *recording)
{
    struct stopwatch watch = {.last_ns = monotonic_ns()};
    for (uint64_t step = 0; step < steps; step++) {
        watch.compute_ns = watch.sync_ns = 0;
        do_step(fields, &watch);
        if (recording != NULL)
            recording_add(recording, step, watch.compute_ns, watch.sync_ns);
        // All ranks have the same rho. The last solution stays for the report.
        if (fields->rho > tolerance * tolerance * fields->norm_b || step + 1 == steps)
            continue;
        verify(fields);
        fields->solves++;
        begin_solve(fields);
        watch.last_ns = monotonic_ns();
    }
}

static void report(const struct solver *solver, const struct summary *summary, uint64_t solves,
                   struct accuracy accuracy, uint64_t checksum)
{
    printf("%s: %zu ranks with %" PRIu64 " x %" PRIu64 " points, %zu steps, %.2f us each, %" PRIu64
           " solves done, residual %.3g, error %.3g\nchecksum 0x%016" PRIx64 "\n",
           solver->program->name, summary->ranks, solver->columns, solver->rows, summary->steps,
           summary->step_mean_ns / NS_PER_US, solves, accuracy.residual, accuracy.error, checksum);
    summary_print(summary);
    truth_begin(solver->truth, solver->program->name);
    truth_u64(solver->truth, "columns", solver->columns);
    truth_u64(solver->truth, "rows", solver->rows);
    truth_u64(solver->truth, "solves", solves);
    truth_double(solver->truth, "residual", accuracy.residual);
    truth_double(solver->truth, "error", accuracy.error);
    truth_hex(solver->truth, "checksum", checksum);
    summary_truth(summary, solver->truth);
    truth_end(solver->truth);
}

static void rank_body(struct member *me, void *problem)
{
    const struct solver *solver = problem;
    struct fields fields;
    struct recording recording;
    create(&fields, me, solver);
    recording_create(&recording, solver->steps);
    run_steps(&fields, solver->warm_up, NULL);
    fields.solves = 0;
    begin_solve(&fields);
    recording_begin(&recording);
    group_barrier(me);
    run_steps(&fields, solver->steps, &recording);
    recording_end(&recording, me);
    struct accuracy accuracy = verify(&fields);
    uint64_t digest = mix_bits(me->rank + 1);
    for (size_t row = 1; row <= solver->rows; row++)
        digest = digest_doubles(digest, &fields.x[row * stride(solver) + 1], solver->columns);
    uint64_t checksum = group_sum_u64(me, digest);
    struct summary summary;
    if (series_collect(me, &recording, solver->phases, &summary)) {
        report(solver, &summary, fields.solves, accuracy, checksum);
        summary_destroy(&summary);
    }
    recording_destroy(&recording);
    destroy(&fields);
}

int main(int argc, char **argv)
{
    static struct group_options group;
    struct solver solver = {.columns = 256, .rows = 256, .steps = 2000, .warm_up = 100};
    const char *phases = NULL;
    const struct option_spec options[] = {
        GROUP_OPTIONS(&group),
        {"columns", OPTION_COUNT, &solver.columns, 1, 100000, NULL, "N", "points of a rank from west to east (256)",
         NULL},
        {"rows", OPTION_COUNT, &solver.rows, 1, 100000, NULL, "M", "points of a rank from north to south (256)", NULL},
        {"steps", OPTION_COUNT, &solver.steps, 1, SERIES_MAX_STEPS, NULL, "N", "steps (2000)", NULL},
        {"warm-up", OPTION_COUNT, &solver.warm_up, 1, SERIES_MAX_STEPS, NULL, "N",
         "steps before the measured ones (100)", NULL},
        {"phases", OPTION_TEXT, &phases, 0, 0, NULL, "FILE", "writes rank,step,compute_ns,sync_ns of each step", NULL},
    };
    char name[16];
    snprintf(name, sizeof name, "solver%s", group_suffix);
    const struct program program = {
        .name = name,
        .summary =
            "Conjugate gradients for a 5-point Laplacian, as the barotropic solver of an ocean model: in each step\n"
            "the ranks exchange borders with their neighbours and form two sums over all ranks. Each rank has\n"
            "N x M points. When it has converged, it begins anew.",
        .example = "solver --cpus 0-3 --threads 4 --columns 200 --rows 200 --steps 5000 --phases phases.csv --truth -\n"
                   "mpiexec -n 4 solver-mpi --cpus 0-3",
        .checked = "The residual is that of the solution; the distance to the known solution is not above what the\n"
                   "residual allows. The checksum is the same for each run with as many threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    solver.program = &program;
    solver.truth = &truth;
    solver.phases = series_open("phases", phases);
    group_run(&group, rank_body, &solver);
    return program_end();
}
