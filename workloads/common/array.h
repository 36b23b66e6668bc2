// SPDX-License-Identifier: Apache-2.0 OR MIT
// Memory allocation for programs that cannot continue without the memory.
#ifndef COX_WORKLOADS_ARRAY_H
#define COX_WORKLOADS_ARRAY_H

#include <stddef.h>

enum { CACHE_LINE = 64 };

// Returns an array of `count` items, zeroed, with room for at least one item; release it with free().
// `alignment` is a power of two. Ends the program if there is not enough memory.
void *zeroed_array(size_t alignment, size_t count, size_t bytes_each);

#endif
