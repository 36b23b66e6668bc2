// SPDX-License-Identifier: Apache-2.0 OR MIT
// Measures how long a CPU stays idle when its thread blocks while a task is ready, and alternately how
// long it takes to wake a thread by an eventfd. See --help.
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "array.h"
#include "clocks.h"
#include "cpus.h"
#include "fail.h"
#include "options.h"
#include "truth.h"

enum { WARM_UP = 50 };

// A thread on another CPU that sleeps until its eventfd is written.
struct sleeper {
    unsigned cpu;
    int rung, heard;    // eventfds: to it, and back
    _Alignas(CACHE_LINE) _Atomic uint64_t awake_ns;
    _Atomic uint64_t pause_ns;    // time from its wake-up to its answer
};

static void raise_event(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one)
        system_failed("write an eventfd");
}

static void await_event(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) != sizeof count)
        system_failed("read an eventfd");
}

static void *sleep_and_wake(void *argument)
{
    struct sleeper *sleeper = argument;
    pin_to_cpu(sleeper->cpu);
    for (;;) {
        await_event(sleeper->rung);
        atomic_store(&sleeper->awake_ns, monotonic_ns());
        uint64_t pause_ns = atomic_load(&sleeper->pause_ns);
        if (pause_ns > 0)
            sleep_for_ns(pause_ns);
        raise_event(sleeper->heard);
    }
    return NULL;
}

// Returns the time from before the write until the other thread's read has returned.
static uint64_t by_eventfd(struct sleeper *sleeper, uint64_t pause_ns)
{
    // Sleep first, so that the other thread has slept for as long as in by_task.
    sleep_for_ns(pause_ns);
    atomic_store(&sleeper->pause_ns, 0);
    uint64_t begin_ns = monotonic_ns();
    raise_event(sleeper->rung);
    await_event(sleeper->heard);
    return atomic_load(&sleeper->awake_ns) - begin_ns;
}

// Returns the time from before this thread blocks to the first instruction of the task that was ready. The
// thread blocks in read(), because a sleep would first set a timer, which takes as long as a wake-up on
// some virtual machines.
static uint64_t by_task(struct sleeper *sleeper, uint64_t pause_ns)
{
    uint64_t first_ns = 0;
    atomic_store(&sleeper->pause_ns, pause_ns);
    raise_event(sleeper->rung);
#pragma omp task shared(first_ns)
    first_ns = monotonic_ns();
    uint64_t begin_ns = monotonic_ns();
    await_event(sleeper->heard);
#pragma omp taskwait
    return first_ns - begin_ns;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static double quantile_us(const uint64_t *sorted, uint64_t count, double part)
{
    return (double)sorted[(uint64_t)((double)(count - 1) * part)] / 1e3;
}

int main(int argc, char **argv)
{
    uint64_t count = 1000, pause_ns = 300 * NS_PER_US;
    struct cpu_list allowed;
    cpu_list_allowed(&allowed);
    struct sleeper sleeper = {.cpu = allowed.cpus[0] == 0};
    uint64_t other = sleeper.cpu;
    const struct option_spec options[] = {
        {"count", OPTION_COUNT, &count, 1, 1e6, NULL, "N", "number of measurements of each kind (1000)", NULL},
        {"pause-us", OPTION_MICROS, &pause_ns, 10, 1e6, NULL, "T", "how long the thread is blocked, us (300)", NULL},
        {"other", OPTION_COUNT, &other, 0, MAX_CPUS - 1, NULL, "CPU", "CPU of the thread that an eventfd wakes (1, or 0 if 1 is used)", NULL},
    };
    const struct program program = {
        .name = "firsttask",
        .summary = "Makes an OpenMP task and blocks. Measures how long it takes until another thread runs it on\n"
                   "the same CPU, alternately with the time to wake a thread on another CPU by an eventfd.",
        .example = "taskset -c 0 cox run --overlap -- firsttask",
        .checked = "The program may use only one CPU, and each task runs once.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (allowed.count != 1)
        bad_input("this process may use %zu CPUs, but must have exactly one: taskset -c 0 firsttask", allowed.count);
    if (other == allowed.cpus[0])
        bad_input("--other must be another CPU than the one that this process uses");
    sleeper.cpu = (unsigned)other;
    sleeper.rung = eventfd(0, EFD_CLOEXEC);
    sleeper.heard = eventfd(0, EFD_CLOEXEC);
    if (sleeper.rung < 0 || sleeper.heard < 0)
        system_failed("make an eventfd");
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_and_wake, &sleeper) != 0)
        check_failed("cannot make a thread");

    uint64_t *tasks = zeroed_array(CACHE_LINE, count, sizeof *tasks);
    uint64_t *events = zeroed_array(CACHE_LINE, count, sizeof *events);
#pragma omp parallel num_threads(1)
    for (uint64_t i = 0; i < count + WARM_UP; i++) {
        uint64_t at = i < WARM_UP ? 0 : i - WARM_UP;
        tasks[at] = by_task(&sleeper, pause_ns);
        events[at] = by_eventfd(&sleeper, pause_ns);
    }
    qsort(tasks, count, sizeof *tasks, by_size);
    qsort(events, count, sizeof *events, by_size);

    printf("firsttask: block to first task %.1f us (p90 %.1f), by eventfd to another CPU %.1f us (p90 %.1f)\n",
           quantile_us(tasks, count, 0.5), quantile_us(tasks, count, 0.9), quantile_us(events, count, 0.5),
           quantile_us(events, count, 0.9));
    truth_begin(&truth, "firsttask");
    truth_u64(&truth, "count", count);
    truth_double(&truth, "task_us", quantile_us(tasks, count, 0.5));
    truth_double(&truth, "task_p90_us", quantile_us(tasks, count, 0.9));
    truth_double(&truth, "eventfd_us", quantile_us(events, count, 0.5));
    truth_double(&truth, "eventfd_p90_us", quantile_us(events, count, 0.9));
    truth_end(&truth);
    free(tasks);
    free(events);
    return program_end();
}
