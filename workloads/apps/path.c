// SPDX-License-Identifier: Apache-2.0 OR MIT
// A critical path: a simulation whose steps depend on each other, and analyses of its states, some of which
// are written to a file by tasks that block. See --help.
//
// A state is stored in one of `--states` places, and the next state is computed from it: a chain of tasks
// with a priority. Only the step that reuses a state's place waits for the analyses of that state. On two
// CPUs the chain takes nearly as long as all the work, so a delayed step delays the program.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "array.h"
#include "fail.h"
#include "numbers.h"
#include "ring.h"

struct path {
    struct app app;
    struct storage storage;
    uint64_t steps, values;     // values of a state
    uint64_t places, parts;     // analyses of each state
    uint64_t percent;           // work of a step, in percent of its analyses' work
    double *states;
    char *marks;                // of places, for depend clauses
    uint64_t *digests;          // of analyses
};

// The state after `step` steps.
static double *state_after(const struct path *path, uint64_t step)
{
    return &path->states[step % path->places * path->values];
}

static bool is_written(const struct path *path, uint64_t step)
{
    return path->app.every != 0 && step % path->app.every == 0;
}

static size_t slot_of(const struct path *path, uint64_t step, size_t part)
{
    return (step / path->app.every - 1) * path->parts + part;
}

static uint64_t step_work(const struct path *path)
{
    return path->app.work * path->parts * path->percent / 100;
}

// `part` decides which pairs of values are combined.
static uint64_t analyse(const struct path *path, const double *state, size_t part, double *result)
{
    size_t apart = (part + 1) % path->values;
    uint64_t digest = part;
    for (size_t at = 0; at < path->values; at++) {
        double other = state[at >= apart ? at - apart : at + path->values - apart];
        double value = damped(0.5 * (state[at] + other), path->app.work);
        digest = digest_doubles(digest, &value, 1);
        if (result != NULL)
            result[at] = value;
    }
    return digest;
}

static void analyse_state(struct path *path, uint64_t step, size_t part)
{
    double *result = NULL;
    if (is_written(path, step))
        result = storage_buffer(&path->storage, slot_of(path, step, part));
    path->digests[(step - 1) * path->parts + part] =
        analyse(path, state_after(path, step), part, result);
    if (result != NULL)
        storage_note(&path->storage, slot_of(path, step, part));
}

static void create_analyses(struct path *path, uint64_t step, const char *state)
{
    for (size_t part = 0; part < path->parts; part++) {
        if (!is_written(path, step)) {
#pragma omp task depend(in : *state) firstprivate(step, part)
            analyse_state(path, step, part);
            continue;
        }
        size_t slot = slot_of(path, step, part);
        char *buffer = storage_mark(&path->storage, slot);
#pragma omp task depend(in : *state) depend(inout : *buffer) firstprivate(step, part)
        analyse_state(path, step, part);
#pragma omp task depend(inout : *buffer) firstprivate(slot)
        storage_keep(&path->storage, slot);
    }
}

static void create_all(struct path *path)
{
    for (uint64_t step = 1; step <= path->steps; step++) {
        char *before = &path->marks[(step - 1) % path->places], *state = &path->marks[step % path->places];
#pragma omp task depend(in : *before) depend(out : *state) priority(1) firstprivate(step)
        ring_relax(state_after(path, step - 1), state_after(path, step), path->values, 0, path->values,
                   step_work(path));
        create_analyses(path, step, state);
    }
}

static void run(struct path *path)
{
    app_phase_begin(&path->app);
#pragma omp parallel
#pragma omp single
    create_all(path);
    app_phase_end(&path->app);
}

