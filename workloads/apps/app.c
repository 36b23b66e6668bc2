// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "app.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "array.h"
#include "clocks.h"
#include "fail.h"
#include "numbers.h"
#include "scratch.h"
#include "team.h"

void app_start(struct app *app, const struct program *program, int argc, char **argv)
{
    program_start(program, argc, argv, &app->truth);
    const char *launcher = ranks_join(&app->rank_count, &app->rank);
    if (launcher != NULL && app->peer != NULL)
        bad_input("--peer cannot be used here: %s connects the ranks", launcher);
    if (launcher == NULL && app->rank_count > 1 && app->peer == NULL)
        bad_input("--ranks %" PRIu64 " needs --peer HOST:PORT", app->rank_count);
    if (app->rank_count == 1 && app->peer != NULL)
        bad_input("--peer needs --ranks 2");
    if (app->rank >= app->rank_count)
        bad_input("--rank must be below --ranks, %" PRIu64, app->rank_count);
    if (app->yields && !app->in_task)
        bad_input("--yield needs --in-task");
    if (app->folder == NULL)
        app->folder = scratch_default_directory();
    app->threads = team_prepare(app->threads);
    app->step_marks = zeroed_array(CACHE_LINE, app->ahead, sizeof *app->step_marks);
}

char *app_step_mark(const struct app *app, uint64_t step)
{
    return app->ahead != 0 ? &app->step_marks[step % app->ahead] : NULL;
}

void app_wait_for_steps(const struct app *app, uint64_t step)
{
    // The mark was last used by the step to wait for.
    char *mark = app_step_mark(app, step);
    if (mark == NULL)
        return;
#pragma omp taskwait depend(in : *mark)
}

uint64_t app_problem(const uint64_t *values, size_t count)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < count; i++)
        digest = digest_u64(digest, values[i]);
    return digest;
}

void app_connect(const struct app *app, struct ranks *ranks, size_t channels, uint64_t problem)
{
    *ranks = (struct ranks){.count = app->rank_count, .rank = app->rank};
    if (ranks->count > 1)
        ranks_connect(ranks, app->peer, app->patience_ns, channels, problem);
}

static uint64_t process_cpu_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
        system_failed("read the CPU clock of the process");
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

void app_phase_begin(struct app *app)
{
    app->begin_cpu_ns = process_cpu_ns();
    app->begin_ns = monotonic_ns();
}

void app_phase_end(struct app *app)
{
    app->elapsed_ns = monotonic_ns() - app->begin_ns;
    app->cpu_ns = process_cpu_ns() - app->begin_cpu_ns;
}

static void write_truth(struct app *app, const struct program *program, const struct ranks *ranks,
                        const struct storage *storage)
{
    truth_begin(&app->truth, program->name);
    truth_u64(&app->truth, "team", app->threads);
    truth_u64(&app->truth, "ranks", app->rank_count);
    truth_u64(&app->truth, "rank", app->rank);
    truth_u64(&app->truth, "begin_ns", app->begin_ns);
    truth_u64(&app->truth, "elapsed_ns", app->elapsed_ns);
    truth_u64(&app->truth, "cpu_ns", app->cpu_ns);
    truth_u64(&app->truth, "bytes_written", storage != NULL ? storage->written : 0);
    truth_u64(&app->truth, "bytes_read", storage != NULL ? storage->read : 0);
    truth_u64(&app->truth, "messages", ranks->messages);
    truth_hex(&app->truth, "checksum", app->checksum);
    truth_bool(&app->truth, "verified", app->verify);
    truth_end(&app->truth);
}

int app_end(struct app *app, const struct program *program, struct ranks *ranks,
            struct storage *storage, uint64_t own_checksum, const char *format, ...)
{
    app->checksum = ranks_sum(ranks, own_checksum);
    va_list arguments;
    va_start(arguments, format);
    printf("%s: %" PRIu64 " threads, ", program->name, app->threads);
    vprintf(format, arguments);
    va_end(arguments);
    printf(", %.4f s, %.4f s of CPU, %" PRIu64 " bytes written, %" PRIu64 " read, %" PRIu64
           " messages\nchecksum 0x%016" PRIx64 "%s\n",
           (double)app->elapsed_ns / NS_PER_SECOND, (double)app->cpu_ns / NS_PER_SECOND,
           storage != NULL ? storage->written : 0, storage != NULL ? storage->read : 0,
           ranks->messages, app->checksum, app->verify ? ", verified" : "");
    write_truth(app, program, ranks, storage);
    if (storage != NULL)
        storage_destroy(storage);
    ranks_destroy(ranks);
    free(app->step_marks);
    return program_end();
}
