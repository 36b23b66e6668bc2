// SPDX-License-Identifier: Apache-2.0 OR MIT
// Injects noise of which it knows the number, the times and the lengths. See --help.
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "array.h"
#include "cpus.h"
#include "fail.h"
#include "inject.h"
#include "options.h"
#include "report.h"
#include "scratch.h"

static const struct kind *const kinds[] = {&kind_rt,     &kind_munmap, &kind_membarrier, &kind_sync,
                                           &kind_timers, &kind_faults, &kind_none};

// The values of the options, and which of them were given.
struct settings {
    struct injection injection;
    struct cpu_list cpus, victims, victim;
    double rate;
    const char *log_path;
    bool has_cpus, has_victims, has_victim, has_rate, has_length, has_period, has_offset, has_priority, has_bytes,
        has_directory;
};

static const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    bad_input("KIND must be one of rt, munmap, membarrier, sync, timers, faults, none, not '%s'", name);
}

// Removes KIND from the arguments; returns NULL if there is none.
static const char *take_kind(int *argc, char **argv)
{
    if (*argc < 2 || argv[1][0] == '-')
        return NULL;
    const char *name = argv[1];
    memmove(&argv[1], &argv[2], (size_t)(*argc - 1) * sizeof *argv);
    --*argc;
    return name;
}

static void refuse_unless(bool suits, bool given, const char *option, const char *kind)
{
    if (given && !suits)
        bad_input("--%s has no meaning for kind %s", option, kind);
}

static void check_options(const struct settings *settings)
{
    const struct kind *kind = settings->injection.kind;
    const struct injection *injection = &settings->injection;
    bool rt = kind == &kind_rt, sync = kind == &kind_sync;
    refuse_unless(rt, settings->has_length, "length-us", kind->name);
    refuse_unless(rt, settings->has_period, "period-us", kind->name);
    refuse_unless(sync, settings->has_bytes, "bytes", kind->name);
    refuse_unless(sync, settings->has_directory, "dir", kind->name);
    refuse_unless(!rt && kind != &kind_none, settings->has_rate, "rate", kind->name);
    refuse_unless(kind->thread_name != NULL, settings->has_cpus, "cpu", kind->name);
    refuse_unless(kind->thread_name != NULL, settings->has_priority, "priority", kind->name);
    refuse_unless(kind->thread_name != NULL, settings->has_offset, "offset-us", kind->name);
    refuse_unless(kind->thread_name != NULL, injection->stagger, "stagger", kind->name);
    refuse_unless(kind != &kind_none, settings->log_path != NULL, "log", kind->name);
    if (settings->has_victim && settings->has_victims)
        bad_input("--victim and --victims exclude each other");
    if (settings->has_victim && settings->victim.count != 1)
        bad_input("--victim takes one CPU; use --victims for a list");
    if (rt && injection->length_ns >= injection->period_ns)
        bad_input("--length-us must be below --period-us");
    if (injection->offset_ns >= injection->period_ns)
        bad_input("--offset-us must be below the period, %g us", (double)injection->period_ns / NS_PER_US);
    if (injection->duration_ns / injection->period_ns >= MAX_EVENTS)
        bad_input("the window has more than %d events for each thread", (int)MAX_EVENTS);
}

// Returns the first CPU of `allowed` that is not in `taken`, or the first of all.
static unsigned first_other(const struct cpu_list *allowed, const struct cpu_list *taken)
{
    for (size_t i = 0; i < allowed->count; i++)
        if (!cpu_list_contains(taken, allowed->cpus[i]))
            return allowed->cpus[i];
    return allowed->cpus[0];
}

