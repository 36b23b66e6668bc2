// SPDX-License-Identifier: Apache-2.0 OR MIT
// Short parallel loops with output in tasks between them: a solver whose loops take 100 us or less, and whose
// state is packed and written, block by block, by tasks that block. See --help.
//
// Everything is one parallel region. After the loops of a step, one thread creates the output tasks, and the
// team runs all of them before the next loop begins: a packing task fills a staging buffer, and then a
// writing task writes it. The same number of threads runs the loops and the output.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "array.h"
#include "fail.h"
#include "ring.h"

struct loops {
    struct app app;
    struct storage storage;
    uint64_t steps, count;        // loops in each step
    uint64_t size, blocks;        // values of the ring, blocks of the output
    uint64_t loop_work;
    double *states[2];
    double *packed;               // output of the last step
};

static size_t block_values(const struct loops *loops)
{
    return loops->size / loops->blocks;
}

static bool is_written(const struct loops *loops, uint64_t step)
{
    return loops->app.every != 0 && (step + 1) % loops->app.every == 0;
}

static size_t slot_of(const struct loops *loops, uint64_t step, size_t block)
{
    return step / loops->app.every * loops->blocks + block;
}

// Each loop swaps the two states, so the number of loops decides which one is current.
static double *state_after(const struct loops *loops, uint64_t step)
{
    return loops->states[(step + 1) * loops->count % 2];
}

static void pack(const struct loops *loops, const double *state, size_t block, double *packed)
{
    size_t first = block * block_values(loops);
    for (size_t at = first; at < first + block_values(loops); at++)
        packed[at] = damped(state[at], loops->app.work);
}

static void stage(struct loops *loops, const double *packed, size_t block, size_t slot)
{
    memcpy(storage_buffer(&loops->storage, slot), &packed[block * block_values(loops)],
           block_values(loops) * sizeof *packed);
}

static void pack_and_stage(struct loops *loops, uint64_t step, size_t block, size_t slot)
{
    pack(loops, state_after(loops, step), block, loops->packed);
    stage(loops, loops->packed, block, slot);
    storage_note(&loops->storage, slot);
}

// The whole state is packed after each step, so that the work does not depend on how much is written.
static void create_output(struct loops *loops, uint64_t step)
{
    for (size_t block = 0; block < loops->blocks; block++) {
        if (!is_written(loops, step)) {
#pragma omp task firstprivate(step, block)
            pack(loops, state_after(loops, step), block, loops->packed);
            continue;
        }
        size_t slot = slot_of(loops, step, block);
        char *buffer = storage_mark(&loops->storage, slot);
#pragma omp task depend(inout : *buffer) firstprivate(step, block, slot)
        pack_and_stage(loops, step, block, slot);
#pragma omp task depend(inout : *buffer) firstprivate(slot)
        storage_keep(&loops->storage, slot);
    }
}

static void run(struct loops *loops)
{
    app_phase_begin(&loops->app);
#pragma omp parallel
    for (uint64_t step = 0; step < loops->steps; step++) {
        for (uint64_t loop = step * loops->count; loop < (step + 1) * loops->count; loop++) {
            const double *old = loops->states[loop % 2];
            double *new = loops->states[(loop + 1) % 2];
#pragma omp for schedule(static)
            for (size_t at = 0; at < loops->size; at++)
                new[at] = ring_relaxed(old, loops->size, at, loops->loop_work);
        }
#pragma omp single
        create_output(loops, step);
    }
    app_phase_end(&loops->app);
}

static void verify(struct loops *loops)
{
    double *old = ring_create(1, loops->size), *new = ring_create(1, loops->size);
    double *packed = ring_create(1, loops->size);
    for (uint64_t step = 0; step < loops->steps; step++) {
        for (uint64_t loop = 0; loop < loops->count; loop++) {
            ring_relax(old, new, loops->size, 0, loops->size, loops->loop_work);
            double *next = new;
            new = old;
            old = next;
        }
        for (size_t block = 0; block < loops->blocks; block++) {
            pack(loops, old, block, packed);
            if (!is_written(loops, step))
                continue;
            stage(loops, packed, block, slot_of(loops, step, block));
            storage_expect(&loops->storage, slot_of(loops, step, block));
        }
    }
    if (memcmp(packed, loops->packed, loops->size * sizeof *packed) != 0)
        check_failed("the last output differs from the result of loops without threads");
    free(old);
    free(new);
    free(packed);
}

int main(int argc, char **argv)
{
    struct loops loops = {.app = APP_DEFAULTS, .steps = 20, .count = 100, .size = 65536, .blocks = 16};
    const struct option_spec options[] = {
        {"size", OPTION_COUNT, &loops.size, 1, 1e8, NULL, "N", "values of the ring (65536)", NULL},
        {"loops", OPTION_COUNT, &loops.count, 1, 1e6, NULL, "L", "loops in each step (100)", NULL},
        {"loop-work", OPTION_COUNT, &loops.loop_work, 0, 1e6, NULL, "K",
         "repeats of the arithmetic for each value in a loop (0)", NULL},
        {"blocks", OPTION_COUNT, &loops.blocks, 1, 4096, NULL, "B",
         "blocks of the output; B divides N (16)", NULL},
        {"steps", OPTION_COUNT, &loops.steps, 1, 1e6, NULL, "S", "steps (20)", NULL},
        {"every", OPTION_COUNT, &loops.app.every, 0, 1e6, NULL, "E",
         "the output is written every E steps; 0: never (0)", NULL},
        {"work", OPTION_COUNT, &loops.app.work, 0, 1e6, NULL, "K",
         "repeats of the arithmetic for each value that is packed (0)", NULL},
        APP_BASE_OPTIONS(&loops.app),
    };
    const struct program program = {
        .name = "loops",
        .summary = "Short parallel loops over a ring, and output by tasks between them: a task for each block\n"
                   "packs it, another writes it, which blocks. One team does both.",
        .example = "loops --every 1 --direct --work 20 --verify --truth -",
        .checked = "All output is read back and compared; each value is in its range. With --verify\n"
                   "each value, also of the output, has the same bits as without threads. The checksum is the\n"
                   "same for any number of threads, buffers and blocks.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    app_start(&loops.app, &program, argc, argv);
    if (loops.size % loops.blocks != 0)
        bad_input("--blocks must divide --size, %" PRIu64, loops.size);
    uint64_t written = loops.app.every != 0 ? loops.steps / loops.app.every : 0;
    for (size_t i = 0; i < COUNT_OF(loops.states); i++)
        loops.states[i] = ring_create(1, loops.size);
    loops.packed = ring_create(1, loops.size);
    if (written > 0)
        storage_create(&loops.storage, loops.app.folder, loops.app.direct, written * loops.blocks,
                       block_values(&loops), loops.app.buffers);
    struct ranks alone = {.count = 1};

    run(&loops);
    if (written > 0)
        storage_check(&loops.storage);
    uint64_t checksum = ring_checksum(loops.packed, loops.size);
    if (loops.app.verify)
        verify(&loops);
    for (size_t i = 0; i < COUNT_OF(loops.states); i++)
        free(loops.states[i]);
    free(loops.packed);
    return app_end(&loops.app, &program, &alone, written > 0 ? &loops.storage : NULL, checksum,
                   "%" PRIu64 " values, %" PRIu64 " steps of %" PRIu64 " loops", loops.size,
                   loops.steps, loops.count);
}
