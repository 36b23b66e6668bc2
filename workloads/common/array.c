// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

void *zeroed_array(size_t alignment, size_t count, size_t bytes_each)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes) || bytes > PTRDIFF_MAX - alignment)
        not_possible_here("%zu items of %zu bytes do not fit into the address space", count,
                          bytes_each);
    size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void *array = aligned_alloc(alignment, whole > 0 ? whole : alignment);
    if (array == NULL)
        system_failed("allocate %zu bytes", bytes);
    return memset(array, 0, bytes);
}
