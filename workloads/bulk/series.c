// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "series.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "fail.h"

// Header of a recording.
enum { TID, CPU, CPU_NS, WALL_NS, RUN_DELAY_NS, BEGIN_NS, HEADER };

void recording_create(struct recording *recording, size_t steps)
{
    *recording = (struct recording){.steps = steps};
    recording->values = zeroed_array(CACHE_LINE, HEADER + 2 * steps, sizeof *recording->values);
    // zeroed_array may leave pages to the kernel to clear at the first touch: write something else.
    memset(recording->values, 0xff, (HEADER + 2 * steps) * sizeof *recording->values);
    thread_meter_open(&recording->meter);
}

void recording_destroy(struct recording *recording)
{
    thread_meter_close(&recording->meter);
    free(recording->values);
}

void recording_begin(struct recording *recording)
{
    recording->begin = thread_meter_read(&recording->meter);
}

void recording_end(struct recording *recording, const struct member *me)
{
    struct thread_span span = span_between(recording->begin, thread_meter_read(&recording->meter));
    recording->values[TID] = (uint64_t)gettid();
    recording->values[CPU] = (uint64_t)me->cpu;
    recording->values[CPU_NS] = span.cpu_ns;
    recording->values[WALL_NS] = span.wall_ns;
    recording->values[RUN_DELAY_NS] = span.run_delay_ns;
    recording->values[BEGIN_NS] = recording->begin.monotonic_ns;
}

void recording_add(struct recording *recording, size_t step, uint64_t compute_ns, uint64_t sync_ns)
{
    recording->values[HEADER + 2 * step] = compute_ns;
    recording->values[HEADER + 2 * step + 1] = sync_ns;
}

