// SPDX-License-Identifier: Apache-2.0 OR MIT
// The size of the machine's last-level cache.
#ifndef COX_WORKLOADS_CACHE_H
#define COX_WORKLOADS_CACHE_H

#include <stdint.h>

// Returns the size of CPU 0's last-level data cache in bytes, or 32 MiB if the kernel does not report it.
uint64_t last_level_cache_bytes(void);

#endif