static void verify(struct path *path)
{
    double *old = ring_create(1, path->values), *new = ring_create(1, path->values);
    for (uint64_t step = 1; step <= path->steps; step++) {
        ring_relax(old, new, path->values, 0, path->values, step_work(path));
        for (size_t part = 0; part < path->parts; part++) {
            bool written = is_written(path, step);
            double *result = written ? storage_buffer(&path->storage, slot_of(path, step, part)) : NULL;
            if (analyse(path, new, part, result) != path->digests[(step - 1) * path->parts + part])
                check_failed("analysis %zu of step %" PRIu64 " differs from the result of a loop", part, step);
            if (written)
                storage_expect(&path->storage, slot_of(path, step, part));
        }
        double *next = new;
        new = old;
        old = next;
    }
    if (memcmp(old, state_after(path, path->steps), path->values * sizeof *old) != 0)
        check_failed("the last state differs from the result of a loop without tasks");
    free(old);
    free(new);
}

int main(int argc, char **argv)
{
    struct path path = {.app = APP_DEFAULTS, .steps = 100, .values = 4096, .places = 8, .parts = 8,
                        .percent = 80};
    const struct option_spec options[] = {
        {"values", OPTION_COUNT, &path.values, 1, 1e7, NULL, "V", "values in a state (4096)", NULL},
        {"steps", OPTION_COUNT, &path.steps, 1, 1e6, NULL, "S", "steps (100)", NULL},
        {"states", OPTION_COUNT, &path.places, 2, 4096, NULL, "N", "states that are kept (8)", NULL},
        {"parts", OPTION_COUNT, &path.parts, 1, 1000, NULL, "P", "analyses of each state (8)", NULL},
        {"path", OPTION_COUNT, &path.percent, 0, 1e4, NULL, "PERCENT",
         "work of a step, in percent of the work of its analyses (80)", NULL},
        {"every", OPTION_COUNT, &path.app.every, 0, 1e6, NULL, "E",
         "analyses are written every E steps; 0: never (0)", NULL},
        {"work", OPTION_COUNT, &path.app.work, 0, 1e6, NULL, "K",
         "repeats of the arithmetic for each value of an analysis (0)", NULL},
        APP_BASE_OPTIONS(&path.app),
    };
    const struct program program = {
        .name = "path",
        .summary = "Steps that follow each other, by tasks with a priority, and analyses of each state, by other\n"
                   "tasks. Some analyses are written to a file by tasks that block. The runtime limits\n"
                   "priorities to OMP_MAX_TASK_PRIORITY, which is 0 unless it is set.",
        .example = "OMP_MAX_TASK_PRIORITY=1 path --every 2 --direct --work 20 --verify --truth -",
        .checked = "All analyses that were written are read back and compared; each value is in\n"
                   "its range. With --verify each value, also of each analysis, has the same bits as without\n"
                   "tasks. The checksum is the same for any number of threads, buffers and states.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    app_start(&path.app, &program, argc, argv);
    path.states = ring_create(path.places, path.values);
    path.marks = zeroed_array(CACHE_LINE, path.places, 1);
    path.digests = zeroed_array(CACHE_LINE, path.steps * path.parts, sizeof *path.digests);
    uint64_t written = path.app.every != 0 ? path.steps / path.app.every : 0;
    if (written > 0)
        storage_create(&path.storage, path.app.folder, path.app.direct, written * path.parts,
                       path.values, path.app.buffers);
    struct ranks alone = {.count = 1};

    run(&path);
    if (written > 0)
        storage_check(&path.storage);
    uint64_t checksum = ring_checksum(state_after(&path, path.steps), path.values);
    for (size_t i = 0; i < path.steps * path.parts; i++)
        checksum = digest_u64(checksum, path.digests[i]);
    if (path.app.verify)
        verify(&path);
    free(path.states);
    free(path.marks);
    free(path.digests);
    return app_end(&path.app, &program, &alone, written > 0 ? &path.storage : NULL, checksum,
                   "%" PRIu64 " steps of %" PRIu64 " values, %" PRIu64 " analyses of each", path.steps,
                   path.values, path.parts);
}
