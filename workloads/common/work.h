// SPDX-License-Identifier: Apache-2.0 OR MIT
// CPU work, counted in loop iterations: preemption delays the work but does not reduce it.
//
// One iteration is one step of a 64-bit linear congruential sequence (a dependent multiply and add),
// optionally followed by one increment in a working set. The n-th value of the sequence has a closed form,
// so a few nanoseconds suffice to check that all n iterations were done.
#ifndef COX_WORKLOADS_WORK_H
#define COX_WORKLOADS_WORK_H

#include <stddef.h>
#include <stdint.h>

// Memory that the work walks through, one 64-byte line per iteration.
struct working_set {
    uint64_t *cells;    // NULL: the work touches no memory
    size_t lines;
    size_t next_line;
};

// `bytes` 0 makes an empty set; otherwise the size is rounded up to whole lines. All pages are touched.
void working_set_create(struct working_set *set, uint64_t bytes);
void working_set_destroy(struct working_set *set);
// Returns how many iterations have touched the set so far.
uint64_t working_set_touches(const struct working_set *set);

// Does `iterations` steps from `seed` and returns the last value.
uint64_t calibrated_work(uint64_t seed, uint64_t iterations, struct working_set *set);

// The closed form of a fixed number of iterations: result = multiplier * seed + increment.
struct work_answer {
    uint64_t multiplier;
    uint64_t increment;
};

struct work_answer work_answer_for(uint64_t iterations);

static inline uint64_t work_answer(struct work_answer answer, uint64_t seed)
{
    return answer.multiplier * seed + answer.increment;
}

// Returns a seed that differs for every pair of numbers.
static inline uint64_t work_seed(uint64_t thread, uint64_t round)
{
    return (round + 1) * UINT64_C(0x9e3779b97f4a7c15) + thread * UINT64_C(0xd1342543de82ef95);
}

// Returns iterations per microsecond of the caller's CPU time with this working set: the best of several
// trials, because disturbances only slow a trial down.
double work_calibrate(struct working_set *set);

// Converts a time to iterations: at least one if the time is not 0.
uint64_t work_iterations(uint64_t work_ns, double iterations_per_us);

// Call inside a loop that waits for memory to change.
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
#error "cpu_relax: say how this processor waits in a loop"
#endif
}

#endif
