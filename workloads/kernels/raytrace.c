// SPDX-License-Identifier: Apache-2.0 OR MIT
// Ray tracing of spheres: tiles from one shared counter, no barrier. See --help.
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"

enum { TILE = 16, BOUNCES = 4 };

struct vector {
    double x, y, z;
};

struct ray {
    struct vector from, along;    // `along` has length 1
};

struct sphere {
    struct vector centre;
    double radius, brightness, mirror;    // the last two from 0 to 1
};

struct hit {
    double distance;              // INFINITY: no hit
    struct vector at, normal;
    double brightness, mirror;
};

struct tally {
    _Alignas(64) uint64_t rendered;
    uint64_t digest;              // sum over tiles, so that their order does not matter
};

struct run {
    size_t image_edge, tiles, sphere_count;
    uint64_t frames;
    struct sphere *spheres;
    uint8_t *image;               // the last frame
    _Atomic uint64_t next_tile;   // counts through all frames
    struct tally *tallies;
};

static struct vector scaled_sum(struct vector a, double scale, struct vector b)
{
    return (struct vector){a.x + scale * b.x, a.y + scale * b.y, a.z + scale * b.z};
}

static double product(struct vector a, struct vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static struct vector at_length_1(struct vector a)
{
    return scaled_sum((struct vector){0, 0, 0}, 1 / sqrt(product(a, a)), a);
}

static void make_scene(struct run *run)
{
    for (size_t i = 0; i < run->sphere_count; i++) {
        struct random_sequence sequence = random_numbered(i);
        struct sphere *sphere = &run->spheres[i];
        sphere->radius = 0.15 + 0.25 * random_unit(&sequence);
        sphere->centre.x = 5 * random_unit(&sequence) - 2.5;
        sphere->centre.y = sphere->radius + 1.5 * random_unit(&sequence);
        sphere->centre.z = 5 * random_unit(&sequence) - 2.5;
        sphere->brightness = 0.3 + 0.7 * random_unit(&sequence);
        sphere->mirror = i % 2 == 0 ? 0.6 : 0.1;
    }
}

// Returns the distance to the first point of the sphere in front of the ray, or INFINITY.
static double sphere_distance(const struct sphere *sphere, const struct ray *ray)
{
    struct vector to_centre = scaled_sum(sphere->centre, -1, ray->from);
    double nearest = product(to_centre, ray->along);
    double squared = sphere->radius * sphere->radius -
                     (product(to_centre, to_centre) - nearest * nearest);
    if (squared < 0)
        return INFINITY;
    double half = sqrt(squared);
    // Ignores hits at distance 0: a ray that starts on a sphere must not hit the same point again.
    if (nearest - half > 1e-6)
        return nearest - half;
    return nearest + half > 1e-6 ? nearest + half : INFINITY;
}

static void meet_floor(const struct ray *ray, struct hit *hit)
{
    double distance = -ray->from.y / ray->along.y;
    if (!(distance > 1e-6 && distance < hit->distance))
        return;
    hit->distance = distance;
    hit->at = scaled_sum(ray->from, distance, ray->along);
    hit->normal = (struct vector){0, 1, 0};
    bool dark = ((long)floor(hit->at.x) + (long)floor(hit->at.z)) & 1;
    hit->brightness = dark ? 0.3 : 0.9;
    hit->mirror = 0.15;
}

static struct hit first_hit(const struct run *run, const struct ray *ray)
{
    struct hit hit = {.distance = INFINITY};
    const struct sphere *met = NULL;
    for (size_t i = 0; i < run->sphere_count; i++) {
        double distance = sphere_distance(&run->spheres[i], ray);
        if (distance < hit.distance) {
            hit.distance = distance;
            met = &run->spheres[i];
        }
    }
    if (met != NULL) {
        hit.at = scaled_sum(ray->from, hit.distance, ray->along);
        hit.normal = at_length_1(scaled_sum(hit.at, -1, met->centre));
        hit.brightness = met->brightness;
        hit.mirror = met->mirror;
    }
    meet_floor(ray, &hit);
    return hit;
}

static bool in_shadow(const struct run *run, struct vector at, struct vector to_light)
{
    struct ray ray = {at, to_light};
    for (size_t i = 0; i < run->sphere_count; i++)
        if (sphere_distance(&run->spheres[i], &ray) < INFINITY)
            return true;
    return false;
}

static double light_along(const struct run *run, struct ray ray)
{
    const struct vector to_light = at_length_1((struct vector){0.5, 1, -0.4});
    double light = 0, share = 1;
    for (int bounce = 0; bounce <= BOUNCES; bounce++) {
        struct hit hit = first_hit(run, &ray);
        if (hit.distance == INFINITY)
            return light + share * (0.4 + 0.4 * fabs(ray.along.y));
        double lit = product(hit.normal, to_light);
        if (lit > 0 && !in_shadow(run, hit.at, to_light))
            light += share * (1 - hit.mirror) * hit.brightness * lit;
        share *= hit.mirror;
        double against = product(ray.along, hit.normal);
        ray = (struct ray){hit.at, at_length_1(scaled_sum(ray.along, -2 * against, hit.normal))};
    }
    return light;
}

// The viewpoint moves once around the scene over all frames.
__attribute__((noinline)) static uint8_t pixel_light(const struct run *run, uint64_t frame, size_t x,
                                                     size_t y)
{
    double angle = 2 * M_PI * (double)frame / (double)run->frames;
    struct vector eye = {6 * sin(angle), 2, -6 * cos(angle)};
    struct vector forward = at_length_1((struct vector){-eye.x, -1.2, -eye.z});
    struct vector right = at_length_1((struct vector){forward.z, 0, -forward.x});
    struct vector down = {forward.y * right.z - forward.z * right.y,
                          forward.z * right.x - forward.x * right.z,
                          forward.x * right.y - forward.y * right.x};
    double across = ((double)x + 0.5) / (double)run->image_edge - 0.5;
    double along = ((double)y + 0.5) / (double)run->image_edge - 0.5;
    struct vector towards = scaled_sum(scaled_sum(forward, across, right), along, down);
    double light = light_along(run, (struct ray){eye, at_length_1(towards)});
    return (uint8_t)(255 * fmin(light, 1));
}

// Returns a digest of the tile's pixels and its number, which identifies the frame, too. `image` is NULL if
// only the digest is needed.
static uint64_t render_tile(const struct run *run, uint8_t *image, uint64_t number)
{
    const size_t edge = run->image_edge, tiles_in_row = (edge + TILE - 1) / TILE;
    const uint64_t frame = number / run->tiles;
    const size_t tile = number % run->tiles;
    const size_t first_x = tile % tiles_in_row * TILE, first_y = tile / tiles_in_row * TILE;
    uint64_t digest = mix_bits(number);
    for (size_t y = first_y; y < first_y + TILE && y < edge; y++)
        for (size_t x = first_x; x < first_x + TILE && x < edge; x++) {
            uint8_t light = pixel_light(run, frame, x, y);
            digest = digest_u64(digest, light);
            if (image != NULL)
                image[y * edge + x] = light;
        }
    return digest;
}

static void all_tiles(void *work, size_t thread)
{
    struct run *run = work;
    struct tally *tally = &run->tallies[thread];
    const uint64_t all = run->frames * run->tiles, last_frame = all - run->tiles;
    uint64_t number;
    while ((number = atomic_fetch_add_explicit(&run->next_tile, 1, memory_order_relaxed)) < all) {
        tally->digest += render_tile(run, number >= last_frame ? run->image : NULL, number);
        tally->rendered++;
    }
}

// Renders the last frame again in one thread, and checks that every tile of every frame was rendered once.
static void check_frames(const struct run *run, size_t threads)
{
    size_t pixels = run->image_edge * run->image_edge;
    uint8_t *reference = kernel_array(pixels, sizeof *reference);
    uint64_t rendered = 0;
    for (size_t tile = 0; tile < run->tiles; tile++)
        render_tile(run, reference, (run->frames - 1) * run->tiles + tile);
    if (memcmp(run->image, reference, pixels) != 0)
        check_failed("the last frame is not that of one thread");
    for (size_t i = 0; i < threads; i++)
        rendered += run->tallies[i].rendered;
    if (rendered != run->frames * run->tiles)
        check_failed("%" PRIu64 " tiles were rendered, not %" PRIu64, rendered,
                     run->frames * run->tiles);
    free(reference);
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 256, frames = 24, spheres = 64;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 1, 8192, NULL, "N", "N x N pixels (256)", NULL},
        {"steps", OPTION_COUNT, &frames, 1, 1e6, NULL, "S", "frames (24)", NULL},
        {"spheres", OPTION_COUNT, &spheres, 1, 1e5, NULL, "K", "number of spheres (64)", NULL},
    };
    const struct program program = {
        .name = "kernel-raytrace",
        .summary = "Mirroring spheres over a floor, seen from all sides. Threads take one tile after\n"
                   "the other from a shared atomic counter, through all frames: no barrier and no\n"
                   "waiting but the join.",
        .example = "kernel-raytrace --threads 3 --steps 8 --truth -",
        .checked = "Every tile of every frame rendered once; the last frame against that of one\n"
                   "thread. The checksum, of all pixels of all frames, is the same for any number of\n"
                   "threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    size_t tiles_in_row = (size + TILE - 1) / TILE;
    struct run run = {.image_edge = size, .tiles = tiles_in_row * tiles_in_row,
                      .sphere_count = spheres, .frames = frames};
    run.spheres = kernel_array(spheres, sizeof *run.spheres);
    run.image = kernel_array(size * size, sizeof *run.image);
    run.tallies = kernel_array(kernel.threads, sizeof *run.tallies);
    make_scene(&run);

    crew_run(&kernel, all_tiles, &run);
    check_frames(&run, kernel.threads);
    for (size_t i = 0; i < kernel.threads; i++)
        kernel.checksum += run.tallies[i].digest;
    free(run.tallies);
    free(run.image);
    free(run.spheres);
    return kernel_end(&kernel, &program, "%" PRIu64 "x%" PRIu64 " pixels, %" PRIu64 " frames", size,
                      size, frames);
}
