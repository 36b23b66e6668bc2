// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "events.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "fail.h"

void events_create(struct event_log *log, size_t capacity)
{
    *log = (struct event_log){.capacity = capacity};
    log->events = zeroed_array(CACHE_LINE, capacity, sizeof *log->events);
    // zeroed_array may leave pages to the kernel to clear at the first touch: write something else.
    memset(log->events, 0xff, capacity * sizeof *log->events);
}

void events_destroy(struct event_log *log)
{
    free(log->events);
    *log = (struct event_log){0};
}

void events_add(struct event_log *log, uint64_t begin_ns, uint64_t end_ns, pid_t tid)
{
    if (log->count == log->capacity)
        check_failed("more than the %zu events that the window has room for", log->capacity);
    log->events[log->count++] = (struct event){begin_ns, end_ns, tid};
}

void events_append(struct event_log *log, const struct event_log *other)
{
    for (size_t i = 0; i < other->count; i++)
        events_add(log, other->events[i].begin_ns, other->events[i].end_ns, other->events[i].tid);
}

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_value(const void *a, const void *b)
{
    return order(*(const uint64_t *)a, *(const uint64_t *)b);
}

static int by_begin(const void *a, const void *b)
{
    return order(((const struct event *)a)->begin_ns, ((const struct event *)b)->begin_ns);
}

struct length_statistics events_lengths(const struct event_log *log)
{
    if (log->count == 0)
        return (struct length_statistics){0};
    uint64_t *lengths = zeroed_array(CACHE_LINE, log->count, sizeof *lengths), sum = 0;
    for (size_t i = 0; i < log->count; i++) {
        lengths[i] = log->events[i].end_ns - log->events[i].begin_ns;
        sum += lengths[i];
    }
    qsort(lengths, log->count, sizeof *lengths, by_value);
    struct length_statistics statistics = {
        .mean_ns = (double)sum / (double)log->count,
        .median_ns = lengths[log->count / 2],
        .min_ns = lengths[0],
        .max_ns = lengths[log->count - 1],
    };
    free(lengths);
    return statistics;
}

void events_write(struct event_log *log, FILE *file, const char *path)
{
    qsort(log->events, log->count, sizeof *log->events, by_begin);
    fputs("begin_ns,end_ns,tid\n", file);
    for (size_t i = 0; i < log->count; i++)
        fprintf(file, "%" PRIu64 ",%" PRIu64 ",%d\n", log->events[i].begin_ns, log->events[i].end_ns,
                (int)log->events[i].tid);
    // fclose must run in any case.
    bool broken = ferror(file) != 0;
    if (fclose(file) != 0 || broken)
        system_failed("write the log to '%s'", path);
}
