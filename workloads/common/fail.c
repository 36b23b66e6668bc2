// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Uses one write call, so that lines of several threads or processes do not mix.
static void print_line(const char *prefix, const char *format, va_list arguments,
                       const char *suffix)
{
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    char line[1024];
    int length = snprintf(line, sizeof line, "%s: %s%s%s\n", program_invocation_short_name, prefix,
                          text, suffix);
    if (write(STDERR_FILENO, line, (size_t)length) < 0) {
        // stderr cannot be written: the exit code still reports the failure.
        return;
    }
}

void bad_input(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line("", format, arguments, " (see --help)");
    va_end(arguments);
    _exit(EXIT_BAD_INPUT);
}

void check_failed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line("check failed: ", format, arguments, "");
    va_end(arguments);
    _exit(EXIT_CHECK_FAILED);
}

void system_failed(const char *format, ...)
{
    char reason[128];
    snprintf(reason, sizeof reason, ": %s", strerror(errno));
    va_list arguments;
    va_start(arguments, format);
    print_line("cannot ", format, arguments, reason);
    va_end(arguments);
    _exit(EXIT_CHECK_FAILED);
}

void not_possible_here(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line("not possible here: ", format, arguments, "");
    va_end(arguments);
    _exit(EXIT_NOT_POSSIBLE);
}
