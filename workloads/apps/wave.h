// SPDX-License-Identifier: Apache-2.0 OR MIT
// The field of `fwi`: two volumes, velocity and stress, in slices. Each is updated from the other: from
// the same slice and the two beside it. A rank has some of the slices and a copy of those next to them.
#ifndef COX_WORKLOADS_APPS_WAVE_H
#define COX_WORKLOADS_APPS_WAVE_H

#include <stddef.h>
#include <stdint.h>

enum volume { VELOCITY, STRESS, VOLUMES };

struct extent {
    size_t x, y, z;
};

struct wave {
    struct extent extent;        // of the whole
    size_t first, slices;        // that are here
    size_t pitch;                // from a row of a slice to the next
    size_t slice_values;         // with a frame of zeros
    double *volumes[VOLUMES];
    double *image;               // sums of products of two fields
    uint64_t work;
};

// The slices [first, first + slices) of the field as it is at the start.
void wave_create(struct wave *wave, struct extent extent, size_t first, size_t slices, uint64_t work);
void wave_destroy(struct wave *wave);

// Slices are counted from 1: 0 and slices + 1 are those of the other rank, or beyond the end.
double *wave_slice(const struct wave *wave, enum volume volume, size_t slice);

// One step of a slice of a volume.
void wave_update(struct wave *wave, enum volume volume, size_t slice);

// Adds to the image the product of stress and `snapshot`, an earlier stress of this slice.
void wave_correlate(struct wave *wave, size_t slice, const double *snapshot);

// The sum of the digests of all slices of the image and of both volumes. Exit 1 when a value is not finite.
uint64_t wave_checksum(const struct wave *wave);

// All slices, one after the other.
void wave_step(struct wave *whole);
// Exit 1 unless each value here is the same bits as in the whole.
void wave_compare(const struct wave *wave, const struct wave *whole);

#endif
