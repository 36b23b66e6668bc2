// SPDX-License-Identifier: Apache-2.0 OR MIT
// Phases with barriers: in each, tasks compute the next state of a ring block by block, and other tasks
// write the present state to a file, which blocks. See --help.
//
// All threads create tasks for their share of the blocks, and meet at a barrier that waits for all tasks. A
// phase only reads the present state, so its tasks are independent. They have no depend clauses, which would
// not apply between tasks of different threads anyway.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "array.h"
#include "fail.h"
#include "ring.h"

struct phases {
    struct app app;
    struct storage storage;
    uint64_t count;               // number of phases
    uint64_t blocks, values;      // of each block
    double *states[2];
};

static size_t ring_size(const struct phases *phases)
{
    return phases->blocks * phases->values;
}

static bool is_written(const struct phases *phases, uint64_t phase)
{
    return phases->app.every != 0 && (phase + 1) % phases->app.every == 0;
}

static size_t slot_of(const struct phases *phases, uint64_t phase, size_t block)
{
    return phase / phases->app.every * phases->blocks + block;
}

static void stage(struct phases *phases, const double *state, size_t block, size_t slot)
{
    memcpy(storage_buffer(&phases->storage, slot), &state[block * phases->values],
           phases->values * sizeof *state);
}

static void write_block(struct phases *phases, uint64_t phase, size_t block)
{
    size_t slot = slot_of(phases, phase, block);
    stage(phases, phases->states[phase % 2], block, slot);
    storage_note(&phases->storage, slot);
    storage_keep(&phases->storage, slot);
}

static void update(struct phases *phases, uint64_t phase, size_t block)
{
    ring_relax(phases->states[phase % 2], phases->states[(phase + 1) % 2], ring_size(phases),
               block * phases->values, (block + 1) * phases->values, phases->app.work);
}

static void run(struct phases *phases)
{
    app_phase_begin(&phases->app);
#pragma omp parallel
    for (uint64_t phase = 0; phase < phases->count; phase++) {
        if (is_written(phases, phase)) {
#pragma omp for schedule(static) nowait
            for (size_t block = 0; block < phases->blocks; block++) {
#pragma omp task firstprivate(phase, block)
                write_block(phases, phase, block);
            }
        }
#pragma omp for schedule(static) nowait
        for (size_t block = 0; block < phases->blocks; block++) {
#pragma omp task firstprivate(phase, block)
            update(phases, phase, block);
        }
#pragma omp barrier
    }
    app_phase_end(&phases->app);
}

// Repeats all phases in plain loops; each state that was written must equal the state of its phase.
static void verify(struct phases *phases)
{
    size_t size = ring_size(phases);
    double *old = ring_create(1, size), *new = ring_create(1, size);
    for (uint64_t phase = 0; phase < phases->count; phase++) {
        for (size_t block = 0; is_written(phases, phase) && block < phases->blocks; block++) {
            stage(phases, old, block, slot_of(phases, phase, block));
            storage_expect(&phases->storage, slot_of(phases, phase, block));
        }
        ring_relax(old, new, size, 0, size, phases->app.work);
        double *next = new;
        new = old;
        old = next;
    }
    if (memcmp(old, phases->states[phases->count % 2], size * sizeof *old) != 0)
        check_failed("the last state differs from the result of a loop without tasks");
    free(old);
    free(new);
}

int main(int argc, char **argv)
{
    struct phases phases = {.app = APP_DEFAULTS, .count = 100, .blocks = 16, .values = 4096};
    const struct option_spec options[] = {
        {"blocks", OPTION_COUNT, &phases.blocks, 1, 4096, NULL, "B", "blocks, each with its own tasks (16)", NULL},
        {"values", OPTION_COUNT, &phases.values, 1, 1e7, NULL, "V", "values in each block (4096)", NULL},
        {"steps", OPTION_COUNT, &phases.count, 1, 1e6, NULL, "S", "phases (100)", NULL},
        {"every", OPTION_COUNT, &phases.app.every, 0, 1e6, NULL, "E",
         "the state is written every E phases; 0: never (0)", NULL},
        {"work", OPTION_COUNT, &phases.app.work, 0, 1e6, NULL, "K",
         "repeats of the arithmetic for each value; they change the result (0)", NULL},
        APP_BASE_OPTIONS(&phases.app),
    };
    const struct program program = {
        .name = "phases",
        .summary = "Phases with barriers. In each phase there is a task for each block of a ring that computes\n"
                   "its next state, and one that writes its present state, which blocks. All threads make\n"
                   "tasks, and wait at a barrier at the end of each phase.",
        .example = "phases --every 2 --direct --verify --truth -",
        .checked = "All states that were written are read back and compared; each value is in its\n"
                   "range. With --verify each value, also of each state, has the same bits as without tasks.\n"
                   "The checksum is the same for any number of threads, buffers and blocks.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    app_start(&phases.app, &program, argc, argv);
    uint64_t written = phases.app.every != 0 ? phases.count / phases.app.every : 0;
    if (written > 0 && phases.app.buffers < phases.blocks)
        bad_input("--buffers must be at least --blocks, %" PRIu64, phases.blocks);
    for (size_t i = 0; i < COUNT_OF(phases.states); i++)
        phases.states[i] = ring_create(1, ring_size(&phases));
    if (written > 0)
        storage_create(&phases.storage, phases.app.folder, phases.app.direct,
                       written * phases.blocks, phases.values, phases.app.buffers);
    struct ranks alone = {.count = 1};

    run(&phases);
    if (written > 0)
        storage_check(&phases.storage);
    uint64_t checksum = ring_checksum(phases.states[phases.count % 2], ring_size(&phases));
    if (phases.app.verify)
        verify(&phases);
    for (size_t i = 0; i < COUNT_OF(phases.states); i++)
        free(phases.states[i]);
    return app_end(&phases.app, &program, &alone, written > 0 ? &phases.storage : NULL, checksum,
                   "%" PRIu64 " blocks of %" PRIu64 " values, %" PRIu64 " phases", phases.blocks,
                   phases.values, phases.count);
}
