// SPDX-License-Identifier: Apache-2.0 OR MIT
// A small LZ77 compressor: matches within the last 64 KiB, found by a hash of four bytes.
#ifndef COX_WORKLOADS_BLOCKED_SQUEEZE_H
#define COX_WORKLOADS_BLOCKED_SQUEEZE_H

#include <stddef.h>
#include <stdint.h>

enum { SQUEEZE_MAX = 65536 };    // maximum bytes of a block

// Returns the maximum compressed size of a block of this size.
size_t squeeze_bound(size_t bytes);

// Compresses a block. Returns the compressed size. `out` must have room for squeeze_bound(bytes).
size_t squeeze(const uint8_t *in, size_t bytes, uint8_t *out);

// Decompresses a block. Returns its size, at most `room`, or 0 if `in` is not a compressed block.
size_t unsqueeze(const uint8_t *in, size_t bytes, uint8_t *out, size_t room);

#endif
