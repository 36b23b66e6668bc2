// SPDX-License-Identifier: Apache-2.0 OR MIT
// Volume rendering: tiles in locked queues, work stealing, a barrier per frame. See --help.
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"

enum { TILE = 8, BLOBS = 12 };

// A thread takes its own tiles from the front. Threads without tiles steal from the back.
struct queue {
    _Alignas(64) pthread_mutex_t lock;
    size_t begin, end;    // tile numbers
};

struct tally {
    _Alignas(64) uint64_t rendered, stolen;
    uint64_t digest;      // sum over tiles, so that their order does not matter
};

struct run {
    size_t threads, image_edge, volume_edge, tiles;
    uint64_t frames;
    uint8_t *volume;
    uint8_t *image;
    // Two sets that alternate: a thread fills its queue for the next frame while others still steal from
    // the queues of the present frame.
    struct queue *queues[2];
    struct tally *tallies;
    struct crew_barrier barrier;
};

// The axes of a frame's view; the volume is the cube from −1 to 1.
struct view {
    float right[3], down[3], forward[3];
};

static void make_volume(struct run *run)
{
    const size_t edge = run->volume_edge;
    struct random_sequence sequence = random_numbered(7);
    double blobs[BLOBS][4];
    for (size_t blob = 0; blob < BLOBS; blob++)
        for (size_t i = 0; i < 4; i++)
            blobs[blob][i] = i < 3 ? 1.2 * random_unit(&sequence) - 0.6
                                   : 0.1 + 0.2 * random_unit(&sequence);
    for (size_t i = 0; i < edge * edge * edge; i++) {
        size_t at[3] = {i % edge, i / edge % edge, i / edge / edge};
        double density = 0;
        for (size_t blob = 0; blob < BLOBS; blob++) {
            double squared = 0;
            for (size_t axis = 0; axis < 3; axis++) {
                double offset = 2 * (double)at[axis] / (double)(edge - 1) - 1 - blobs[blob][axis];
                squared += offset * offset;
            }
            density += fmax(0, 1 - squared / (blobs[blob][3] * blobs[blob][3]));
        }
        run->volume[i] = (uint8_t)(255 * fmin(density, 1));
    }
}

static struct view view_of_frame(const struct run *run, uint64_t frame)
{
    float angle = (float)(2 * M_PI * (double)frame / (double)run->frames);
    float c = cosf(angle), s = sinf(angle);
    return (struct view){{c, 0, s}, {0.3f * s, 0.95f, -0.3f * c}, {-0.95f * s, 0.3f, 0.95f * c}};
}

// Returns the density at a place, interpolated between the eight voxels around it, from 0 to 1.
static float density_at(const struct run *run, const float at[3])
{
    const size_t edge = run->volume_edge, steps[3] = {1, edge, edge * edge};
    size_t first = 0;
    float part[3];
    for (size_t axis = 0; axis < 3; axis++) {
        float scaled = (at[axis] + 1) * 0.5f * (float)(edge - 1);
        if (!(scaled >= 0 && scaled < (float)(edge - 1)))
            return 0;
        size_t whole = (size_t)scaled;
        part[axis] = scaled - (float)whole;
        first += whole * steps[axis];
    }
    float sum = 0;
    for (size_t corner = 0; corner < 8; corner++) {
        size_t voxel = first;
        float weight = 1;
        for (size_t axis = 0; axis < 3; axis++) {
            bool upper = corner >> axis & 1;
            voxel += upper ? steps[axis] : 0;
            weight *= upper ? part[axis] : 1 - part[axis];
        }
        sum += weight * (float)run->volume[voxel];
    }
    return sum / 255;
}

// Adds up light from front to back until the rest is nearly hidden, so the cost differs between rays.
__attribute__((noinline)) static uint8_t cast_ray(const struct run *run, const struct view *view,
                                                  size_t x, size_t y)
{
    const float reach = 1.75f, step = 2 / (float)run->volume_edge;
    float across = 3 * ((float)x + 0.5f) / (float)run->image_edge - 1.5f;
    float along = 3 * ((float)y + 0.5f) / (float)run->image_edge - 1.5f;
    float light = 0, clear = 1;
    for (float depth = -reach; depth < reach && clear > 0.02f; depth += step) {
        float at[3];
        for (size_t axis = 0; axis < 3; axis++)
            at[axis] = across * view->right[axis] + along * view->down[axis] +
                       depth * view->forward[axis];
        float density = density_at(run, at);
        float opacity = density * density * 0.3f;
        light += clear * opacity * (1 - 0.25f * (depth + reach));
        clear *= 1 - opacity;
    }
    return (uint8_t)(255 * fminf(fmaxf(light, 0), 1));
}

// Returns a digest of the tile's pixels, its number and its frame.
static uint64_t render_tile(const struct run *run, uint8_t *image, uint64_t frame, size_t tile)
{
    const size_t edge = run->image_edge, tiles_in_row = (edge + TILE - 1) / TILE;
    const size_t first_x = tile % tiles_in_row * TILE, first_y = tile / tiles_in_row * TILE;
    struct view view = view_of_frame(run, frame);
    uint64_t digest = mix_bits(frame * run->tiles + tile);
    for (size_t y = first_y; y < first_y + TILE && y < edge; y++)
        for (size_t x = first_x; x < first_x + TILE && x < edge; x++) {
            uint8_t light = cast_ray(run, &view, x, y);
            image[y * edge + x] = light;
            digest = digest_u64(digest, light);
        }
    return digest;
}

