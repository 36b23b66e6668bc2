// SPDX-License-Identifier: Apache-2.0 OR MIT
// A mock-up of full-waveform inversion: a field moves forward in time, and its snapshots are written to a
// file. The field then moves on, while the snapshots are read in reverse order and correlated with it. The
// OpenMP tasks block in file transfers and messages. See --help.
//
// A step has two halves, velocity and stress. Dependences of the tasks:
//
// - A slice of a volume depends on itself and, in the other volume, on the same slice and its two
//   neighbours. There is no barrier between halves, nor between the way forward and the way back.
// - A message depends on the border slice from which it is sent, or on the mark of the other rank's slice
//   into which it is received.
// - A snapshot of a slice takes two tasks: one depends on the slice and copies it into a staging buffer,
//   the other writes the buffer, so that the field does not wait for the disk. On the way back one task
//   reads into a staging buffer as soon as the buffer is free, and another, which depends on the slice,
//   correlates. The buffer's mark orders all of these tasks, including the read after the write, because
//   a slot always uses the same buffer.
//
// The messages of a half go down (from rank 0 to rank 1), then up, and both ranks create them in this order.
// With --ordered, both ranks also transfer them in this order, so one thread per rank is enough. Without it,
// receives may block all threads, which is a deadlock unless the runtime runs other tasks meanwhile.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "array.h"
#include "clocks.h"
#include "fail.h"
#include "numbers.h"
#include "wave.h"

struct fwi {
    struct app app;
    struct ranks ranks;
    struct storage storage;
    struct wave wave;
    uint64_t steps;             // in each direction
    char *marks[VOLUMES];       // of slices, by the index of wave_slice, for depend clauses
    char *image_marks;
    char *nothing;              // two dummy marks per slice, for tasks without a transfer
};

// Transfers that a task does before it computes.
struct transfers {
    bool receives, writes;
    size_t slot;    // slot of the snapshot that it writes
};

static enum volume volume_of(uint64_t half)
{
    return half % VOLUMES;
}

// Steps on the way back continue the numbering: step S + i uses the snapshot that step S - 1 - i has left.
// Returns the number of steps that were done when that snapshot was taken.
static uint64_t snapshot_met(const struct fwi *fwi, uint64_t step)
{
    return step < fwi->steps ? step + 1 : 2 * fwi->steps - step;
}

static bool has_snapshot(const struct fwi *fwi, uint64_t steps_done)
{
    return fwi->app.every != 0 && steps_done > 0 && steps_done % fwi->app.every == 0;
}

static size_t slot_of(const struct fwi *fwi, uint64_t steps_done, size_t slice)
{
    return (steps_done / fwi->app.every - 1) * fwi->wave.slices + slice - 1;
}

static void stage(struct fwi *fwi, size_t slice, size_t slot)
{
    memcpy(storage_buffer(&fwi->storage, slot), wave_slice(&fwi->wave, STRESS, slice),
           fwi->wave.slice_values * sizeof(double));
    storage_note(&fwi->storage, slot);
}

// The slice at the border to the other rank, and the other rank's slice beyond it.
static size_t border_slice(const struct fwi *fwi)
{
    return ranks_has_next(&fwi->ranks) ? fwi->wave.slices : 1;
}

static size_t beyond_slice(const struct fwi *fwi)
{
    return ranks_has_next(&fwi->ranks) ? fwi->wave.slices + 1 : 0;
}

static void receive(struct fwi *fwi, enum volume volume)
{
    ranks_receive(&fwi->ranks, volume, wave_slice(&fwi->wave, volume, beyond_slice(fwi)),
                  fwi->wave.slice_values);
}

static void create_receive(struct fwi *fwi, enum volume volume)
{
    char *beyond = &fwi->marks[volume][beyond_slice(fwi)];
    char *turn = ranks_mark(&fwi->ranks, volume, false, fwi->app.ordered);
#pragma omp task depend(inout : *beyond, *turn) firstprivate(volume) priority(1)
    receive(fwi, volume);
}

