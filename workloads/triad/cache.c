// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

// Reads the first line of /sys/devices/system/cpu/cpu0/cache/indexN/FILE.
static bool read_attribute(unsigned index, const char *file, char *line, int bytes)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/%s", index, file);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    bool read = fgets(line, bytes, stream) != NULL;
    fclose(stream);
    return read;
}

// The kernel writes sizes as "32768K".
static uint64_t parse_size(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    switch (*end) {
    case 'K': return value << 10;
    case 'M': return value << 20;
    case 'G': return value << 30;
    default: return value;
    }
}

uint64_t last_level_cache_bytes(void)
{
    const uint64_t fallback_bytes = UINT64_C(32) << 20;
    uint64_t bytes = 0;
    unsigned long highest_level = 0;
    char level[32], type[32], size[32];
    for (unsigned index = 0; read_attribute(index, "level", level, sizeof level) &&
                             read_attribute(index, "type", type, sizeof type) &&
                             read_attribute(index, "size", size, sizeof size);
         index++) {
        if (type[0] == 'I' || strtoul(level, NULL, 10) < highest_level)
            continue;    // instruction cache, or closer to the core
        highest_level = strtoul(level, NULL, 10);
        bytes = parse_size(size);
    }
    return bytes != 0 ? bytes : fallback_bytes;
}
