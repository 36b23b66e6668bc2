// SPDX-License-Identifier: Apache-2.0 OR MIT
// Kind sync: a block is written and flushed to the disk, which answers with interrupts and wakes kernel threads.
// An event is the write and the fdatasync.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "fail.h"
#include "inject.h"
#include "scratch.h"

// Fills the block with the low byte of the event's number.
static void write_and_flush(struct worker *me, uint64_t number)
{
    memset(me->memory, (int)(number & 0xff), me->injection->bytes);
    if (pwrite(me->fd, me->memory, me->injection->bytes, 0) != (ssize_t)me->injection->bytes)
        system_failed("write a block");
    if (fdatasync(me->fd) != 0)
        system_failed("flush a block to the disk");
}

static void prepare(struct worker *me)
{
    me->fd = scratch_open(me->injection->directory);
    scratch_demand_disk(me->fd, me->injection->directory);
    me->memory = zeroed_array(CACHE_LINE, me->injection->bytes, 1);
    // The first write also allocates blocks on the disk.
    write_and_flush(me, 0);
}

static void run(struct worker *me)
{
    uint64_t instant_ns;
    while (grid_take(&me->grid, &instant_ns)) {
        sleep_until_ns(instant_ns);
        uint64_t begin_ns = monotonic_ns();
        write_and_flush(me, me->log.count + 1);
        events_add(&me->log, begin_ns, monotonic_ns(), me->tid);
    }
}

static void finish(struct worker *me)
{
    unsigned char *block = me->memory, expected = (unsigned char)(me->log.count & 0xff);
    if (pread(me->fd, block, me->injection->bytes, 0) != (ssize_t)me->injection->bytes)
        system_failed("read the block back");
    for (uint64_t at = 0; at < me->injection->bytes; at++)
        if (block[at] != expected)
            check_failed("byte %" PRIu64 " of the block is not that of the last write", at);
    free(block);
    close(me->fd);
}

const struct kind kind_sync = {.name = "sync", .thread_name = "inject-sync", .prepare = prepare, .run = run,
                               .finish = finish};
