// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "fail.h"
#include "numbers.h"
#include "scratch.h"

// The largest alignment that O_DIRECT requires of addresses, offsets and lengths.
enum { ALIGNMENT = 4096 };

void storage_create(struct storage *storage, const char *folder, bool direct, size_t slots,
                    size_t values, size_t buffers)
{
    size_t slot_bytes = (values * sizeof(double) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *storage = (struct storage){
        .values = values,
        .slot_bytes = slot_bytes,
        .slots = slots,
        .buffers = buffers,
        .staging = zeroed_array(ALIGNMENT, buffers, slot_bytes),
        .marks = zeroed_array(CACHE_LINE, buffers, sizeof *storage->marks),
        .digests = zeroed_array(CACHE_LINE, slots, sizeof *storage->digests),
    };
    storage->fd = scratch_open(folder);
    if (!direct)
        return;
    int fd = scratch_reopen(storage->fd, O_RDWR | O_DIRECT);
    if (fd < 0 && errno == EINVAL)
        not_possible_here("the file system of '%s' has no O_DIRECT; give another --folder", folder);
    if (fd < 0)
        system_failed("open a file in '%s' for O_DIRECT", folder);
    close(storage->fd);
    storage->fd = fd;
}

void storage_destroy(struct storage *storage)
{
    close(storage->fd);
    free(storage->staging);
    free(storage->marks);
    free(storage->digests);
}

static unsigned char *buffer_of(const struct storage *storage, size_t slot)
{
    return storage->staging + slot % storage->buffers * storage->slot_bytes;
}

double *storage_buffer(const struct storage *storage, size_t slot)
{
    return (double *)buffer_of(storage, slot);
}

char *storage_mark(const struct storage *storage, size_t slot)
{
    return &storage->marks[slot % storage->buffers];
}

// The slot number is part of the digest, so that slots with the same values cannot be mixed up. Four digests
// are computed in parallel: a single chain of dependent steps would cost more than computing the values.
static uint64_t digest_of(const struct storage *storage, size_t slot)
{
    enum { LANES = 4 };
    const double *values = storage_buffer(storage, slot);
    uint64_t lanes[LANES] = {slot};
    size_t at = 0;
    for (; at + LANES <= storage->values; at += LANES) {
        uint64_t bits[LANES];
        memcpy(bits, &values[at], sizeof bits);
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] = digest_u64(lanes[lane], bits[lane]);
    }
    uint64_t digest = digest_doubles(lanes[0], &values[at], storage->values - at);
    for (size_t lane = 1; lane < LANES; lane++)
        digest = digest_u64(digest, lanes[lane]);
    return digest;
}

void storage_note(struct storage *storage, size_t slot)
{
    storage->digests[slot] = digest_of(storage, slot);
}

void storage_expect(const struct storage *storage, size_t slot)
{
    if (digest_of(storage, slot) != storage->digests[slot])
        check_failed("slot %zu of the snapshots has another digest than when it was staged", slot);
}

// Transfers `count` consecutive slots, which must not extend beyond the last buffer.
static void transfer(const struct storage *storage, size_t slot, size_t count, bool out)
{
    unsigned char *buffer = buffer_of(storage, slot);
    for (size_t done = 0; done < count * storage->slot_bytes;) {
        off_t at = (off_t)(slot * storage->slot_bytes + done);
        size_t rest = count * storage->slot_bytes - done;
        ssize_t length = out ? pwrite(storage->fd, buffer + done, rest, at)
                             : pread(storage->fd, buffer + done, rest, at);
        if (length < 0 && errno == EINTR)
            continue;
        // Some file systems accept the flag at open and refuse the first transfer.
        if (length < 0 && errno == EINVAL)
            not_possible_here("the file system refuses transfers; give another --folder");
        if (length < 0)
            system_failed("%s slot %zu", out ? "write" : "read", slot);
        if (length == 0)
            check_failed("slot %zu ends after %zu bytes", slot, done);
        done += (size_t)length;
    }
}

void storage_keep(struct storage *storage, size_t slot)
{
    transfer(storage, slot, 1, true);
    atomic_fetch_add_explicit(&storage->written, storage->slot_bytes, memory_order_relaxed);
}

void storage_read_back(const struct storage *storage, size_t slot)
{
    transfer(storage, slot, 1, false);
    storage_expect(storage, slot);
}

void storage_fetch(struct storage *storage, size_t slot)
{
    storage_read_back(storage, slot);
    atomic_fetch_add_explicit(&storage->read, storage->slot_bytes, memory_order_relaxed);
}

// Reads as many slots at once as there are buffers, so that checking is faster than writing was.
void storage_check(const struct storage *storage)
{
    for (size_t first = 0; first < storage->slots; first += storage->buffers) {
        size_t rest = storage->slots - first;
        size_t count = rest < storage->buffers ? rest : storage->buffers;
        transfer(storage, first, count, false);
        for (size_t slot = first; slot < first + count; slot++)
            storage_expect(storage, slot);
    }
}