static void create_send(struct fwi *fwi, enum volume volume)
{
    size_t slice = border_slice(fwi);
    char *border = &fwi->marks[volume][slice];
    char *turn = ranks_mark(&fwi->ranks, volume, true, fwi->app.ordered);
#pragma omp task depend(in : *border) depend(inout : *turn) firstprivate(volume, slice) priority(1)
    ranks_send(&fwi->ranks, volume, wave_slice(&fwi->wave, volume, slice), fwi->wave.slice_values);
}

// Priority 1, like messages, for updates for which the other rank waits.
static int is_awaited(const struct fwi *fwi, size_t slice)
{
    return fwi->ranks.count > 1 && slice == border_slice(fwi);
}

static void create_update(struct fwi *fwi, enum volume volume, size_t slice)
{
    char *self = &fwi->marks[volume][slice], *other = &fwi->marks[1 - volume][slice];
#pragma omp task depend(inout : *self) depend(in : *other, other[-1], other[1]) \
    firstprivate(volume, slice) priority(is_awaited(fwi, slice))
    wave_update(&fwi->wave, volume, slice);
}

static void between(const struct fwi *fwi)
{
    if (fwi->app.yields) {
#pragma omp taskyield
    }
}

static void transfer_and_update(struct fwi *fwi, enum volume volume, size_t slice,
                                struct transfers transfers)
{
    if (transfers.writes) {
        stage(fwi, slice, transfers.slot);
        storage_keep(&fwi->storage, transfers.slot);
    }
    if (transfers.receives)
        receive(fwi, 1 - volume);
    between(fwi);
    wave_update(&fwi->wave, volume, slice);
}

// The layout that the paper advises against: transfers and then computation in one task.
static void create_update_with(struct fwi *fwi, enum volume volume, size_t slice,
                               struct transfers transfers)
{
    char *self = &fwi->marks[volume][slice], *other = &fwi->marks[1 - volume][slice];
    char *none = &fwi->nothing[2 * slice];
    char *buffer = transfers.writes ? storage_mark(&fwi->storage, transfers.slot) : &none[0];
    char *turn = transfers.receives ? ranks_mark(&fwi->ranks, 1 - volume, false, fwi->app.ordered)
                                    : &none[1];
#pragma omp task depend(inout : *self, *buffer, *turn) depend(in : *other, other[-1], other[1]) \
    firstprivate(volume, slice, transfers)
    transfer_and_update(fwi, volume, slice, transfers);
}

static void create_updates(struct fwi *fwi, uint64_t half)
{
    enum volume volume = volume_of(half);
    uint64_t steps_done = half / VOLUMES;
    for (size_t slice = 1; slice <= fwi->wave.slices; slice++) {
        struct transfers transfers = {
            .receives = fwi->ranks.count > 1 && half > 0 && slice == border_slice(fwi),
            // The stress still has its value of the step before.
            .writes = volume == VELOCITY && steps_done <= fwi->steps && has_snapshot(fwi, steps_done),
        };
        if (transfers.writes)
            transfers.slot = slot_of(fwi, steps_done, slice);
        if (fwi->app.in_task && (transfers.receives || transfers.writes))
            create_update_with(fwi, volume, slice, transfers);
        else
            create_update(fwi, volume, slice);
    }
}

// No rank needs messages after the last half.
static void create_messages(struct fwi *fwi, uint64_t half, uint64_t last_half)
{
    bool upper = ranks_has_next(&fwi->ranks);
    if (fwi->ranks.count == 1)
        return;
    if (fwi->app.in_task) {
        // This half's updates receive what the other rank sent in the half before. The lower rank sends
        // after it has received, therefore half a step later.
        if (upper && half < last_half)
            create_send(fwi, volume_of(half));
        if (!upper && half > 0)
            create_send(fwi, volume_of(half - 1));
    } else if (half < last_half) {
        if (upper)
            create_send(fwi, volume_of(half));
        create_receive(fwi, volume_of(half));
        if (!upper)
            create_send(fwi, volume_of(half));
    }
}

