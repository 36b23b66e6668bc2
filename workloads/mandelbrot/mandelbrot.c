// SPDX-License-Identifier: Apache-2.0 OR MIT
// Three parallel loops over the pixels of the Mandelbrot set per time step. Over the steps, the load
// imbalance of the first loop stays constant, that of the second rises, and that of the third falls. See
// --help.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "team.h"
#include "truth.h"

// A square in the complex plane.
struct view {
    double centre_re, centre_im;
    double half_width;
};

enum loop_kind { LOOP_CONSTANT, LOOP_RISING, LOOP_FALLING, LOOP_COUNT };

static const char *const loop_names[LOOP_COUNT] = {"constant", "rising", "falling"};

struct picture {
    long size;              // pixels along an edge
    long steps;
    unsigned iteration_limit;
};

// With `imbalance` 0, the view is inside the main cardioid: every pixel takes all iterations. With
// 1, it shows the upper edge of the set from further away: the rows above the set cost nearly
// nothing, so equal blocks of rows are unequal work for any number of threads. With two or four
// threads and static blocks, the load imbalance (LIB) is 0 for `imbalance` 0, about a fifth to a
// quarter for 0.5, and over 3/4 for 1.
static struct view view_for(double imbalance)
{
    const struct view balanced = {-0.2, 0.0, 0.2};
    const struct view unbalanced = {-0.35, 0.75, 0.65};
    return (struct view){
        .centre_re = balanced.centre_re + imbalance * (unbalanced.centre_re - balanced.centre_re),
        .centre_im = balanced.centre_im + imbalance * (unbalanced.centre_im - balanced.centre_im),
        // A zoom by a constant factor per step.
        .half_width =
            balanced.half_width * pow(unbalanced.half_width / balanced.half_width, imbalance),
    };
}

static struct view view_at(enum loop_kind loop, long step, long steps)
{
    double progress = steps > 1 ? (double)step / (double)(steps - 1) : 0.5;
    switch (loop) {
    case LOOP_RISING: return view_for(progress);
    case LOOP_FALLING: return view_for(1 - progress);
    default: return view_for(0.5);
    }
}

// Returns the number of iterations until the pixel's orbit leaves the circle of radius 2, or the limit.
__attribute__((noinline)) static unsigned pixel_iterations(const struct picture *picture,
                                                           struct view view, long pixel)
{
    double scale = 2 * view.half_width / (double)picture->size;
    double c_re = view.centre_re - view.half_width + scale * ((double)(pixel % picture->size) + 0.5);
    double c_im = view.centre_im - view.half_width + scale * ((double)(pixel / picture->size) + 0.5);
    double re = 0, im = 0;
    unsigned count = 0;
    while (count < picture->iteration_limit && re * re + im * im <= 4) {
        double next_re = re * re - im * im + c_re;
        im = 2 * re * im + c_im;
        re = next_re;
        count++;
    }
    return count;
}

// The digest depends on pixel and count, and the sum of digests does not depend on their order. A pixel
// that is omitted, counted twice or computed for another one changes the sum.
static uint64_t pixel_digest(long pixel, unsigned count)
{
    uint64_t mixed = ((uint64_t)pixel << 32 | count) * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= mixed >> 29;
    return mixed * UINT64_C(0xbf58476d1ce4e5b9);
}

// Sums over the pixels of a loop.
struct loop_sums {
    uint64_t checksum;
    uint64_t iterations;    // of all pixels' orbits
};

// Floating-point operations of an iteration of an orbit: the squares of re and im, their sum and difference, twice
// re times im, and the additions of c. Comparisons do not count. The loops move no memory.
enum { OPERATIONS_PER_ITERATION = 8 };

static struct loop_sums constant_loop(const struct picture *picture, struct view view)
{
    const long pixels = picture->size * picture->size;
    uint64_t checksum = 0, iterations = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : checksum, iterations)
    for (long pixel = 0; pixel < pixels; pixel++) {
        unsigned count = pixel_iterations(picture, view, pixel);
        checksum += pixel_digest(pixel, count);
        iterations += count;
    }
    return (struct loop_sums){checksum, iterations};
}

static struct loop_sums rising_loop(const struct picture *picture, struct view view)
{
    const long pixels = picture->size * picture->size;
    uint64_t checksum = 0, iterations = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : checksum, iterations)
    for (long pixel = 0; pixel < pixels; pixel++) {
        unsigned count = pixel_iterations(picture, view, pixel);
        checksum += pixel_digest(pixel, count);
        iterations += count;
    }
    return (struct loop_sums){checksum, iterations};
}

static struct loop_sums falling_loop(const struct picture *picture, struct view view)
{
    const long pixels = picture->size * picture->size;
    uint64_t checksum = 0, iterations = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : checksum, iterations)
    for (long pixel = 0; pixel < pixels; pixel++) {
        unsigned count = pixel_iterations(picture, view, pixel);
        checksum += pixel_digest(pixel, count);
        iterations += count;
    }
    return (struct loop_sums){checksum, iterations};
}

// Three separate functions, so that tools that identify loops by their code can distinguish them.
static struct loop_sums (*const loop_bodies[LOOP_COUNT])(const struct picture *, struct view) = {
    constant_loop, rising_loop, falling_loop};

static uint64_t serial_loop(const struct picture *picture, struct view view)
{
    uint64_t checksum = 0;
    for (long pixel = 0; pixel < picture->size * picture->size; pixel++)
        checksum += pixel_digest(pixel, pixel_iterations(picture, view, pixel));
    return checksum;
}

