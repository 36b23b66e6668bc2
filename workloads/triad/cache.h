// SPDX-License-Identifier: Apache-2.0 OR MIT
// The size of the machine's last-level cache.
#ifndef COX_WORKLOADS_CACHE_H
#define COX_WORKLOADS_CACHE_H

#include <stdint.h>

// Bytes of the last-level data cache of CPU 0; 32 MiB where the kernel does not say.
uint64_t last_level_cache_bytes(void);

#endif
