// SPDX-License-Identifier: Apache-2.0 OR MIT
// A temporary file that is gone when its descriptor is closed, however the program ends.
#ifndef COX_WORKLOADS_SCRATCH_H
#define COX_WORKLOADS_SCRATCH_H

#include <stdbool.h>

// $TMPDIR, else the working directory.
const char *scratch_default_directory(void);

// A new empty file in `directory`, already unlinked. Refuses a directory that cannot be used.
int scratch_open(const char *directory);

// A second, independent open file description of the same file.
int scratch_reopen(int fd, int flags);

// Exit 77 when the file lives in memory: such a file never makes anybody wait for a disk.
void scratch_demand_disk(int fd, const char *directory);

#endif
