// SPDX-License-Identifier: Apache-2.0 OR MIT
// A small compressor of the LZ77 family: matches of the last 64 KiB, found by a hash of four bytes.
#ifndef COX_WORKLOADS_BLOCKED_SQUEEZE_H
#define COX_WORKLOADS_BLOCKED_SQUEEZE_H

#include <stddef.h>
#include <stdint.h>

enum { SQUEEZE_MAX = 65536 };    // bytes of a block at most

// The most bytes that a block of this size can become.
size_t squeeze_bound(size_t bytes);

// Compresses a block; returns how many bytes it has become. `out` has room for squeeze_bound(bytes).
size_t squeeze(const uint8_t *in, size_t bytes, uint8_t *out);

// Returns the bytes of the block, at most `room`; 0 when `in` is no compressed block.
size_t unsqueeze(const uint8_t *in, size_t bytes, uint8_t *out, size_t room);

#endif
