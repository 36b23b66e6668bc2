// SPDX-License-Identifier: Apache-2.0 OR MIT
// A temporary file that disappears when its descriptor is closed, however the program ends.
#ifndef COX_WORKLOADS_SCRATCH_H
#define COX_WORKLOADS_SCRATCH_H

#include <stdbool.h>

// Returns $TMPDIR, or the working directory if it is not set.
const char *scratch_default_directory(void);

// Makes a new empty file in `directory` and unlinks it. Rejects a directory that cannot be used.
int scratch_open(const char *directory);

// Opens the same file again, with an independent open file description.
int scratch_reopen(int fd, int flags);

// Exit 77 if the file system is in memory: access to such a file never waits for a disk.
void scratch_demand_disk(int fd, const char *directory);

#endif
