// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "fail.h"

// Constants of Knuth's MMIX generator.
#define STEP_MULTIPLIER UINT64_C(6364136223846793005)
#define STEP_INCREMENT UINT64_C(1442695040888963407)

enum { LINE_BYTES = 64, CELLS_PER_LINE = LINE_BYTES / sizeof(uint64_t) };

void working_set_create(struct working_set *set, uint64_t bytes)
{
    *set = (struct working_set){0};
    if (bytes == 0)
        return;
    set->lines = (size_t)((bytes + LINE_BYTES - 1) / LINE_BYTES);
    set->cells = aligned_alloc(LINE_BYTES, set->lines * LINE_BYTES);
    if (set->cells == NULL)
        system_failed("allocate a working set of %llu bytes", (unsigned long long)bytes);
    memset(set->cells, 0, set->lines * LINE_BYTES);
}

void working_set_destroy(struct working_set *set)
{
    free(set->cells);
    *set = (struct working_set){0};
}

uint64_t working_set_touches(const struct working_set *set)
{
    uint64_t touches = 0;
    for (size_t line = 0; line < set->lines; line++)
        touches += set->cells[line * CELLS_PER_LINE];
    return touches;
}

__attribute__((noinline)) uint64_t calibrated_work(uint64_t seed, uint64_t iterations,
                                                   struct working_set *set)
{
    uint64_t value = seed;
    if (set->cells == NULL) {
        for (uint64_t i = 0; i < iterations; i++) {
            value = value * STEP_MULTIPLIER + STEP_INCREMENT;
            // Prevents the compiler from merging or unrolling steps: a step must cost the same in every
            // build.
            __asm__ volatile("" : "+r"(value));
        }
        return value;
    }
    size_t line = set->next_line;
    for (uint64_t i = 0; i < iterations; i++) {
        value = value * STEP_MULTIPLIER + STEP_INCREMENT;
        __asm__ volatile("" : "+r"(value));
        set->cells[line * CELLS_PER_LINE]++;
        if (++line == set->lines)
            line = 0;
    }
    set->next_line = line;
    return value;
}

struct work_answer work_answer_for(uint64_t iterations)
{
    // Exponentiation by squaring, for affine maps: `power` is 2^k steps, `all` the steps collected so far.
    struct work_answer all = {1, 0};
    struct work_answer power = {STEP_MULTIPLIER, STEP_INCREMENT};
    for (uint64_t rest = iterations; rest != 0; rest >>= 1) {
        if (rest & 1) {
            all.multiplier *= power.multiplier;
            all.increment = power.multiplier * all.increment + power.increment;
        }
        power.increment = power.multiplier * power.increment + power.increment;
        power.multiplier *= power.multiplier;
    }
    return all;
}

double work_calibrate(struct working_set *set)
{
    enum { TRIALS = 5 };
    const uint64_t trial_ns = 4 * NS_PER_MS;
    double best_per_us = 0;
    // First find a number of iterations that takes long enough, then repeat it. The search also walks
    // through the working set and warms the caches.
    uint64_t iterations = 10000, used_ns = 0;
    for (int trial = 0; trial < TRIALS;) {
        uint64_t begin_ns = thread_cpu_ns();
        uint64_t value = calibrated_work(iterations, iterations, set);
        used_ns = thread_cpu_ns() - begin_ns;
        if (value != work_answer(work_answer_for(iterations), iterations))
            check_failed("calibration work has a wrong result");
        if (used_ns < trial_ns) {
            iterations *= 2;
            continue;
        }
        best_per_us = fmax(best_per_us, (double)iterations * NS_PER_US / (double)used_ns);
        trial++;
    }
    return best_per_us;
}

uint64_t work_iterations(uint64_t work_ns, double iterations_per_us)
{
    if (work_ns == 0)
        return 0;
    double iterations = (double)work_ns / NS_PER_US * iterations_per_us;
    return iterations < 1 ? 1 : (uint64_t)llround(iterations);
}
