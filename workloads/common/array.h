// SPDX-License-Identifier: Apache-2.0 OR MIT
// Memory of a program that cannot go on without it.
#ifndef COX_WORKLOADS_ARRAY_H
#define COX_WORKLOADS_ARRAY_H

#include <stddef.h>

enum { CACHE_LINE = 64 };

// `count` items, at least one, zeroed; free() takes it. `alignment` is a power of two. Ends the program
// when there is not enough memory.
void *zeroed_array(size_t alignment, size_t count, size_t bytes_each);

#endif
