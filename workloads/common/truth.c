// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "truth.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fail.h"

void truth_open(struct truth *truth, const char *path)
{
    truth->path = path;
    truth->needs_comma = false;
    if (path == NULL) {
        truth->file = NULL;
    } else if (strcmp(path, "-") == 0) {
        truth->file = stdout;
    } else {
        truth->file = fopen(path, "we");
        if (truth->file == NULL)
            bad_input("--truth: cannot write '%s': %s", path, strerror(errno));
    }
}

static void write_key(struct truth *truth, const char *key)
{
    if (truth->needs_comma)
        fputc(',', truth->file);
    truth->needs_comma = true;
    if (key != NULL)
        fprintf(truth->file, "\"%s\":", key);
}

void truth_begin(struct truth *truth, const char *program)
{
    truth_object_begin(truth);
    truth_string(truth, "program", program);
}

void truth_u64(struct truth *truth, const char *key, uint64_t value)
{
    if (!truth_wanted(truth))
        return;
    write_key(truth, key);
    fprintf(truth->file, "%" PRIu64, value);
}

void truth_double(struct truth *truth, const char *key, double value)
{
    if (!truth_wanted(truth))
        return;
    write_key(truth, key);
    fprintf(truth->file, "%.6g", value);
}

void truth_bool(struct truth *truth, const char *key, bool value)
{
    if (!truth_wanted(truth))
        return;
    write_key(truth, key);
    fputs(value ? "true" : "false", truth->file);
}

void truth_null(struct truth *truth, const char *key)
{
    if (!truth_wanted(truth))
        return;
    write_key(truth, key);
    fputs("null", truth->file);
}

void truth_string(struct truth *truth, const char *key, const char *value)
{
    if (!truth_wanted(truth))
        return;
    if (value == NULL) {
        truth_null(truth, key);
        return;
    }
    write_key(truth, key);
    fputc('"', truth->file);
    for (const unsigned char *c = (const unsigned char *)value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(truth->file, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(truth->file, "\\u%04x", *c);
        else
            fputc(*c, truth->file);
    }
    fputc('"', truth->file);
}

void truth_hex(struct truth *truth, const char *key, uint64_t value)
{
    if (!truth_wanted(truth))
        return;
    write_key(truth, key);
    fprintf(truth->file, "\"0x%016" PRIx64 "\"", value);
}

static void open_bracket(struct truth *truth, const char *key, char bracket)
{
    if (!truth_wanted(truth))
        return;
    write_key(truth, key);
    fputc(bracket, truth->file);
    truth->needs_comma = false;
}

static void close_bracket(struct truth *truth, char bracket)
{
    if (!truth_wanted(truth))
        return;
    fputc(bracket, truth->file);
    truth->needs_comma = true;
}

void truth_array_begin(struct truth *truth, const char *key)
{
    open_bracket(truth, key, '[');
}

void truth_array_end(struct truth *truth)
{
    close_bracket(truth, ']');
}

void truth_object_begin(struct truth *truth)
{
    open_bracket(truth, NULL, '{');
}

void truth_object_end(struct truth *truth)
{
    close_bracket(truth, '}');
}

void truth_thread_span(struct truth *truth, pid_t tid, struct thread_span span)
{
    truth_u64(truth, "tid", (uint64_t)tid);
    truth_u64(truth, "cpu_ns", span.cpu_ns);
    truth_u64(truth, "wall_ns", span.wall_ns);
    truth_u64(truth, "run_delay_ns", span.run_delay_ns);
}

void truth_end(struct truth *truth)
{
    if (!truth_wanted(truth))
        return;
    truth_object_end(truth);
    fputc('\n', truth->file);
    bool broken = ferror(truth->file) != 0;
    if (truth->file == stdout)
        broken |= fflush(stdout) != 0;
    else
        broken |= fclose(truth->file) != 0;
    if (broken)
        system_failed("write the truth to '%s'", truth->path);
    truth->file = NULL;
}
