// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the applications share: options, the measured phase, and the report at the end.
#ifndef COX_WORKLOADS_APPS_APP_H
#define COX_WORKLOADS_APPS_APP_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "ranks.h"
#include "storage.h"
#include "truth.h"

struct app {
    struct truth truth;
    uint64_t threads;
    uint64_t every;         // steps from one snapshot to the next; 0: none
    uint64_t work;          // what it means is the application's
    bool verify;
    const char *folder;
    bool direct;
    uint64_t buffers;
    uint64_t ahead;         // steps whose tasks may exist at a time; 0: all
    char *step_marks;       // one of each, for depend clauses
    uint64_t rank_count, rank;
    const char *peer;
    uint64_t patience_ns;
    bool ordered, in_task, yields;

    uint64_t begin_ns, begin_cpu_ns;
    uint64_t elapsed_ns, cpu_ns;    // of the measured phase; CPU time is that of the whole process
    uint64_t checksum;
};

enum { APP_MAX_BUFFERS = 4096, APP_MAX_AHEAD = 100000 };

// Rows of the option table of every application, and the values they begin with.
#define APP_DEFAULTS {.buffers = 16, .ahead = 8, .rank_count = 1, .patience_ns = 30 * NS_PER_SECOND}
#define APP_BASE_OPTIONS(app)                                                                      \
    {"threads", OPTION_COUNT, &(app)->threads, 1, 4096, NULL, "N",                                 \
     "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},                                \
    {"verify", OPTION_FLAG, &(app)->verify, 0, 0, NULL, NULL,                                      \
     "compute it again in plain loops; the results must be the same bits", NULL},                  \
    {"folder", OPTION_TEXT, &(app)->folder, 0, 0, NULL, "DIR",                                     \
     "where the file of snapshots goes, unlinked at once ($TMPDIR, else .)", NULL},                \
    {"direct", OPTION_FLAG, &(app)->direct, 0, 0, NULL, NULL,                                      \
     "O_DIRECT: past the page cache, so that transfers block", NULL},                              \
    {"buffers", OPTION_COUNT, &(app)->buffers, 1, APP_MAX_BUFFERS, NULL, "N",                      \
     "staging buffers between memory and file (16)", NULL}
// … of those that can be two ranks.
#define APP_OPTIONS(app)                                                                           \
    APP_BASE_OPTIONS(app),                                                                         \
    {"ahead", OPTION_COUNT, &(app)->ahead, 0, APP_MAX_AHEAD, NULL, "N",                            \
     "steps whose tasks may exist at a time; 0: all (8)", NULL},                                  \
    {"ranks", OPTION_COUNT, &(app)->rank_count, 1, 2, NULL, "N",                                   \
     "processes that share the work (1); 2 need --rank and --peer", NULL},                         \
    {"rank", OPTION_COUNT, &(app)->rank, 0, 1, NULL, "R",                                          \
     "which one this is (0): 0 listens, 1 connects", NULL},                                        \
    {"peer", OPTION_TEXT, &(app)->peer, 0, 0, NULL, "HOST:PORT", "where rank 0 listens", NULL},    \
    {"patience", OPTION_SECONDS, &(app)->patience_ns, 0.1, 1e6, NULL, "S",                         \
     "a message that takes longer than S seconds is a deadlock: exit 1 (30)", NULL},               \
    {"ordered", OPTION_FLAG, &(app)->ordered, 0, 0, NULL, NULL,                                    \
     "one message at a time, in an order that suits both ranks", NULL},                            \
    {"in-task", OPTION_FLAG, &(app)->in_task, 0, 0, NULL, NULL,                                    \
     "transfers in the task that computes, before it computes", NULL},                             \
    {"yield", OPTION_FLAG, &(app)->yields, 0, 0, NULL, NULL,                                       \
     "with --in-task: taskyield in between", NULL}

// program_start, refuses options that do not go together, prepares the team.
void app_start(struct app *app, const struct program *program, int argc, char **argv);

// What both ranks must agree on, as one number.
uint64_t app_problem(const uint64_t *values, size_t count);

// With `channels` to the other rank, if there is one. Refuses a rank whose `problem` is another.
void app_connect(const struct app *app, struct ranks *ranks, size_t channels, uint64_t problem);

// A program has to bound how far it runs ahead itself: libgomp does not count tasks that wait for others,
// and for each new one walks through all that exist with the same mark.
//
// What a task depends on that is done when all of the step is; NULL without a bound.
char *app_step_mark(const struct app *app, uint64_t step);
// Before the tasks of the step are created: waits until there are none of the step `ahead` before it.
void app_wait_for_steps(const struct app *app, uint64_t step);

// Around what is measured.
void app_phase_begin(struct app *app);
void app_phase_end(struct app *app);

// The sum over the ranks becomes the checksum; then the report and the truth: the last statement of
// every main. `storage` may be NULL. Destroys both.
int app_end(struct app *app, const struct program *program, struct ranks *ranks,
            struct storage *storage, uint64_t own_checksum, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
