// SPDX-License-Identifier: Apache-2.0 OR MIT
// Snapshots in a file of equal slots, each written once from a staging buffer, and read back.
//
// A buffer has no lock: which buffer a slot goes through is fixed (slot modulo buffers), and tasks that
// use one depend on its mark. A buffer that is still being written so delays the tasks that want it, and
// never a thread.
#ifndef COX_WORKLOADS_APPS_STORAGE_H
#define COX_WORKLOADS_APPS_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct storage {
    int fd;
    size_t values;         // doubles in a slot
    size_t slot_bytes;     // whole blocks of the disk
    size_t slots, buffers;
    unsigned char *staging;
    char *marks;           // one per buffer, for depend clauses
    uint64_t *digests;     // of each slot, when it was staged
    _Atomic uint64_t written, read;    // bytes in the measured phase
};

// Exit 77 when the file system refuses O_DIRECT.
void storage_create(struct storage *storage, const char *folder, bool direct, size_t slots,
                    size_t values, size_t buffers);
void storage_destroy(struct storage *storage);

// Where the values of the slot are put before storage_keep and are found after storage_fetch.
double *storage_buffer(const struct storage *storage, size_t slot);
char *storage_mark(const struct storage *storage, size_t slot);

// Remembers the digest of what is in the buffer of the slot.
void storage_note(struct storage *storage, size_t slot);
// Exit 1 unless what is in the buffer of the slot is what was noted.
void storage_expect(const struct storage *storage, size_t slot);
// Blocks until the buffer is written.
void storage_keep(struct storage *storage, size_t slot);
// Blocks until the slot is read into its buffer; exit 1 when it is not what was noted.
void storage_fetch(struct storage *storage, size_t slot);
// The same without counting: after the measured phase. All slots, or one.
void storage_check(const struct storage *storage);
void storage_read_back(const struct storage *storage, size_t slot);

#endif