FILE *series_open(const char *option, const char *path)
{
    if (path == NULL)
        return NULL;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        bad_input("--%s: cannot write '%s': %s", option, path, strerror(errno));
    return file;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

// What rank 0 gathers while it takes one recording after the other.
struct gathering {
    struct summary *summary;
    FILE *file;
    uint64_t *syncs;      // of all ranks
    uint64_t *slowest;    // longest compute time of each step
};

static void take_recording(void *context, size_t rank, const uint64_t *values, size_t count)
{
    (void)count;
    struct gathering *gathering = context;
    struct summary *summary = gathering->summary;
    struct rank_summary *each = &summary->each[rank];
    const size_t steps = summary->steps;
    uint64_t *syncs = gathering->syncs + rank * steps, compute_ns = 0, sync_ns = 0;
    *each = (struct rank_summary){
        .tid = values[TID],
        .cpu = (int)values[CPU],
        .span = {.cpu_ns = values[CPU_NS], .wall_ns = values[WALL_NS], .run_delay_ns = values[RUN_DELAY_NS]},
        .compute_min_ns = UINT64_MAX,
    };
    for (size_t step = 0; step < steps; step++) {
        uint64_t compute = values[HEADER + 2 * step], sync = values[HEADER + 2 * step + 1];
        if (gathering->file != NULL)
            fprintf(gathering->file, "%zu,%zu,%" PRIu64 ",%" PRIu64 "\n", rank, step, compute, sync);
        compute_ns += compute;
        sync_ns += sync;
        syncs[step] = sync;
        if (compute < each->compute_min_ns)
            each->compute_min_ns = compute;
        if (compute > gathering->slowest[step])
            gathering->slowest[step] = compute;
    }
    each->compute_mean_ns = (double)compute_ns / (double)steps;
    each->sync_mean_ns = (double)sync_ns / (double)steps;
    each->sync_median_ns = median(syncs, steps);
    uint64_t begin_ns = values[BEGIN_NS], end_ns = begin_ns + values[WALL_NS];
    if (rank == 0 || begin_ns < summary->begin_ns)
        summary->begin_ns = begin_ns;
    if (rank == 0 || end_ns > summary->end_ns)
        summary->end_ns = end_ns;
    if (rank == 0 || each->compute_min_ns < summary->quiet_ns)
        summary->quiet_ns = each->compute_min_ns;
    summary->compute_mean_ns += each->compute_mean_ns / (double)summary->ranks;
    summary->step_mean_ns += (each->compute_mean_ns + each->sync_mean_ns) / (double)summary->ranks;
}

bool series_collect(struct member *me, const struct recording *recording, FILE *file, struct summary *summary)
{
    const size_t steps = recording->steps;
    bool first = me->rank == 0;
    struct gathering gathering = {.summary = summary, .file = file};
    if (first) {
        *summary = (struct summary){.ranks = me->ranks, .steps = steps};
        summary->each = zeroed_array(CACHE_LINE, me->ranks, sizeof *summary->each);
        gathering.syncs = zeroed_array(CACHE_LINE, me->ranks * steps, sizeof *gathering.syncs);
        gathering.slowest = zeroed_array(CACHE_LINE, steps, sizeof *gathering.slowest);
        if (file != NULL)
            fputs("rank,step,compute_ns,sync_ns\n", file);
    }
    group_collect(me, recording->values, HEADER + 2 * steps, take_recording, &gathering);
    if (!first)
        return false;
    for (size_t step = 0; step < steps; step++)
        summary->slowest_mean_ns += (double)gathering.slowest[step] / (double)steps;
    summary->sync_median_ns = median(gathering.syncs, me->ranks * steps);
    free(gathering.syncs);
    free(gathering.slowest);
    if (file != NULL) {
        bool broken = ferror(file) != 0;
        if (fclose(file) != 0 || broken)
            system_failed("write the series");
    }
    return true;
}

double summary_slowdown(const struct summary *summary)
{
    return summary->quiet_ns > 0 ? summary->step_mean_ns / (double)summary->quiet_ns : 0;
}

static double us(double ns)
{
    return ns / NS_PER_US;
}

void summary_print(const struct summary *summary)
{
    printf("quiet %.2f us, mean step %.2f us, S = %.4f; mean of the slowest rank %.2f us, median sync %.2f us\n",
           us((double)summary->quiet_ns), us(summary->step_mean_ns), summary_slowdown(summary),
           us(summary->slowest_mean_ns), us((double)summary->sync_median_ns));
    for (size_t rank = 0; rank < summary->ranks; rank++) {
        const struct rank_summary *each = &summary->each[rank];
        char cpu[32] = "";
        if (each->cpu != GROUP_NO_CPU)
            snprintf(cpu, sizeof cpu, " on CPU %d", each->cpu);
        printf("rank %zu%s: mean compute %.2f us, shortest %.2f; median sync %.2f us\n", rank, cpu,
               us(each->compute_mean_ns), us((double)each->compute_min_ns), us((double)each->sync_median_ns));
    }
}

void summary_truth(const struct summary *summary, struct truth *truth)
{
    truth_u64(truth, "ranks", summary->ranks);
    truth_u64(truth, "steps", summary->steps);
    truth_u64(truth, "begin_ns", summary->begin_ns);
    truth_u64(truth, "end_ns", summary->end_ns);
    truth_u64(truth, "quiet_ns", summary->quiet_ns);
    truth_double(truth, "step_mean_ns", summary->step_mean_ns);
    truth_double(truth, "slowdown", summary_slowdown(summary));
    truth_double(truth, "compute_mean_ns", summary->compute_mean_ns);
    truth_double(truth, "slowest_mean_ns", summary->slowest_mean_ns);
    truth_u64(truth, "sync_median_ns", summary->sync_median_ns);
    truth_array_begin(truth, "threads");
    for (size_t rank = 0; rank < summary->ranks; rank++) {
        const struct rank_summary *each = &summary->each[rank];
        truth_object_begin(truth);
        truth_thread_span(truth, (pid_t)each->tid, each->span);
        truth_u64(truth, "rank", rank);
        if (each->cpu != GROUP_NO_CPU)
            truth_u64(truth, "cpu", (uint64_t)each->cpu);
        else
            truth_null(truth, "cpu");
        truth_u64(truth, "compute_min_ns", each->compute_min_ns);
        truth_double(truth, "compute_mean_ns", each->compute_mean_ns);
        truth_double(truth, "sync_mean_ns", each->sync_mean_ns);
        truth_u64(truth, "sync_median_ns", each->sync_median_ns);
        truth_object_end(truth);
    }
    truth_array_end(truth);
}

void summary_destroy(struct summary *summary)
{
    free(summary->each);
}
