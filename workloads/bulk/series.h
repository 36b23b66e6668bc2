// SPDX-License-Identifier: Apache-2.0 OR MIT
// Compute and synchronisation time of each step in each rank, and what follows from them.
#ifndef COX_WORKLOADS_BULK_SERIES_H
#define COX_WORKLOADS_BULK_SERIES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clocks.h"
#include "group.h"
#include "truth.h"

enum { SERIES_MAX_STEPS = 10000000 };

// The recording of one rank, made by the rank itself. All memory is touched before the steps.
struct recording {
    size_t steps;
    uint64_t *values;      // a header, then compute and synchronisation time of each step
    struct thread_meter meter;
    struct thread_instant begin;
};

void recording_create(struct recording *recording, size_t steps);
void recording_destroy(struct recording *recording);
// Surround the steps.
void recording_begin(struct recording *recording);
void recording_end(struct recording *recording, const struct member *me);
void recording_add(struct recording *recording, size_t step, uint64_t compute_ns, uint64_t sync_ns);

struct rank_summary {
    uint64_t tid;
    int cpu;
    struct thread_span span;
    uint64_t compute_min_ns, sync_median_ns;
    double compute_mean_ns, sync_mean_ns;
};

// Made by rank 0 of the recordings of all ranks.
struct summary {
    size_t ranks, steps;
    uint64_t begin_ns, end_ns;     // of all steps, CLOCK_MONOTONIC of each rank's machine
    uint64_t quiet_ns;             // the shortest compute time of any step in any rank
    double step_mean_ns;           // compute and synchronisation, mean over steps and ranks
    double compute_mean_ns;
    double slowest_mean_ns;        // mean over the steps of the compute time of the step's slowest rank
    uint64_t sync_median_ns;       // over all steps and ranks
    struct rank_summary *each;
};

// Opens the file of --series or --phases; NULL if `path` is NULL.
FILE *series_open(const char *option, const char *path);

// Every rank calls this with its recording. In rank 0, writes rank,step,compute_ns,sync_ns of each step to `file`
// unless it is NULL, closes it, and fills `summary`. Returns true in rank 0.
bool series_collect(struct member *me, const struct recording *recording, FILE *file, struct summary *summary);

// Mean step time divided by the quiet compute time.
double summary_slowdown(const struct summary *summary);
// Print one line for all ranks, and one for each.
void summary_print(const struct summary *summary);
// Writes the members from "ranks" on, with the threads.
void summary_truth(const struct summary *summary, struct truth *truth);
void summary_destroy(struct summary *summary);

#endif
