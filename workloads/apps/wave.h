// SPDX-License-Identifier: Apache-2.0 OR MIT
// The field of `fwi`: two volumes, velocity and stress, in slices. A slice is updated from the other
// volume: from the same slice and its two neighbours. A rank has some of the slices, and copies of the
// adjacent ones.
#ifndef COX_WORKLOADS_APPS_WAVE_H
#define COX_WORKLOADS_APPS_WAVE_H

#include <stddef.h>
#include <stdint.h>

enum volume { VELOCITY, STRESS, VOLUMES };

struct extent {
    size_t x, y, z;
};

struct wave {
    struct extent extent;        // of the whole field
    size_t first, slices;        // slices of this rank
    size_t pitch;                // distance from one row of a slice to the next
    size_t slice_values;         // including a frame of zeros
    double *volumes[VOLUMES];
    double *image;               // sums of products of two fields
    uint64_t work;
};

// Creates the slices [first, first + slices) of the field in its initial state.
void wave_create(struct wave *wave, struct extent extent, size_t first, size_t slices, uint64_t work);
void wave_destroy(struct wave *wave);

// Slices are counted from 1: slices 0 and slices + 1 belong to the other rank, or are beyond the end.
double *wave_slice(const struct wave *wave, enum volume volume, size_t slice);

// Does one step of a slice of a volume.
void wave_update(struct wave *wave, enum volume volume, size_t slice);

// Adds the product of stress and `snapshot`, an earlier stress of the same slice, to the image.
void wave_correlate(struct wave *wave, size_t slice, const double *snapshot);

// Returns the sum of the digests of all slices of the image and of both volumes. Exit 1 if a value is not
// finite.
uint64_t wave_checksum(const struct wave *wave);

// Does one step of all slices, one after the other.
void wave_step(struct wave *whole);
// Exit 1 unless each value here has the same bits as in the whole field.
void wave_compare(const struct wave *wave, const struct wave *whole);

#endif
