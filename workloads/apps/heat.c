// SPDX-License-Identifier: Apache-2.0 OR MIT
// Heat in a plate by the Gauss-Seidel method: OpenMP tasks in a wavefront, with checkpoints to a file and
// messages to another process, both of which block the threads. See --help.
//
// Dependences of the tasks:
//
// - A block depends on itself and its four neighbours. Tasks are created in the order of a sequential
//   program, so the neighbours above and to the left are of the same step, the others of the step before.
//   There is no barrier between steps: the wavefronts of several steps are in flight at the same time.
// - A message depends on the border row of blocks from which it is sent, or on the mark of the frame into
//   which it is received. The blocks at the border depend on that mark, too.
// - A checkpoint is one task per block, not per row of blocks: a row would depend on all its blocks and
//   delay the wavefront until all of them are of the same step. A checkpoint depends on its block, so it
//   has the state of exactly one step. One task copies the block into a staging buffer and another writes
//   the buffer, so the next update of the block waits for the copy, not for the disk.
//
// Both ranks create their messages in the same order: all downward ones of a step, then all upward ones.
// With --ordered, both also transfer them in this order, so one thread per rank is enough. Without it,
// receives may block all threads of both ranks before the messages are sent, which is a deadlock unless the
// runtime runs other tasks meanwhile.
#include <inttypes.h>
#include <stdlib.h>

#include "app.h"
#include "array.h"
#include "clocks.h"
#include "fail.h"
#include "numbers.h"
#include "plate.h"

struct heat {
    struct app app;
    struct ranks ranks;
    struct storage storage;
    struct plate plate;
    uint64_t steps;
    char *marks;      // of blocks and of the frame around them, for depend clauses
    char *nothing;    // two dummy marks per block, for tasks without a transfer
};

// Transfers that a task does before it computes.
struct transfers {
    bool receives, writes;
    size_t slot;    // slot of the checkpoint that it writes
};

// Rows and columns begin with 1; the frame is 0 and last + 1.
static char *mark_of(const struct heat *heat, size_t row, size_t column)
{
    return &heat->marks[row * (heat->plate.columns + 2) + column];
}

static size_t blocks_here(const struct heat *heat)
{
    return heat->plate.rows * heat->plate.columns;
}

static bool is_checkpoint(const struct heat *heat, uint64_t steps_done)
{
    return heat->app.every != 0 && steps_done > 0 && steps_done % heat->app.every == 0;
}

static size_t slot_of(const struct heat *heat, uint64_t steps_done, size_t row, size_t column)
{
    return (steps_done / heat->app.every - 1) * blocks_here(heat) + row * heat->plate.columns +
           column;
}

static void stage(struct heat *heat, size_t row, size_t column, size_t slot)
{
    plate_copy_out(&heat->plate, row, column, storage_buffer(&heat->storage, slot));
    storage_note(&heat->storage, slot);
}

static void receive(struct heat *heat, size_t column)
{
    double *frame = ranks_has_previous(&heat->ranks) ? plate_above(&heat->plate, column)
                                                     : plate_below(&heat->plate, column);
    ranks_receive(&heat->ranks, column, frame, heat->plate.block);
}

static void send_border(struct heat *heat, size_t column)
{
    const double *border = ranks_has_next(&heat->ranks) ? plate_last(&heat->plate, column)
                                                        : plate_first(&heat->plate, column);
    ranks_send(&heat->ranks, column, border, heat->plate.block);
}

// The row of blocks at the border to the other rank, and the frame beyond it, as indices of marks.
static size_t border_row(const struct heat *heat)
{
    return ranks_has_next(&heat->ranks) ? heat->plate.rows : 1;
}

static size_t frame_row(const struct heat *heat)
{
    return ranks_has_next(&heat->ranks) ? heat->plate.rows + 1 : 0;
}

static void create_receives(struct heat *heat)
{
    for (size_t column = 0; column < heat->plate.columns; column++) {
        char *frame = mark_of(heat, frame_row(heat), column + 1);
        char *turn = ranks_mark(&heat->ranks, column, false, heat->app.ordered);
#pragma omp task depend(inout : *frame, *turn) firstprivate(column) priority(1)
        receive(heat, column);
    }
}

static void create_sends(struct heat *heat)
{
    for (size_t column = 0; column < heat->plate.columns; column++) {
        char *border = mark_of(heat, border_row(heat), column + 1);
        char *turn = ranks_mark(&heat->ranks, column, true, heat->app.ordered);
#pragma omp task depend(in : *border) depend(inout : *turn) firstprivate(column) priority(1)
        send_border(heat, column);
    }
}

