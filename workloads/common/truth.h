// SPDX-License-Identifier: Apache-2.0 OR MIT
// The truth file: one JSON object in which a program reports what it knows about its own run.
// The file is opened before anything runs, so that an invalid path is rejected early.
#ifndef COX_WORKLOADS_TRUTH_H
#define COX_WORKLOADS_TRUTH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "clocks.h"

struct truth {
    FILE *file;           // NULL if no truth was requested
    const char *path;
    bool needs_comma;
};

// `path` is NULL for no truth, or "-" for stdout. Rejects a file that cannot be written.
void truth_open(struct truth *truth, const char *path);

static inline bool truth_wanted(const struct truth *truth)
{
    return truth->file != NULL;
}

// All of the following functions do nothing if no truth is wanted.
void truth_begin(struct truth *truth, const char *program);
void truth_u64(struct truth *truth, const char *key, uint64_t value);
void truth_double(struct truth *truth, const char *key, double value);
void truth_bool(struct truth *truth, const char *key, bool value);
void truth_null(struct truth *truth, const char *key);
// `value` NULL is written as null.
void truth_string(struct truth *truth, const char *key, const char *value);
// 64-bit checksums are written as "0x…": JSON readers keep only 53 bits of a number.
void truth_hex(struct truth *truth, const char *key, uint64_t value);
void truth_array_begin(struct truth *truth, const char *key);
void truth_array_end(struct truth *truth);
void truth_object_begin(struct truth *truth);
void truth_object_end(struct truth *truth);
// Writes the members tid, cpu_ns, wall_ns and run_delay_ns of a thread.
void truth_thread_span(struct truth *truth, pid_t tid, struct thread_span span);
// Closes the object and the file. Exit 1 if it could not be written completely.
void truth_end(struct truth *truth);

#endif
