// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "ring.h"

#include "array.h"
#include "fail.h"
#include "numbers.h"

double *ring_create(size_t rings, size_t count)
{
    double *values = zeroed_array(CACHE_LINE, rings * count, sizeof *values);
    for (size_t at = 0; at < rings * count; at++) {
        struct random_sequence sequence = random_numbered(at % count);
        values[at] = random_unit(&sequence);
    }
    return values;
}

uint64_t ring_checksum(const double *values, size_t count)
{
    for (size_t at = 0; at < count; at++)
        if (!(values[at] > -DAMPING && values[at] < 1))
            check_failed("value %zu is %g", at, values[at]);
    return digest_doubles(0, values, count);
}