// By default the victim is on the first CPU that the process may use, and the injector on the last one.
static void choose_cpus(struct settings *settings)
{
    const struct kind *kind = settings->injection.kind;
    static struct cpu_list allowed;
    cpu_list_allowed(&allowed);
    if (kind->needs_other_cpu && allowed.count < 2)
        not_possible_here("kind %s needs two CPUs", kind->name);
    if (settings->has_victim)
        settings->victims = settings->victim;
    else if (!settings->has_victims && kind->needs_victim)
        settings->victims = (struct cpu_list){.count = 1, .cpus = {first_other(&allowed, &settings->cpus)}};
    if (kind->thread_name == NULL)
        return;
    if (!settings->has_cpus) {
        unsigned last = allowed.cpus[allowed.count - 1];
        bool taken = kind->needs_other_cpu && cpu_list_contains(&settings->victims, last);
        settings->cpus = (struct cpu_list){.count = 1, .cpus = {taken ? allowed.cpus[0] : last}};
    }
    for (size_t i = 0; kind->needs_other_cpu && i < settings->cpus.count; i++)
        if (cpu_list_contains(&settings->victims, settings->cpus.cpus[i]))
            bad_input("kind %s interrupts other CPUs: CPU %u cannot be the injector's and a victim's", kind->name,
                      settings->cpus.cpus[i]);
}

// Tries what the injector threads will do, so that a refusal is one line before anything starts.
static void demand_fifo(const struct injection *injection)
{
    const struct sched_param fifo = {.sched_priority = (int)injection->priority}, other = {0};
    if (sched_setscheduler(0, SCHED_FIFO, &fifo) != 0)
        bad_input("SCHED_FIFO is not permitted (%s): it needs CAP_SYS_NICE, or RLIMIT_RTPRIO of at least %d",
                  strerror(errno), fifo.sched_priority);
    if (sched_setscheduler(0, SCHED_OTHER, &other) != 0)
        system_failed("leave SCHED_FIFO");
}

static struct worker *create_workers(struct settings *settings, size_t *count)
{
    struct injection *injection = &settings->injection;
    injection->injectors = injection->kind->thread_name != NULL ? settings->cpus.count : 0;
    *count = injection->injectors + settings->victims.count;
    struct worker *workers = zeroed_array(CACHE_LINE, *count, sizeof *workers);
    for (size_t i = 0; i < *count; i++) {
        struct worker *worker = &workers[i];
        worker->injection = injection;
        worker->is_victim = i >= injection->injectors;
        worker->index = worker->is_victim ? i - injection->injectors : i;
        worker->cpu = (worker->is_victim ? &settings->victims : &settings->cpus)->cpus[worker->index];
        if (injects(worker))
            events_create(&worker->log, injection->duration_ns / injection->period_ns + 2);
    }
    return workers;
}

static FILE *open_log(const char *path)
{
    if (path == NULL)
        return NULL;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        bad_input("--log: cannot write '%s': %s", path, strerror(errno));
    return file;
}

static void collect_events(struct event_log *all, const struct worker *workers, size_t count)
{
    size_t events = 0;
    for (size_t i = 0; i < count; i++)
        events += workers[i].log.count;
    events_create(all, events);
    for (size_t i = 0; i < count; i++)
        events_append(all, &workers[i].log);
}

