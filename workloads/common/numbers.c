// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "numbers.h"

#include <string.h>

uint64_t digest_doubles(uint64_t digest, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        digest = digest_u64(digest, bits);
    }
    return digest;
}
