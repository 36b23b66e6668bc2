// SPDX-License-Identifier: Apache-2.0 OR MIT
// The events that one thread has injected: begin and end of each, and statistics of their lengths.
#ifndef COX_WORKLOADS_INJECT_EVENTS_H
#define COX_WORKLOADS_INJECT_EVENTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { MAX_EVENTS = 20000000 };

struct event {
    uint64_t begin_ns, end_ns;    // CLOCK_MONOTONIC
    pid_t tid;
};

struct event_log {
    size_t count, capacity;
    struct event *events;
};

// Lengths in ns; all 0 if there are no events.
struct length_statistics {
    double mean_ns;
    uint64_t median_ns, min_ns, max_ns;
};

// All memory is touched: adding an event causes no page fault.
void events_create(struct event_log *log, size_t capacity);
void events_destroy(struct event_log *log);
// Exit 1 if the log is full.
void events_add(struct event_log *log, uint64_t begin_ns, uint64_t end_ns, pid_t tid);
// Appends the events of another log.
void events_append(struct event_log *log, const struct event_log *other);
struct length_statistics events_lengths(const struct event_log *log);
// Writes begin_ns,end_ns,tid of each event in the order of their begin, with a header line, and closes the file.
void events_write(struct event_log *log, FILE *file, const char *path);

#endif