int main(int argc, char **argv)
{
    static struct settings settings = {
        .injection = {.duration_ns = NS_PER_SECOND, .period_ns = 10 * NS_PER_MS, .length_ns = 100 * NS_PER_US,
                      .bytes = 4096},
        .rate = 1000,
    };
    struct injection *injection = &settings.injection;
    injection->directory = scratch_default_directory();
    const struct option_spec options[] = {
        {"seconds", OPTION_SECONDS, &injection->duration_ns, 0.001, 86400, NULL, "S",
         "length of the window (1)", NULL},
        {"cpu", OPTION_CPUS, &settings.cpus, 0, 0, NULL, "LIST",
         "CPUs of the injector, a thread on each (the last one)", &settings.has_cpus},
        {"victim", OPTION_CPUS, &settings.victim, 0, 0, NULL, "C",
         "CPU of a victim, a thread that computes (kinds that need it: the first one)", &settings.has_victim},
        {"victims", OPTION_CPUS, &settings.victims, 0, 0, NULL, "LIST",
         "CPUs of victims, one on each", &settings.has_victims},
        {"rate", OPTION_NUMBER, &settings.rate, 0.1, 100000, NULL, "R",
         "events per second of each thread, except rt (1000)", &settings.has_rate},
        {"length-us", OPTION_MICROS, &injection->length_ns, 1, 1e6, NULL, "D",
         "rt: how long to spin (100)", &settings.has_length},
        {"period-us", OPTION_MICROS, &injection->period_ns, 10, 1e7, NULL, "P",
         "rt: from one event to the next (10000)", &settings.has_period},
        {"offset-us", OPTION_MICROS, &injection->offset_ns, 0, 1e7, NULL, "O",
         "shift of all instants (0)", &settings.has_offset},
        {"stagger", OPTION_FLAG, &injection->stagger, 0, 0, NULL, NULL,
         "out of step: CPU k of n is shifted by k/n of a period", NULL},
        {"priority", OPTION_COUNT, &injection->priority, 1, 99, NULL, "N",
         "priority of the injector in SCHED_FIFO (rt: 50; else it is not in SCHED_FIFO)", &settings.has_priority},
        {"bytes", OPTION_BYTES, &injection->bytes, 1, 1073741824.0, NULL, "BYTES",
         "sync: size of each write (4096)", &settings.has_bytes},
        {"dir", OPTION_TEXT, &injection->directory, 0, 0, NULL, "DIR",
         "sync: directory of the temporary file ($TMPDIR, else .)", &settings.has_directory},
        {"log", OPTION_TEXT, &settings.log_path, 0, 0, NULL, "FILE",
         "writes begin_ns,end_ns,tid of each event (CLOCK_MONOTONIC)", NULL},
    };
    const struct program program = {
        .name = "inject",
        .operands = "KIND",
        .summary =
            "Injects noise for a while, and says how much of it, when and how long. KIND is one of\n"
            "  rt          a SCHED_FIFO thread spins every period; instants are multiples of the period plus\n"
            "              the offset on CLOCK_MONOTONIC, the same for all CPUs and processes\n"
            "  munmap      a thread unmaps a page, which interrupts the victim's CPU (TLB shootdown)\n"
            "  membarrier  a thread calls membarrier, which interrupts the victim's CPU\n"
            "  sync        a thread writes a block and calls fdatasync\n"
            "  timers      a thread is woken by a periodic timer\n"
            "  faults      the victim touches new pages\n"
            "  none        only the victim, for comparison\n"
            "An event that is late is injected at once; if its whole period has passed, it is missed.",
        .example = "inject rt --cpu 0-3 --length-us 50 --period-us 10000 --stagger --seconds 10 --truth -\n"
                   "inject munmap --cpu 1 --victim 0 --rate 1000 --log events.csv\n"
                   "inject none --victims 0,1 --truth -",
        .checked = "Events and missed instants add up to those of the window; no event is early; victims have\n"
                   "the right results; each touch was a fault; the last block written is read back.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    const char *name = take_kind(&argc, argv);
    program_start(&program, argc, argv, &truth);
    if (name == NULL)
        bad_input("KIND is missing: rt, munmap, membarrier, sync, timers, faults or none");
    injection->kind = kind_named(name);
    if (injection->kind != &kind_rt)
        injection->period_ns = (uint64_t)llround((double)NS_PER_SECOND / settings.rate);
    else if (injection->priority == 0)
        injection->priority = 50;
    check_options(&settings);
    choose_cpus(&settings);
    if (injection->priority != 0)
        demand_fifo(injection);
    FILE *log_file = open_log(settings.log_path);
    size_t count;
    struct worker *workers = create_workers(&settings, &count);
    // Not for other kinds: locked pages cannot be given back, and new ones would be there at once.
    if (injection->kind == &kind_rt)
        injection->memory_locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;

    run_workers(injection, workers, count);

    munlockall();
    struct event_log all;
    collect_events(&all, workers, count);
    print_report(injection, workers, count, &all);
    write_truth(&truth, injection, workers, count, &all);
    if (log_file != NULL)
        events_write(&all, log_file, settings.log_path);
    events_destroy(&all);
    for (size_t i = 0; i < count; i++)
        events_destroy(&workers[i].log);
    free(workers);
    return program_end();
}