static void create_snapshot(struct fwi *fwi, uint64_t steps_done)
{
    for (size_t slice = 1; slice <= fwi->wave.slices; slice++) {
        size_t slot = slot_of(fwi, steps_done, slice);
        char *stress = &fwi->marks[STRESS][slice];
        char *buffer = storage_mark(&fwi->storage, slot);
#pragma omp task depend(in : *stress) depend(inout : *buffer) firstprivate(slice, slot)
        stage(fwi, slice, slot);
#pragma omp task depend(inout : *buffer) firstprivate(slot) priority(1)
        storage_keep(&fwi->storage, slot);
    }
}

static void fetch_and_correlate(struct fwi *fwi, size_t slice, size_t slot)
{
    storage_fetch(&fwi->storage, slot);
    between(fwi);
    wave_correlate(&fwi->wave, slice, storage_buffer(&fwi->storage, slot));
}

static void create_correlation(struct fwi *fwi, uint64_t steps_done)
{
    for (size_t slice = 1; slice <= fwi->wave.slices; slice++) {
        size_t slot = slot_of(fwi, steps_done, slice);
        char *stress = &fwi->marks[STRESS][slice], *image = &fwi->image_marks[slice];
        char *buffer = storage_mark(&fwi->storage, slot);
        if (fwi->app.in_task) {
#pragma omp task depend(in : *stress) depend(inout : *image, *buffer) firstprivate(slice, slot)
            fetch_and_correlate(fwi, slice, slot);
            continue;
        }
#pragma omp task depend(inout : *buffer) firstprivate(slot) priority(1)
        storage_fetch(&fwi->storage, slot);
#pragma omp task depend(in : *stress) depend(inout : *image, *buffer) firstprivate(slice, slot)
        wave_correlate(&fwi->wave, slice, storage_buffer(&fwi->storage, slot));
    }
}

static void create_step(struct fwi *fwi, uint64_t step)
{
    uint64_t last_half = 2 * fwi->steps * VOLUMES - 1;
    for (uint64_t half = step * VOLUMES; half < (step + 1) * VOLUMES; half++) {
        create_updates(fwi, half);
        create_messages(fwi, half, last_half);
    }
    uint64_t met = snapshot_met(fwi, step);
    if (!has_snapshot(fwi, met))
        return;
    if (step >= fwi->steps)
        create_correlation(fwi, met);
    else if (!fwi->app.in_task)
        create_snapshot(fwi, met);
    // With --in-task, the next step writes the snapshot.
}

static void create_end_of_step(struct fwi *fwi, uint64_t step)
{
    char *mark = app_step_mark(&fwi->app, step);
    if (mark == NULL)
        return;
#pragma omp task depend(iterator(size_t i = 1 : fwi->wave.slices + 1), in : fwi->marks[STRESS][i]) \
    depend(out : *mark)
    {
    }
}

static void create_all(struct fwi *fwi)
{
    for (uint64_t step = 0; step < 2 * fwi->steps; step++) {
        app_wait_for_steps(&fwi->app, step);
        create_step(fwi, step);
        create_end_of_step(fwi, step);
    }
}

static void run(struct fwi *fwi)
{
    app_phase_begin(&fwi->app);
#pragma omp parallel
#pragma omp single
    create_all(fwi);
    app_phase_end(&fwi->app);
}

// Repeats all steps without tasks; each snapshot must equal the state of its step.
static void verify(struct fwi *fwi)
{
    const struct wave *wave = &fwi->wave;
    struct wave whole;
    wave_create(&whole, wave->extent, 0, wave->extent.y, wave->work);
    for (uint64_t step = 0; step < 2 * fwi->steps; step++) {
        wave_step(&whole);
        uint64_t met = snapshot_met(fwi, step);
        for (size_t slice = 1; has_snapshot(fwi, met) && slice <= wave->slices; slice++) {
            size_t slot = slot_of(fwi, met, slice), there = wave->first + slice;
            double *buffer = storage_buffer(&fwi->storage, slot);
            if (step < fwi->steps) {
                memcpy(buffer, wave_slice(&whole, STRESS, there), wave->slice_values * sizeof *buffer);
                storage_expect(&fwi->storage, slot);
            } else {
                storage_read_back(&fwi->storage, slot);
                wave_correlate(&whole, there, buffer);
            }
        }
    }
    wave_compare(wave, &whole);
    wave_destroy(&whole);
}