static void create_checkpoint(struct heat *heat, uint64_t steps_done)
{
    for (size_t row = 0; row < heat->plate.rows; row++)
        for (size_t column = 0; column < heat->plate.columns; column++) {
            size_t slot = slot_of(heat, steps_done, row, column);
            char *block = mark_of(heat, row + 1, column + 1);
            char *buffer = storage_mark(&heat->storage, slot);
#pragma omp task depend(in : *block) depend(inout : *buffer) firstprivate(row, column, slot)
            stage(heat, row, column, slot);
#pragma omp task depend(inout : *buffer) firstprivate(slot) priority(1)
            storage_keep(&heat->storage, slot);
        }
}

// Priority 1, like messages, for updates for which the other rank waits.
static int is_awaited(const struct heat *heat, size_t row)
{
    return heat->ranks.count > 1 && row + 1 == border_row(heat);
}

static void create_update(struct heat *heat, size_t row, size_t column)
{
    char *self = mark_of(heat, row + 1, column + 1);
    char *above = mark_of(heat, row, column + 1), *below = mark_of(heat, row + 2, column + 1);
#pragma omp task depend(inout : *self) depend(in : *above, *below, self[-1], self[1]) \
    firstprivate(row, column) priority(is_awaited(heat, row))
    plate_relax(&heat->plate, row, column);
}

static void transfer_and_relax(struct heat *heat, size_t row, size_t column,
                               struct transfers transfers)
{
    if (transfers.writes) {
        stage(heat, row, column, transfers.slot);
        storage_keep(&heat->storage, transfers.slot);
    }
    if (transfers.receives)
        receive(heat, column);
    if (heat->app.yields) {
#pragma omp taskyield
    }
    plate_relax(&heat->plate, row, column);
}

// The layout that the paper advises against: transfers and then computation in one task. The block still
// has its value of the step before, of which this is the checkpoint.
static void create_update_with(struct heat *heat, size_t row, size_t column,
                               struct transfers transfers)
{
    char *self = mark_of(heat, row + 1, column + 1);
    char *above = mark_of(heat, row, column + 1), *below = mark_of(heat, row + 2, column + 1);
    char *none = &heat->nothing[2 * (row * heat->plate.columns + column)];
    char *buffer = transfers.writes ? storage_mark(&heat->storage, transfers.slot) : &none[0];
    char *turn = transfers.receives ? ranks_mark(&heat->ranks, column, false, heat->app.ordered)
                                    : &none[1];
#pragma omp task depend(inout : *self, *buffer, *turn) \
    depend(in : *above, *below, self[-1], self[1]) firstprivate(row, column, transfers)
    transfer_and_relax(heat, row, column, transfers);
}

static void create_updates(struct heat *heat, uint64_t step, bool receives)
{
    for (size_t row = 0; row < heat->plate.rows; row++)
        for (size_t column = 0; column < heat->plate.columns; column++) {
            struct transfers transfers = {
                .receives = receives && row + 1 == border_row(heat),
                .writes = is_checkpoint(heat, step),
            };
            if (transfers.writes)
                transfers.slot = slot_of(heat, step, row, column);
            if (heat->app.in_task && (transfers.receives || transfers.writes))
                create_update_with(heat, row, column, transfers);
            else
                create_update(heat, row, column);
        }
}

// The lower rank needs the upper rank's result of the same step, the upper rank needs the lower rank's
// result of the step before.
static void create_step(struct heat *heat, uint64_t step)
{
    bool receives = ranks_has_previous(&heat->ranks) || (ranks_has_next(&heat->ranks) && step > 0);
    if (receives && !heat->app.in_task)
        create_receives(heat);
    create_updates(heat, step, receives);
    if (ranks_has_next(&heat->ranks) || (ranks_has_previous(&heat->ranks) && step + 1 < heat->steps))
        create_sends(heat);
    // With --in-task the next step, if there is one, writes the checkpoint.
    if (is_checkpoint(heat, step + 1) && !(heat->app.in_task && step + 1 < heat->steps))
        create_checkpoint(heat, step + 1);
}

// The last block of a step depends on all others, so it is done when the step is done.
static void create_end_of_step(struct heat *heat, uint64_t step)
{
    char *mark = app_step_mark(&heat->app, step);
    char *last = mark_of(heat, heat->plate.rows, heat->plate.columns);
    if (mark == NULL)
        return;
#pragma omp task depend(in : *last) depend(out : *mark)
    {
    }
}

static void create_all(struct heat *heat)
{
    for (uint64_t step = 0; step < heat->steps; step++) {
        app_wait_for_steps(&heat->app, step);
        create_step(heat, step);
        create_end_of_step(heat, step);
    }
}

