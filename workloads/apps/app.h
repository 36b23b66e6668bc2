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
    uint64_t work;          // unit depends on the application
    bool verify;
    const char *folder;
    bool direct;
    uint64_t buffers;
    uint64_t ahead;         // steps whose tasks may exist at the same time; 0: all
    char *step_marks;       // one per step in flight, for depend clauses
    uint64_t rank_count, rank;
    const char *peer;
    uint64_t patience_ns;
    bool ordered, in_task, yields;

    uint64_t begin_ns, begin_cpu_ns;
    uint64_t elapsed_ns, cpu_ns;    // of the measured phase; CPU time of the whole process
    uint64_t checksum;
};

enum { APP_MAX_BUFFERS = 4096, APP_MAX_AHEAD = 100000 };

// Option table rows that all applications share, and the default values.
#define APP_DEFAULTS {.buffers = 16, .ahead = 8, .rank_count = 1, .patience_ns = 30 * NS_PER_SECOND}
#define APP_BASE_OPTIONS(app)                                                                      \
    {"threads", OPTION_COUNT, &(app)->threads, 1, 4096, NULL, "N",                                 \
     "threads of the team (OMP_NUM_THREADS, else all CPUs)", NULL},                                \
    {"verify", OPTION_FLAG, &(app)->verify, 0, 0, NULL, NULL,                                      \
     "repeat the computation in plain loops; all bits must be the same", NULL},                    \
    {"folder", OPTION_TEXT, &(app)->folder, 0, 0, NULL, "DIR",                                     \
     "directory of the snapshot file, a temporary file ($TMPDIR, else .)", NULL},                \
    {"direct", OPTION_FLAG, &(app)->direct, 0, 0, NULL, NULL,                                      \
     "O_DIRECT: bypass the page cache, so that transfers block", NULL},                          \
    {"buffers", OPTION_COUNT, &(app)->buffers, 1, APP_MAX_BUFFERS, NULL, "N",                      \
     "staging buffers between memory and file (16)", NULL}
// Additional rows for applications that support two ranks.
#define APP_OPTIONS(app)                                                                           \
    APP_BASE_OPTIONS(app),                                                                         \
    {"ahead", OPTION_COUNT, &(app)->ahead, 0, APP_MAX_AHEAD, NULL, "N",                            \
     "steps whose tasks may exist at the same time; 0: all (8)", NULL},                          \
    {"ranks", OPTION_COUNT, &(app)->rank_count, 1, 2, NULL, "N",                                   \
     "processes that share the work (1); 2 need --rank and --peer", NULL},                         \
    {"rank", OPTION_COUNT, &(app)->rank, 0, 1, NULL, "R",                                          \
     "number of this process (0): 0 listens, 1 connects", NULL},                                 \
    {"peer", OPTION_TEXT, &(app)->peer, 0, 0, NULL, "HOST:PORT", "where rank 0 listens", NULL},    \
    {"patience", OPTION_SECONDS, &(app)->patience_ns, 0.1, 1e6, NULL, "S",                         \
     "a message that takes longer than S seconds is a deadlock: exit 1 (30)", NULL},               \
    {"ordered", OPTION_FLAG, &(app)->ordered, 0, 0, NULL, NULL,                                    \
     "one message at a time, in an order that suits both ranks", NULL},                            \
    {"in-task", OPTION_FLAG, &(app)->in_task, 0, 0, NULL, NULL,                                    \
     "each task makes its transfers itself, before it computes", NULL},                           \
    {"yield", OPTION_FLAG, &(app)->yields, 0, 0, NULL, NULL,                                       \
     "with --in-task: taskyield between transfer and computation", NULL}

// Calls program_start, rejects contradictory options, prepares the team.
void app_start(struct app *app, const struct program *program, int argc, char **argv);

// Combines the parameters on which both ranks must agree into one number.
uint64_t app_problem(const uint64_t *values, size_t count);

// Opens `channels` to the other rank, if there is one. Rejects a rank with another `problem`.
void app_connect(const struct app *app, struct ranks *ranks, size_t channels, uint64_t problem);

// The program itself must bound how many steps are in flight: libgomp does not limit the tasks that wait for
// dependences, and for each new task it walks through all existing ones with the same mark.
//
// app_step_mark: the mark of a step, on which its last task depends; NULL without a bound.
char *app_step_mark(const struct app *app, uint64_t step);
// Call before creating the tasks of a step: waits until all tasks of the step `ahead` steps earlier are done.
void app_wait_for_steps(const struct app *app, uint64_t step);

// Begin and end the measured phase.
void app_phase_begin(struct app *app);
void app_phase_end(struct app *app);

// The last statement of every main: sums the checksum over the ranks, prints the report and writes the
// truth. `storage` may be NULL. Destroys `ranks` and `storage`.
int app_end(struct app *app, const struct program *program, struct ranks *ranks,
            struct storage *storage, uint64_t own_checksum, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