static bool take_tile(struct queue *queue, bool from_back, size_t *tile)
{
    crew_lock(&queue->lock);
    bool any = queue->begin < queue->end;
    if (any)
        *tile = from_back ? --queue->end : queue->begin++;
    crew_unlock(&queue->lock);
    return any;
}

// Takes a tile from the thread's own queue, or from the first other queue that has one.
static bool next_tile(struct run *run, struct queue *queues, size_t thread, size_t *tile)
{
    for (size_t i = 0; i < run->threads; i++) {
        if (take_tile(&queues[(thread + i) % run->threads], i != 0, tile)) {
            run->tallies[thread].stolen += i != 0;
            return true;
        }
    }
    return false;
}

static void fill_queue(struct run *run, size_t thread, uint64_t frame)
{
    struct queue *mine = &run->queues[frame % 2][thread];
    struct share tiles = share_of(run->tiles, run->threads, thread);
    crew_lock(&mine->lock);
    mine->begin = tiles.begin;
    mine->end = tiles.end;
    crew_unlock(&mine->lock);
}

static void all_frames(void *work, size_t thread)
{
    struct run *run = work;
    struct tally *tally = &run->tallies[thread];
    fill_queue(run, thread, 0);
    crew_barrier_wait(&run->barrier);
    for (uint64_t frame = 0; frame < run->frames; frame++) {
        size_t tile;
        while (next_tile(run, run->queues[frame % 2], thread, &tile)) {
            tally->digest += render_tile(run, run->image, frame, tile);
            tally->rendered++;
        }
        fill_queue(run, thread, frame + 1);
        crew_barrier_wait(&run->barrier);
    }
}

// Renders the last frame again in one thread, and checks that every tile of every frame was rendered once.
static void check_frames(const struct run *run)
{
    size_t pixels = run->image_edge * run->image_edge;
    uint8_t *reference = kernel_array(pixels, sizeof *reference);
    uint64_t rendered = 0;
    for (size_t tile = 0; tile < run->tiles; tile++)
        render_tile(run, reference, run->frames - 1, tile);
    if (memcmp(run->image, reference, pixels) != 0)
        check_failed("the last frame is not that of one thread");
    for (size_t i = 0; i < run->threads; i++)
        rendered += run->tallies[i].rendered;
    if (rendered != run->frames * run->tiles)
        check_failed("%" PRIu64 " tiles were rendered, not %" PRIu64, rendered,
                     run->frames * run->tiles);
    free(reference);
}

static void create_queues(struct run *run)
{
    for (size_t set = 0; set < 2; set++) {
        run->queues[set] = kernel_array(run->threads, sizeof *run->queues[set]);
        for (size_t i = 0; i < run->threads; i++)
            crew_lock_create(&run->queues[set][i].lock);
    }
}

static void destroy_queues(struct run *run)
{
    for (size_t set = 0; set < 2; set++) {
        for (size_t i = 0; i < run->threads; i++)
            pthread_mutex_destroy(&run->queues[set][i].lock);
        free(run->queues[set]);
    }
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 128, frames = 50, volume = 64;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 1, 8192, NULL, "N", "N x N pixels (128)", NULL},
        {"steps", OPTION_COUNT, &frames, 1, 1e6, NULL, "S", "frames (50)", NULL},
        {"volume", OPTION_COUNT, &volume, 2, 512, NULL, "V", "V x V x V voxels (64)", NULL},
    };
    const struct program program = {
        .name = "kernel-volrend",
        .summary = "Rays through a volume that turns from frame to frame. Each thread has a queue of\n"
                   "tiles behind a lock, and steals from others when its own is empty. A pthread\n"
                   "barrier per frame.",
        .example = "kernel-volrend --threads 3 --steps 20 --truth -",
        .checked = "Every tile of every frame rendered once; the last frame against that of one\n"
                   "thread. The checksum, of all pixels of all frames, is the same for any number of\n"
                   "threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    size_t tiles_in_row = (size + TILE - 1) / TILE;
    struct run run = {.threads = kernel.threads, .image_edge = size, .volume_edge = volume,
                      .tiles = tiles_in_row * tiles_in_row, .frames = frames};
    run.volume = kernel_array(volume * volume * volume, sizeof *run.volume);
    run.image = kernel_array(size * size, sizeof *run.image);
    run.tallies = kernel_array(run.threads, sizeof *run.tallies);
    make_volume(&run);
    create_queues(&run);
    crew_barrier_create(&run.barrier, run.threads);

    crew_run(&kernel, all_frames, &run);
    kernel.phases += crew_barrier_destroy(&run.barrier);
    check_frames(&run);
    uint64_t stolen = 0;
    for (size_t i = 0; i < run.threads; i++) {
        kernel.checksum += run.tallies[i].digest;
        stolen += run.tallies[i].stolen;
    }
    destroy_queues(&run);
    free(run.tallies);
    free(run.image);
    free(run.volume);
    return kernel_end(&kernel, &program, "%" PRIu64 "x%" PRIu64 " pixels, %" PRIu64 " frames, %" PRIu64
                      " tiles stolen", size, size, frames, stolen);
}
