// SPDX-License-Identifier: Apache-2.0 OR MIT
// Memory-bound blocks: each is a table that fits into a CPU's own cache and is traversed many times in
// scattered order; some are written to a file by tasks that block. See --help.
//
// Blocks are independent, except that each is computed in table `block % tables`, whose mark orders the
// blocks of that table. A block that is to be written is copied into a staging buffer, so that its table is
// free before the write has finished. Two threads on one CPU traverse two tables, which do not fit into its
// cache together.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "array.h"
#include "fail.h"
#include "numbers.h"

struct blocks {
    struct app app;
    struct storage storage;
    uint64_t count, values;    // of each block; a power of two
    uint64_t tables_count;
    double *tables;
    char *marks;               // of tables, for depend clauses
    uint64_t *digests;         // of blocks
};

static double *table_of(const struct blocks *blocks, size_t block)
{
    return &blocks->tables[block % blocks->tables_count * blocks->values];
}

static bool is_written(const struct blocks *blocks, size_t block)
{
    return blocks->app.every != 0 && (block + 1) % blocks->app.every == 0;
}

// Each value depends on another one at a scattered place in the table. The order is a linear congruential
// sequence of full period: it needs no memory, and a hardware prefetcher cannot predict it.
static void walk(double *table, uint64_t values, uint64_t pass)
{
    uint64_t there = pass % values;
    for (uint64_t here = 0; here < values; here++) {
        there = (there * 1664525 + 1013904223) & (values - 1);
        double mean = 0.5 * (table[here] + table[there]);
        // The logistic map: it stays within [0, 1], and small differences grow instead of dying out.
        table[here] = 4 * mean * (1 - mean);
    }
}

static uint64_t compute(const struct blocks *blocks, size_t block, double *table)
{
    struct random_sequence sequence = random_numbered(block);
    for (uint64_t at = 0; at < blocks->values; at++)
        table[at] = random_unit(&sequence);
    for (uint64_t pass = 0; pass < blocks->app.work; pass++)
        walk(table, blocks->values, pass);
    return digest_doubles(block, table, blocks->values);
}

static void stage(struct blocks *blocks, size_t block, size_t slot)
{
    memcpy(storage_buffer(&blocks->storage, slot), table_of(blocks, block),
           blocks->values * sizeof(double));
    storage_note(&blocks->storage, slot);
}

static void create_all(struct blocks *blocks)
{
    for (size_t block = 0; block < blocks->count; block++) {
        char *table = &blocks->marks[block % blocks->tables_count];
#pragma omp task depend(inout : *table) firstprivate(block)
        blocks->digests[block] = compute(blocks, block, table_of(blocks, block));
        if (!is_written(blocks, block))
            continue;
        size_t slot = block / blocks->app.every;
        char *buffer = storage_mark(&blocks->storage, slot);
#pragma omp task depend(in : *table) depend(inout : *buffer) firstprivate(block, slot)
        stage(blocks, block, slot);
#pragma omp task depend(inout : *buffer) firstprivate(slot)
        storage_keep(&blocks->storage, slot);
    }
}

static void run(struct blocks *blocks)
{
    app_phase_begin(&blocks->app);
#pragma omp parallel
#pragma omp single
    create_all(blocks);
    app_phase_end(&blocks->app);
}

static void verify(struct blocks *blocks)
{
    double *table = zeroed_array(CACHE_LINE, blocks->values, sizeof *table);
    for (size_t block = 0; block < blocks->count; block++) {
        if (compute(blocks, block, table) != blocks->digests[block])
            check_failed("block %zu differs from the result of a loop without tasks", block);
        if (!is_written(blocks, block))
            continue;
        size_t slot = block / blocks->app.every;
        memcpy(storage_buffer(&blocks->storage, slot), table, blocks->values * sizeof *table);
        storage_expect(&blocks->storage, slot);
    }
    free(table);
}

int main(int argc, char **argv)
{
    struct blocks blocks = {.app = APP_DEFAULTS, .count = 100, .values = 65536, .tables_count = 32};
    const struct option_spec options[] = {
        {"values", OPTION_COUNT, &blocks.values, 1, 1 << 24, NULL, "V",
         "values in each block, a power of two (65536, which is 512 KiB)", NULL},
        {"steps", OPTION_COUNT, &blocks.count, 1, 1e6, NULL, "S", "blocks (100)", NULL},
        {"tables", OPTION_COUNT, &blocks.tables_count, 1, 4096, NULL, "N",
         "blocks that can be computed at the same time (32)", NULL},
        {"every", OPTION_COUNT, &blocks.app.every, 0, 1e6, NULL, "E",
         "every E-th block is written; 0: none (0)", NULL},
        {"work", OPTION_COUNT, &blocks.app.work, 0, 1e6, NULL, "K", "walks through each block (0)", NULL},
        APP_BASE_OPTIONS(&blocks.app),
    };
    const struct program program = {
        .name = "blocks",
        .summary = "Blocks that fit a CPU's own cache, each computed by a task that walks through it in\n"
                   "scattered order, many times. Some are written to a file by tasks that block.",
        .example = "blocks --every 2 --direct --work 5 --verify --truth -",
        .checked = "All blocks that were written are read back and compared. With --verify each\n"
                   "block has the same bits as without tasks. The checksum is the same for any number of\n"
                   "threads, buffers and tables.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    app_start(&blocks.app, &program, argc, argv);
    if ((blocks.values & (blocks.values - 1)) != 0)
        bad_input("--values must be a power of two");
    uint64_t written = blocks.app.every != 0 ? blocks.count / blocks.app.every : 0;
    blocks.tables = zeroed_array(CACHE_LINE, blocks.tables_count * blocks.values, sizeof *blocks.tables);
    blocks.marks = zeroed_array(CACHE_LINE, blocks.tables_count, 1);
    blocks.digests = zeroed_array(CACHE_LINE, blocks.count, sizeof *blocks.digests);
    if (written > 0)
        storage_create(&blocks.storage, blocks.app.folder, blocks.app.direct, written, blocks.values,
                       blocks.app.buffers);
    struct ranks alone = {.count = 1};

    run(&blocks);
    if (written > 0)
        storage_check(&blocks.storage);
    uint64_t checksum = 0;
    for (size_t block = 0; block < blocks.count; block++)
        checksum = digest_u64(checksum, blocks.digests[block]);
    if (blocks.app.verify)
        verify(&blocks);
    free(blocks.tables);
    free(blocks.marks);
    free(blocks.digests);
    return app_end(&blocks.app, &program, &alone, written > 0 ? &blocks.storage : NULL, checksum,
                   "%" PRIu64 " blocks of %" PRIu64 " values", blocks.count, blocks.values);
}