static void run(struct heat *heat)
{
    app_phase_begin(&heat->app);
#pragma omp parallel
#pragma omp single
    create_all(heat);
    app_phase_end(&heat->app);
}

// Repeats all steps without blocks and tasks; each checkpoint must equal the state of its step.
static void verify(struct heat *heat)
{
    const struct plate *plate = &heat->plate;
    struct plate whole;
    plate_create(&whole, plate->size, plate->block, 0, plate->columns, plate->work);
    for (uint64_t done = 1; done <= heat->steps; done++) {
        plate_step(&whole);
        if (!is_checkpoint(heat, done))
            continue;
        for (size_t row = 0; row < plate->rows; row++)
            for (size_t column = 0; column < plate->columns; column++) {
                size_t slot = slot_of(heat, done, row, column);
                plate_copy_out(&whole, plate->first_row + row, column,
                               storage_buffer(&heat->storage, slot));
                storage_expect(&heat->storage, slot);
            }
    }
    plate_compare(plate, &whole);
    plate_destroy(&whole);
}

int main(int argc, char **argv)
{
    struct heat heat = {.app = APP_DEFAULTS, .steps = 100};
    uint64_t size = 1024, block = 128;
    const struct option_spec options[] = {
        {"size", OPTION_COUNT, &size, 1, 65536, NULL, "N", "N x N cells (1024)", NULL},
        {"block", OPTION_COUNT, &block, 1, 65536, NULL, "B",
         "blocks of B x B cells; B divides N (128)", NULL},
        {"steps", OPTION_COUNT, &heat.steps, 1, 1e6, NULL, "S", "time steps (100)", NULL},
        {"every", OPTION_COUNT, &heat.app.every, 0, 1e6, NULL, "E",
         "a checkpoint every E steps; 0: none (0)", NULL},
        {"work", OPTION_COUNT, &heat.app.work, 0, 1e6, NULL, "K",
         "repeats of the arithmetic for each cell; they change the result (0)", NULL},
        APP_OPTIONS(&heat.app),
    };
    const struct program program = {
        .name = "heat",
        .summary = "Gauss-Seidel in blocks, a task for each block and step, in a wavefront: no barrier\n"
                   "between steps. Checkpoints are written, and rows exchanged with another process,\n"
                   "by tasks that block. With libgomp, two ranks without --ordered may deadlock.",
        .example = "heat --size 512 --block 64 --every 5 --direct --verify --truth -\n"
                   "heat --ranks 2 --rank 0 --peer 127.0.0.1:4711 --ordered &\n"
                   "heat --ranks 2 --rank 1 --peer 127.0.0.1:4711 --ordered",
        .checked = "All checkpoints are read back and compared; each cell is in its range.\n"
                   "With --verify each cell, also of each checkpoint, has the same bits as without blocks\n"
                   "and tasks. The checksum is that of the whole plate, the same for any number of\n"
                   "threads, ranks and buffers.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    app_start(&heat.app, &program, argc, argv);
    if (size % block != 0)
        bad_input("--block must divide --size, %" PRIu64, size);
    if (size / block < heat.app.rank_count)
        bad_input("%" PRIu64 " rows of blocks are too few for --ranks %" PRIu64, size / block,
                  heat.app.rank_count);
    struct share rows = share_of(size / block, heat.app.rank_count, heat.app.rank);
    plate_create(&heat.plate, size, block, rows.begin, rows.end - rows.begin, heat.app.work);
    heat.marks = zeroed_array(CACHE_LINE, (heat.plate.rows + 2) * (heat.plate.columns + 2), 1);
    heat.nothing = zeroed_array(CACHE_LINE, 2 * blocks_here(&heat), 1);
    uint64_t checkpoints = heat.app.every != 0 ? heat.steps / heat.app.every : 0;
    if (checkpoints > 0)
        storage_create(&heat.storage, heat.app.folder, heat.app.direct,
                       checkpoints * blocks_here(&heat), block * block, heat.app.buffers);
    const uint64_t same[] = {size, block, heat.steps, heat.app.work, heat.app.ordered,
                             heat.app.in_task};
    app_connect(&heat.app, &heat.ranks, heat.plate.columns,
                app_problem(same, COUNT_OF(same)));

    run(&heat);
    if (checkpoints > 0)
        storage_check(&heat.storage);
    uint64_t checksum = plate_checksum(&heat.plate);
    if (heat.app.verify)
        verify(&heat);
    plate_destroy(&heat.plate);
    free(heat.marks);
    free(heat.nothing);
    return app_end(&heat.app, &program, &heat.ranks, checkpoints > 0 ? &heat.storage : NULL, checksum,
                   "%" PRIu64 "x%" PRIu64 " cells, %" PRIu64 " steps", size, size, heat.steps);
}
