// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "fail.h"

enum { MAX_OPTIONS = 32, VALUE_HELP = 1000, VALUE_TRUTH = 1001 };

static void print_option(const char *name, const char *value_name, const char *help)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", name, value_name != NULL ? " " : "",
             value_name != NULL ? value_name : "");
    printf("  %-26s %s\n", left, help);
}

// Prints each line of `text` indented by two spaces.
static void print_indented(const char *text)
{
    while (*text != '\0') {
        int length = (int)strcspn(text, "\n");
        printf("  %.*s\n", length, text);
        text += length;
        if (*text == '\n')
            text++;
    }
}

static void print_help(const struct program *program)
{
    printf("Usage: %s%s%s [options]\n\n%s\n\nOptions:\n", program->name, program->operands != NULL ? " " : "",
           program->operands != NULL ? program->operands : "", program->summary);
    for (size_t i = 0; i < program->option_count; i++)
        print_option(program->options[i].name, program->options[i].value_name,
                     program->options[i].help);
    print_option("truth", "FILE", "write the program's own measurements as JSON; - = stdout");
    print_option("help", NULL, "print this help");
    printf("\nExample:\n");
    print_indented(program->example);
    printf("\nChecked by the program itself:\n");
    print_indented(program->checked);
    printf("\nExit codes: 0 done and checked, 1 a check or a system call failed, 2 bad options,\n"
           "77 not possible on this machine.\n");
}

// Parses a whole number, optionally followed by a size suffix, with nothing after it.
static bool parse_whole(const char *text, bool size_suffix, uint64_t *value)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    unsigned shift = 0;
    if (size_suffix && *end != '\0') {
        switch (toupper((unsigned char)*end++)) {
        case 'K': shift = 10; break;
        case 'M': shift = 20; break;
        case 'G': shift = 30; break;
        default: return false;
        }
    }
    if (*end != '\0' || *value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    return true;
}

static bool parse_number(const char *text, double *value)
{
    // strtod would also accept blanks, signs, "inf", "nan" and hexadecimal numbers.
    if (strspn(text, "0123456789.eE+-") != strlen(text) || !isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return errno == 0 && *end == '\0' && isfinite(*value);
}

static void set_whole(const struct option_spec *option, const char *text)
{
    bool bytes = option->kind == OPTION_BYTES;
    uint64_t value;
    if (!parse_whole(text, bytes, &value) || (double)value < option->min ||
        (double)value > option->max)
        bad_input("--%s must be a whole number from %.0f to %.0f%s, not '%s'", option->name,
                  option->min, option->max, bytes ? " (K, M, G allowed)" : "", text);
    *(uint64_t *)option->target = value;
}

static double parse_in_range(const struct option_spec *option, const char *text, const char *unit)
{
    double value;
    if (!parse_number(text, &value) || value < option->min || value > option->max)
        bad_input("--%s must be a number%s from %g to %g, not '%s'", option->name, unit,
                  option->min, option->max, text);
    return value;
}

static void set_duration(const struct option_spec *option, const char *text, const char *unit,
                         uint64_t ns_per_unit)
{
    double value = parse_in_range(option, text, unit);
    *(uint64_t *)option->target = (uint64_t)llround(value * (double)ns_per_unit);
}

static void set_choice(const struct option_spec *option, const char *text)
{
    char all[256] = "";
    for (unsigned i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(unsigned *)option->target = i;
            return;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", option->choices[i]);
    }
    bad_input("--%s must be one of %s, not '%s'", option->name, all, text);
}

static void set_cpus(const struct option_spec *option, const char *text)
{
    struct cpu_list *list = option->target;
    if (!cpu_list_parse(list, text))
        bad_input("--%s must be a CPU list such as 0-3,8, each CPU once, not '%s'", option->name,
                  text);
    static struct cpu_list allowed;
    cpu_list_allowed(&allowed);
    for (size_t i = 0; i < list->count; i++)
        if (!cpu_list_contains(&allowed, list->cpus[i]))
            bad_input("--%s: CPU %u does not exist or is not allowed here", option->name,
                      list->cpus[i]);
}

static void set_option(const struct option_spec *option, const char *text)
{
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)option->target = true; break;
    case OPTION_COUNT:
    case OPTION_BYTES: set_whole(option, text); break;
    case OPTION_NUMBER: *(double *)option->target = parse_in_range(option, text, ""); break;
    case OPTION_SECONDS: set_duration(option, text, " of seconds", NS_PER_SECOND); break;
    case OPTION_MILLIS: set_duration(option, text, " of milliseconds", NS_PER_MS); break;
    case OPTION_MICROS: set_duration(option, text, " of microseconds", NS_PER_US); break;
    case OPTION_CHOICE: set_choice(option, text); break;
    case OPTION_CPUS: set_cpus(option, text); break;
    case OPTION_TEXT:
        if (*text == '\0')
            bad_input("--%s must not be empty", option->name);
        *(const char **)option->target = text;
        break;
    }
    if (option->given != NULL)
        *option->given = true;
}

static void refuse(int reason, char **argv)
{
    // getopt has advanced past the wrong argument, unless it is within a word of short options.
    const char *argument = argv[optind - 1];
    if (reason == ':')
        bad_input("option '%s' needs a value", argument);
    if (strncmp(argument, "--", 2) == 0 && optopt != 0)
        bad_input("option '%s' takes no value", argument);
    bad_input("unknown or ambiguous option '%s'", strncmp(argument, "--", 2) == 0 || optopt == 0
                                                      ? argument
                                                      : (char[]){'-', (char)optopt, '\0'});
}

void program_start(const struct program *program, int argc, char **argv, struct truth *truth)
{
    struct option longs[MAX_OPTIONS + 3] = {0};
    if (program->option_count > MAX_OPTIONS)
        check_failed("the option table has more than %d rows", (int)MAX_OPTIONS);
    for (size_t i = 0; i < program->option_count; i++) {
        bool has_value = program->options[i].kind != OPTION_FLAG;
        longs[i] = (struct option){program->options[i].name,
                                   has_value ? required_argument : no_argument, NULL, (int)i};
    }
    longs[program->option_count] = (struct option){"truth", required_argument, NULL, VALUE_TRUTH};
    longs[program->option_count + 1] = (struct option){"help", no_argument, NULL, VALUE_HELP};

    const char *truth_path = NULL;
    opterr = 0;
    int found;
    // The leading ":" makes getopt distinguish a missing value from an unknown option.
    while ((found = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
        if (found == ':' || found == '?')
            refuse(found, argv);
        if (found == VALUE_HELP) {
            print_help(program);
            exit(program_end());
        }
        if (found == VALUE_TRUTH)
            truth_path = optarg;
        else
            set_option(&program->options[found], optarg);
    }
    if (optind < argc)
        bad_input("unexpected argument '%s'", argv[optind]);
    truth_open(truth, truth_path);
}

int program_end(void)
{
    if (fflush(stdout) != 0)
        system_failed("write to standard output");
    return 0;
}
