// SPDX-License-Identifier: Apache-2.0 OR MIT
// Threads that use CPU time and do nothing else.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clocks.h"
#include "cpus.h"
#include "fail.h"
#include "options.h"
#include "task.h"
#include "tick.h"
#include "truth.h"
#include "work.h"

struct burner {
    size_t index;
    bool measure;
    const struct cpu_list *cpus;     // empty: not pinned
    uint64_t deadline_ns;
    uint64_t slice_iterations;       // between two readings of the clock
    struct work_answer answer;
    pid_t tid;
    uint64_t slices;
    struct thread_span span;
};

static void burn(struct burner *me)
{
    struct working_set none = {0};
    do {
        uint64_t seed = work_seed(me->index, me->slices);
        if (calibrated_work(seed, me->slice_iterations, &none) != work_answer(me->answer, seed))
            check_failed("thread %zu computed a wrong result", me->index);
        me->slices++;
    } while (monotonic_ns() < me->deadline_ns);
}

static void *burner_main(void *argument)
{
    struct burner *me = argument;
    name_thread("hog");
    me->tid = gettid();
    if (me->cpus->count != 0)
        pin_to_cpu(me->cpus->cpus[me->index % me->cpus->count]);
    if (!me->measure) {
        burn(me);
        return NULL;
    }
    struct thread_meter meter;
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    burn(me);
    me->span = span_between(begin, thread_meter_read(&meter));
    thread_meter_close(&meter);
    return NULL;
}

static void write_truth(struct truth *truth, const struct burner *burners, size_t count,
                        uint64_t elapsed_ns)
{
    truth_begin(truth, "hog");
    truth_u64(truth, "elapsed_ns", elapsed_ns);
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < count; i++) {
        truth_object_begin(truth);
        truth_thread_span(truth, burners[i].tid, burners[i].span);
        truth_u64(truth, "iterations", burners[i].slices * burners[i].slice_iterations);
        truth_object_end(truth);
    }
    truth_array_end(truth);
    truth_end(truth);
}

int main(int argc, char **argv)
{
    static struct cpu_list cpus;
    static const char *const keepers[] = {"none", "cpu-timer", "perf-event", NULL};
    uint64_t threads = 1, duration_ns = NS_PER_SECOND;
    unsigned keeper = KEEP_NONE;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N",
         "threads, the main thread among them (1)", NULL},
        {"seconds", OPTION_SECONDS, &duration_ns, 0.001, 86400, NULL, "S",
         "use CPU time for S seconds (1)", NULL},
        {"cpu", OPTION_CPUS, &cpus, 0, 0, NULL, "LIST",
         "pin thread i to the i-th CPU of the list, cyclically (not pinned)", NULL},
        {"keep-tick", OPTION_CHOICE, &keeper, 0, 0, keepers, "WHAT",
         "what keeps the kernel from stopping the tick: none, cpu-timer, perf-event (none)", NULL},
    };
    const struct program program = {
        .name = "hog",
        .summary = "N threads named 'hog' use CPU time without blocking.",
        .example = "hog --threads 2 --cpu 0-1 --seconds 5 --truth -",
        .checked = "All arithmetic, against its closed form, after about every millisecond of work.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    keep_tick(keeper);
    struct burner *burners = calloc(threads, sizeof *burners);
    pthread_t *others = calloc(threads, sizeof *others);
    if (burners == NULL || others == NULL)
        system_failed("allocate %" PRIu64 " threads", threads);

    // Do not calibrate, because that would use a CPU outside the list. This takes about a millisecond
    // anywhere.
    const uint64_t slice_iterations = 500000;
    uint64_t begin_ns = monotonic_ns();
    for (size_t i = 0; i < threads; i++)
        burners[i] = (struct burner){
            .index = i,
            .measure = truth_wanted(&truth),
            .cpus = &cpus,
            .deadline_ns = begin_ns + duration_ns,
            .slice_iterations = slice_iterations,
            .answer = work_answer_for(slice_iterations),
        };
    for (size_t i = 1; i < threads; i++)
        others[i] = start_thread(burner_main, &burners[i], 0);
    burner_main(&burners[0]);
    for (size_t i = 1; i < threads; i++)
        join_thread(others[i]);
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;

    printf("hog: %" PRIu64 " threads burned for %.4f s\n", threads,
           (double)elapsed_ns / NS_PER_SECOND);
    write_truth(&truth, burners, threads, elapsed_ns);
    free(burners);
    free(others);
    return program_end();
}