int main(int argc, char **argv)
{
    struct fwi fwi = {.app = APP_DEFAULTS, .steps = 50};
    fwi.app.every = 2;
    uint64_t x = 64, y = 64, z = 64;
    const struct option_spec options[] = {
        {"nx", OPTION_COUNT, &x, 1, 4096, NULL, "X", "values in x (64)", NULL},
        {"ny", OPTION_COUNT, &y, 1, 65536, NULL, "Y", "slices (64)", NULL},
        {"nz", OPTION_COUNT, &z, 1, 4096, NULL, "Z", "values in z (64)", NULL},
        {"steps", OPTION_COUNT, &fwi.steps, 1, 1e6, NULL, "S",
         "steps forward, and as many on the way back (50)", NULL},
        {"iof", OPTION_COUNT, &fwi.app.every, 0, 1e6, NULL, "E",
         "a snapshot every E steps; 0: none (2)", NULL},
        {"work", OPTION_COUNT, &fwi.app.work, 0, 1e6, NULL, "K",
         "repeats of the arithmetic for each value; they change the result (0)", NULL},
        APP_OPTIONS(&fwi.app),
    };
    const struct program program = {
        .name = "fwi",
        .summary = "Two volumes, each updated from the other, a task for each slice, half and step, no\n"
                   "barriers. Snapshots are written on the way forward and read in reverse order on the\n"
                   "way back; border slices are exchanged with another process: by tasks that block.\n"
                   "With libgomp, two ranks without --ordered may deadlock.",
        .example = "fwi --iof 1 --direct --buffers 32 --verify --truth -\n"
                   "fwi --ranks 2 --rank 0 --peer 127.0.0.1:4711 --ordered &\n"
                   "fwi --ranks 2 --rank 1 --peer 127.0.0.1:4711 --ordered",
        .checked = "All snapshots are compared when they are read; all values are finite. With --verify\n"
                   "each value, also of each snapshot and of the image, has the same bits as without\n"
                   "tasks. The checksum is that of all slices, the same for any number of threads, ranks\n"
                   "and buffers.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    app_start(&fwi.app, &program, argc, argv);
    if (y < fwi.app.rank_count)
        bad_input("--ny must be at least --ranks, %" PRIu64, fwi.app.rank_count);
    struct share mine = share_of(y, fwi.app.rank_count, fwi.app.rank);
    size_t slices = mine.end - mine.begin;
    wave_create(&fwi.wave, (struct extent){x, y, z}, mine.begin, slices, fwi.app.work);
    char **const marks[] = {&fwi.marks[VELOCITY], &fwi.marks[STRESS], &fwi.image_marks};
    for (size_t i = 0; i < COUNT_OF(marks); i++)
        *marks[i] = zeroed_array(CACHE_LINE, slices + 2, 1);
    fwi.nothing = zeroed_array(CACHE_LINE, 2 * (slices + 2), 1);
    uint64_t snapshots = fwi.app.every != 0 ? fwi.steps / fwi.app.every : 0;
    if (snapshots > 0)
        storage_create(&fwi.storage, fwi.app.folder, fwi.app.direct, snapshots * slices,
                       fwi.wave.slice_values, fwi.app.buffers);
    const uint64_t same[] = {x, y, z, fwi.steps, fwi.app.work, fwi.app.ordered, fwi.app.in_task};
    app_connect(&fwi.app, &fwi.ranks, VOLUMES, app_problem(same, COUNT_OF(same)));

    run(&fwi);
    uint64_t checksum = wave_checksum(&fwi.wave);
    if (fwi.app.verify)
        verify(&fwi);
    wave_destroy(&fwi.wave);
    for (size_t i = 0; i < COUNT_OF(marks); i++)
        free(*marks[i]);
    free(fwi.nothing);
    return app_end(&fwi.app, &program, &fwi.ranks, snapshots > 0 ? &fwi.storage : NULL, checksum,
                   "%" PRIu64 "x%" PRIu64 "x%" PRIu64 " values, %" PRIu64 " steps each way", x, y, z,
                   fwi.steps);
}
