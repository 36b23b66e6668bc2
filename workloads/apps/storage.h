// SPDX-License-Identifier: Apache-2.0 OR MIT
// Snapshots in a file of equal slots. Each slot is written once from a staging buffer, and read back.
//
// Buffers have no locks: a slot always uses the same buffer (slot modulo buffers), and tasks that use a
// buffer depend on its mark. So a buffer that is still being written delays the tasks that need it, but no
// thread.
#ifndef COX_WORKLOADS_APPS_STORAGE_H
#define COX_WORKLOADS_APPS_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct storage {
    int fd;
    size_t values;         // doubles in a slot
    size_t slot_bytes;     // rounded up to whole disk blocks
    size_t slots, buffers;
    unsigned char *staging;
    char *marks;           // one per buffer, for depend clauses
    uint64_t *digests;     // one per slot, computed when it was staged
    _Atomic uint64_t written, read;    // bytes in the measured phase
};

// Exit 77 if the file system refuses O_DIRECT.
void storage_create(struct storage *storage, const char *folder, bool direct, size_t slots,
                    size_t values, size_t buffers);
void storage_destroy(struct storage *storage);

// The buffer of a slot: fill it before storage_keep; storage_fetch fills it.
double *storage_buffer(const struct storage *storage, size_t slot);
char *storage_mark(const struct storage *storage, size_t slot);

// Stores the digest of the slot's buffer.
void storage_note(struct storage *storage, size_t slot);
// Exit 1 unless the digest of the slot's buffer is the stored one.
void storage_expect(const struct storage *storage, size_t slot);
// Writes the buffer; blocks until it is written.
void storage_keep(struct storage *storage, size_t slot);
// Reads the slot into its buffer and blocks meanwhile; exit 1 if the digest is not the stored one.
void storage_fetch(struct storage *storage, size_t slot);
// Read all slots, or one slot, as storage_fetch does, but do not count the bytes: for use after the
// measured phase.
void storage_check(const struct storage *storage);
void storage_read_back(const struct storage *storage, size_t slot);

#endif
