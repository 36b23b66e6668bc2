// SPDX-License-Identifier: Apache-2.0 OR MIT
// Long options from a table, which defines parsing, range checks, one-line errors and --help.
// Every program also has --truth FILE and --help.
#ifndef COX_WORKLOADS_OPTIONS_H
#define COX_WORKLOADS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "truth.h"

enum option_kind {
    OPTION_FLAG,       // bool *, no value
    OPTION_COUNT,      // uint64_t *, whole number in [min, max]
    OPTION_BYTES,      // uint64_t *, whole number with optional K, M or G (powers of 1024)
    OPTION_NUMBER,     // double *, in [min, max], fractions allowed
    OPTION_SECONDS,    // uint64_t * in ns, given in seconds, fractions allowed
    OPTION_MILLIS,     // uint64_t * in ns, given in milliseconds, fractions allowed
    OPTION_MICROS,     // uint64_t * in ns, given in microseconds, fractions allowed
    OPTION_CHOICE,     // unsigned *, index into `choices`
    OPTION_CPUS,       // struct cpu_list *, only CPUs this process may use
    OPTION_TEXT,       // const char **
};

struct option_spec {
    const char *name;              // without the dashes
    enum option_kind kind;
    void *target;                  // holds the default before parsing
    double min, max;               // in the unit of the value; unused for flag, choice, CPUs, text
    const char *const *choices;    // NULL-terminated, for OPTION_CHOICE
    const char *value_name;        // shown in --help
    const char *help;              // one line, with the default
    bool *given;                   // set when the option appears; may be NULL
};

struct program {
    const char *name;
    const char *operands;    // shown in --help, for programs that take them from argv before program_start; or NULL
    const char *summary;     // what it does, one or more lines
    const char *example;     // command lines, one per line
    const char *checked;     // what its self-check verifies
    const struct option_spec *options;
    size_t option_count;
};

// Parses the options and opens the truth. Prints --help and exits with 0, or prints an error and exits with
// 2.
void program_start(const struct program *program, int argc, char **argv, struct truth *truth);

// Flushes stdout and ends the program if that fails: the last statement of every main.
int program_end(void);

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
