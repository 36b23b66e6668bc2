// SPDX-License-Identifier: Apache-2.0 OR MIT
// Format: two kinds of items. A byte n < 128 is followed by n + 1 literal bytes. A byte 128 + n is followed
// by a two-byte distance (minus one), and stands for a copy of n + 4 bytes from that distance.
#include "squeeze.h"

#include <string.h>

enum { SHORTEST = 4, LONGEST = SHORTEST + 127, LITERALS = 128, HASH_BITS = 12 };

size_t squeeze_bound(size_t bytes)
{
    return bytes + bytes / LITERALS + 1;
}

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static uint8_t *put_literals(const uint8_t *from, const uint8_t *end, uint8_t *to)
{
    while (from < end) {
        size_t count = (size_t)(end - from) < LITERALS ? (size_t)(end - from) : LITERALS;
        *to++ = (uint8_t)(count - 1);
        memcpy(to, from, count);
        to += count;
        from += count;
    }
    return to;
}

size_t squeeze(const uint8_t *in, size_t bytes, uint8_t *out)
{
    uint16_t latest[1 << HASH_BITS] = {0};
    const uint8_t *at = in, *literals = in, *end = in + bytes;
    uint8_t *to = out;
    while (end - at >= SHORTEST) {
        uint16_t *slot = &latest[word_at(at) * UINT32_C(2654435761) >> (32 - HASH_BITS)];
        const uint8_t *earlier = in + *slot;
        *slot = (uint16_t)(at - in);
        if (earlier >= at || word_at(earlier) != word_at(at)) {
            at++;
            continue;
        }
        size_t most = (size_t)(end - at) < LONGEST ? (size_t)(end - at) : LONGEST;
        size_t length = SHORTEST;
        while (length < most && earlier[length] == at[length])
            length++;
        size_t distance = (size_t)(at - earlier) - 1;
        to = put_literals(literals, at, to);
        *to++ = (uint8_t)(LITERALS + (length - SHORTEST));
        *to++ = (uint8_t)distance;
        *to++ = (uint8_t)(distance >> 8);
        at += length;
        literals = at;
    }
    return (size_t)(put_literals(literals, end, to) - out);
}

size_t unsqueeze(const uint8_t *in, size_t bytes, uint8_t *out, size_t room)
{
    size_t at = 0, to = 0;
    while (at < bytes) {
        size_t item = in[at++];
        if (item < LITERALS) {
            size_t count = item + 1;
            if (count > bytes - at || count > room - to)
                return 0;
            memcpy(out + to, in + at, count);
            at += count;
            to += count;
            continue;
        }
        size_t length = item - LITERALS + SHORTEST;
        if (bytes - at < 2)
            return 0;
        size_t distance = (size_t)(in[at] | in[at + 1] << 8) + 1;
        at += 2;
        if (distance > to || length > room - to)
            return 0;
        // Copy byte by byte: source and destination may overlap.
        for (size_t i = 0; i < length; i++, to++)
            out[to] = out[to - distance];
    }
    return to;
}
