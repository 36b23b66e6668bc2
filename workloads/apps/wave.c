// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "wave.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "damped.h"
#include "fail.h"
#include "numbers.h"

// A volume changes by the other volume, and by the difference of that to its neighbours. With L between -12
// and 0, the waves of a leapfrog scheme stay bounded if stress.same + stress.difference L is positive and its
// product with velocity.difference L is above -4: here they are at least 0 and -1.2.
static const struct {
    double same, difference;
} growth[VOLUMES] = {[VELOCITY] = {0, 0.5}, [STRESS] = {0.4, 0.4 / 12}};

// Pseudorandom values. In a field that is zero except for a source, most values would be denormal for a
// long time, and arithmetic on denormals is a hundred times slower.
static double first_value(struct extent extent, enum volume volume, size_t y, size_t z, size_t x)
{
    if (y == 0 || y > extent.y || z == 0 || z > extent.z || x == 0 || x > extent.x)
        return 0;
    struct random_sequence sequence =
        random_numbered((((uint64_t)y * (extent.z + 2) + z) * (extent.x + 2) + x) * VOLUMES + volume);
    return random_unit(&sequence) - 0.5;
}

void wave_create(struct wave *wave, struct extent extent, size_t first, size_t slices, uint64_t work)
{
    *wave = (struct wave){.extent = extent, .first = first, .slices = slices,
                          .pitch = extent.x + 2, .work = work};
    wave->slice_values = wave->pitch * (extent.z + 2);
    size_t count = (slices + 2) * wave->slice_values;
    wave->image = zeroed_array(CACHE_LINE, count, sizeof(double));
    for (enum volume volume = 0; volume < VOLUMES; volume++) {
        wave->volumes[volume] = zeroed_array(CACHE_LINE, count, sizeof(double));
        for (size_t slice = 0; slice < slices + 2; slice++)
            for (size_t i = 0; i < wave->slice_values; i++)
                wave_slice(wave, volume, slice)[i] =
                    first_value(extent, volume, first + slice, i / wave->pitch, i % wave->pitch);
    }
}

void wave_destroy(struct wave *wave)
{
    for (enum volume volume = 0; volume < VOLUMES; volume++)
        free(wave->volumes[volume]);
    free(wave->image);
}

double *wave_slice(const struct wave *wave, enum volume volume, size_t slice)
{
    return &wave->volumes[volume][slice * wave->slice_values];
}

void wave_update(struct wave *wave, enum volume volume, size_t slice)
{
    const size_t pitch = wave->pitch, plane = wave->slice_values;
    const double same = growth[volume].same, difference = growth[volume].difference;
    for (size_t z = 1; z <= wave->extent.z; z++) {
        double *row = wave_slice(wave, volume, slice) + z * pitch;
        const double *other = wave_slice(wave, 1 - volume, slice) + z * pitch;
        for (size_t x = 1; x <= wave->extent.x; x++) {
            const double *at = &other[x];
            double around = (at[-1] + at[1]) + (*(at - pitch) + at[pitch]) + (*(at - plane) + at[plane]);
            row[x] = damped(row[x] + same * *at + difference * (around - 6 * *at), wave->work);
        }
    }
}

static double *image_slice(const struct wave *wave, size_t slice)
{
    return &wave->image[slice * wave->slice_values];
}

void wave_correlate(struct wave *wave, size_t slice, const double *snapshot)
{
    const double *stress = wave_slice(wave, STRESS, slice);
    double *image = image_slice(wave, slice);
    for (size_t i = 0; i < wave->slice_values; i++)
        image[i] += stress[i] * snapshot[i];
}

uint64_t wave_checksum(const struct wave *wave)
{
    uint64_t sum = 0;
    for (size_t slice = 1; slice <= wave->slices; slice++) {
        const double *const parts[] = {wave_slice(wave, VELOCITY, slice),
                                       wave_slice(wave, STRESS, slice), image_slice(wave, slice)};
        uint64_t digest = wave->first + slice;
        for (size_t part = 0; part < 3; part++) {
            for (size_t i = 0; i < wave->slice_values; i++)
                if (!isfinite(parts[part][i]))
                    check_failed("value %zu of slice %zu is %g", i, slice - 1, parts[part][i]);
            digest = digest_doubles(digest, parts[part], wave->slice_values);
        }
        sum += digest;
    }
    return sum;
}

void wave_step(struct wave *whole)
{
    for (enum volume volume = 0; volume < VOLUMES; volume++)
        for (size_t slice = 1; slice <= whole->slices; slice++)
            wave_update(whole, volume, slice);
}

void wave_compare(const struct wave *wave, const struct wave *whole)
{
    const size_t bytes = wave->slice_values * sizeof(double);
    for (size_t slice = 1; slice <= wave->slices; slice++) {
        size_t there = wave->first + slice;
        for (enum volume volume = 0; volume < VOLUMES; volume++)
            if (memcmp(wave_slice(wave, volume, slice), wave_slice(whole, volume, there), bytes) != 0)
                check_failed("slice %zu differs from the result of a loop without tasks", there - 1);
        if (memcmp(image_slice(wave, slice), image_slice(whole, there), bytes) != 0)
            check_failed("the image of slice %zu differs from the result of a loop without tasks", there - 1);
    }
}
