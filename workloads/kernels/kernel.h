// SPDX-License-Identifier: Apache-2.0 OR MIT
// What all kernels share: the number of threads, static shares, numbers that look random but belong
// to a number, digests of results, and the report at the end. How threads are started is in crew.h
// (pthreads) and region.h (OpenMP).
#ifndef COX_WORKLOADS_KERNEL_H
#define COX_WORKLOADS_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "members.h"
#include "options.h"
#include "truth.h"

enum { KERNEL_MAX_THREADS = 64 };

struct kernel {
    struct truth truth;
    struct team team;        // filled while the threads run, if a truth is wanted
    uint64_t threads;
    uint64_t elapsed_ns;     // from before the threads start until all are done
    uint64_t phases;         // times that all threads had met, the end among them
    uint64_t checksum;
};

// The row of --threads in the option table of every kernel.
#define KERNEL_THREADS(kernel)                                                                     \
    {                                                                                              \
        "threads", OPTION_COUNT, &(kernel)->threads, 1, KERNEL_MAX_THREADS, NULL, "N",             \
            "threads, the main thread among them (one per allowed CPU)", NULL                      \
    }

// program_start, and the number of threads when none was given.
void kernel_start(struct kernel *kernel, const struct program *program, int argc, char **argv);

// Prints the elapsed time with `format` saying what was done, then the checksum, and writes the
// truth: the last statement of every main.
int kernel_end(struct kernel *kernel, const struct program *program, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Zeroed and aligned to cache lines; ends the program when there is not enough memory.
void *kernel_array(size_t count, size_t bytes_each);

// A contiguous part of a number of items.
struct share {
    size_t begin, end;
};

// Shares differ by at most one item; a thread more than there are items has an empty share.
static inline struct share share_of(size_t items, size_t threads, size_t thread)
{
    return (struct share){items * thread / threads, items * (thread + 1) / threads};
}

// Scatters all bits: the output step of SplitMix64.
static inline uint64_t mix_bits(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

// A sequence that belongs to a number (of a body, a path, a move), so that it does not matter which
// thread draws from it, nor when.
struct random_sequence {
    uint64_t state;
};

static inline struct random_sequence random_numbered(uint64_t number)
{
    return (struct random_sequence){mix_bits(number + UINT64_C(0x9e3779b97f4a7c15))};
}

static inline uint64_t random_bits(struct random_sequence *sequence)
{
    return mix_bits(sequence->state += UINT64_C(0x9e3779b97f4a7c15));
}

// In [0, 1).
static inline double random_unit(struct random_sequence *sequence)
{
    return (double)(random_bits(sequence) >> 11) * 0x1p-53;
}

// In [0, limit), which must be below 2^32.
static inline uint64_t random_below(struct random_sequence *sequence, uint64_t limit)
{
    return (random_bits(sequence) >> 32) * limit >> 32;
}

// The order of what is added counts.
static inline uint64_t digest_u64(uint64_t digest, uint64_t value)
{
    return mix_bits(digest ^ value) + UINT64_C(0x9e3779b97f4a7c15);
}

// Adds all bits of each value: two results that differ in rounding have different digests.
uint64_t digest_doubles(uint64_t digest, const double *values, size_t count);

#endif