// Combines the checksums of a loop's steps; because of the multiplication, the order of the steps matters.
static uint64_t add_step(uint64_t checksum, uint64_t step_checksum)
{
    return checksum * UINT64_C(0x100000001b3) + step_checksum;
}

static void verify(const struct picture *picture, const uint64_t checksums[LOOP_COUNT])
{
    for (enum loop_kind loop = 0; loop < LOOP_COUNT; loop++) {
        uint64_t reference = 0;
        for (long step = 0; step < picture->steps; step++)
            reference = add_step(reference,
                                 serial_loop(picture, view_at(loop, step, picture->steps)));
        if (checksums[loop] != reference)
            check_failed("the %s loop has checksum 0x%016" PRIx64 ", the serial reference 0x%016"
                         PRIx64, loop_names[loop], checksums[loop], reference);
    }
}

int main(int argc, char **argv)
{
    // Up to this number of pixels in all loops and steps, the serial reference takes well under a second.
    const uint64_t small_pixels = 3 * 128 * 128 * 10;
    uint64_t size = 512, steps = 10, iteration_limit = 200, threads = 0;
    bool verify_given = false, no_verify = false;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},
        {"size", OPTION_COUNT, &size, 1, 32768, NULL, "N", "N x N pixels (512)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "T", "time steps (10)", NULL},
        {"iteration-limit", OPTION_COUNT, &iteration_limit, 1, 1e6, NULL, "M",
         "iterations of a pixel inside the set (200)", NULL},
        {"verify", OPTION_FLAG, &verify_given, 0, 0, NULL, NULL,
         "compare with a serial run (default for small pictures)", NULL},
        {"no-verify", OPTION_FLAG, &no_verify, 0, 0, NULL, NULL, "do not compare", NULL},
    };
    const struct program program = {
        .name = "mandelbrot",
        .summary = "Per time step three OpenMP loops over all pixels, schedule(runtime): what\n"
                   "OMP_SCHEDULE says, else static. The load imbalance of the first is the same in\n"
                   "every step, that of the second rises, that of the third falls: the view zooms\n"
                   "between inside the set, where every pixel costs the same, and its upper edge.",
        .example = "OMP_SCHEDULE=dynamic,64 mandelbrot --steps 10\n"
                   "OMP_SCHEDULE=guided mandelbrot --size 128 --verify --truth -",
        .checked = "The sum over all pixels of a digest of (pixel, iterations) per loop and step,\n"
                   "against a serial run; it is the same for every schedule.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (verify_given && no_verify)
        bad_input("give --verify or --no-verify, not both");

    const struct picture picture = {(long)size, (long)steps, (unsigned)iteration_limit};
    threads = team_prepare(threads);
    uint64_t checksums[LOOP_COUNT] = {0}, loop_ns[LOOP_COUNT] = {0}, iterations = 0;
    struct team team;
    team_begin(&team, truth_wanted(&truth));
    uint64_t begin_ns = monotonic_ns();
    for (long step = 0; step < picture.steps; step++) {
        for (enum loop_kind loop = 0; loop < LOOP_COUNT; loop++) {
            uint64_t loop_begin_ns = monotonic_ns();
            struct loop_sums sums = loop_bodies[loop](&picture, view_at(loop, step, picture.steps));
            checksums[loop] = add_step(checksums[loop], sums.checksum);
            iterations += sums.iterations;
            loop_ns[loop] += monotonic_ns() - loop_begin_ns;
        }
    }
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    team_end(&team);
    bool verified = verify_given || (!no_verify && 3 * size * size * steps <= small_pixels);
    if (verified)
        verify(&picture, checksums);

    uint64_t checksum = 0;
    for (enum loop_kind loop = 0; loop < LOOP_COUNT; loop++)
        checksum = add_step(checksum, checksums[loop]);
    char schedule[32];
    runtime_schedule_text(schedule, sizeof schedule);
    printf("mandelbrot: %" PRIu64 "x%" PRIu64 " pixels, %" PRIu64 " steps, %" PRIu64
           " threads, schedule %s: %.4f s\n",
           size, size, steps, threads, schedule, (double)elapsed_ns / NS_PER_SECOND);
    printf("checksum 0x%016" PRIx64 "%s\n", checksum, verified ? ", verified" : "");
    truth_begin(&truth, "mandelbrot");
    truth_u64(&truth, "size", size);
    truth_u64(&truth, "steps", steps);
    truth_string(&truth, "schedule", schedule);
    truth_u64(&truth, "elapsed_ns", elapsed_ns);
    truth_u64(&truth, "operations", OPERATIONS_PER_ITERATION * iterations);
    truth_u64(&truth, "bytes", 0);
    truth_hex(&truth, "checksum", checksum);
    truth_bool(&truth, "verified", verified);
    truth_array_begin(&truth, "loops");
    for (enum loop_kind loop = 0; loop < LOOP_COUNT; loop++) {
        truth_object_begin(&truth);
        truth_string(&truth, "name", loop_names[loop]);
        truth_u64(&truth, "ns", loop_ns[loop]);
        truth_hex(&truth, "checksum", checksums[loop]);
        truth_object_end(&truth);
    }
    truth_array_end(&truth);
    team_truth(&truth, &team);
    truth_end(&truth);
    team_destroy(&team);
    return program_end();
}
