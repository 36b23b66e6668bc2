// SPDX-License-Identifier: Apache-2.0 OR MIT
// Static shares, pseudorandom numbers that depend only on an index, and digests of results.
#ifndef COX_WORKLOADS_NUMBERS_H
#define COX_WORKLOADS_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

// A contiguous range of items.
struct share {
    size_t begin, end;
};

// Returns the share of a thread. Shares differ by at most one item; surplus threads have empty shares.
static inline struct share share_of(size_t items, size_t threads, size_t thread)
{
    return (struct share){items * thread / threads, items * (thread + 1) / threads};
}

// Mixes all bits: the output step of SplitMix64.
static inline uint64_t mix_bits(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

// A pseudorandom sequence that depends only on a number (of a body, a path, a move), so the result does not
// depend on which thread draws from it, nor when.
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

// Returns a value in [0, 1).
static inline double random_unit(struct random_sequence *sequence)
{
    return (double)(random_bits(sequence) >> 11) * 0x1p-53;
}

// Returns a value in [0, limit); `limit` must be below 2^32.
static inline uint64_t random_below(struct random_sequence *sequence, uint64_t limit)
{
    return (random_bits(sequence) >> 32) * limit >> 32;
}

// Adds a value to a digest; the order of the values matters.
static inline uint64_t digest_u64(uint64_t digest, uint64_t value)
{
    return mix_bits(digest ^ value) + UINT64_C(0x9e3779b97f4a7c15);
}

// Adds all bits of each value, so results that differ only in rounding have different digests.
uint64_t digest_doubles(uint64_t digest, const double *values, size_t count);

#endif
