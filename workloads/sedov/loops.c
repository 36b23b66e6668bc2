// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "loops.h"

#include <stdlib.h>

// The names, and which loops are schedule(runtime).
static const struct {
    const char *name;
    bool runtime;
} descriptions[LOOP_COUNT] = {
    [LOOP_SMOOTHING_LENGTH] = {"smoothing length", true},
    [LOOP_POSITIONS] = {"positions", false},
    [LOOP_CLEAR_CELLS] = {"clear cells", false},
    [LOOP_ASSIGN_CELLS] = {"assign cells", false},
    [LOOP_FILL_CELLS] = {"fill cells", false},
    [LOOP_SORT_CELLS] = {"sort cells", false},
    [LOOP_RANGE_OF_CELLS] = {"range of cells", false},
    [LOOP_FIND_NEIGHBOURS] = {"find neighbours", false},
    [LOOP_COUNT_NEIGHBOURS] = {"count neighbours", false},
    [LOOP_DENSITY] = {"density", false},
    [LOOP_EQUATION_OF_STATE] = {"equation of state", false},
    [LOOP_GRADIENT_TERMS] = {"gradient terms", true},
    [LOOP_MOMENTUM_AND_ENERGY] = {"momentum and energy", true},
    [LOOP_VELOCITIES] = {"velocities", false},
    [LOOP_TIME_STEP] = {"time step", false},
    [LOOP_TOTALS] = {"totals", false},
};

void loops_create(struct loops *loops, size_t threads, bool timed)
{
    *loops = (struct loops){.threads = threads, .timed = timed};
    if (!timed)
        return;
    loops->finishes = zeroed_array(CACHE_LINE, threads, sizeof *loops->finishes);
    for (size_t loop = 0; loop < LOOP_COUNT; loop++)
        loops->records[loop].thread_ns = zeroed_array(CACHE_LINE, threads, sizeof(uint64_t));
}

void loops_destroy(struct loops *loops)
{
    free(loops->finishes);
    for (size_t loop = 0; loop < LOOP_COUNT; loop++)
        free(loops->records[loop].thread_ns);
}

void loop_begin(struct loops *loops, enum loop loop, const char *function, int line)
{
    if (!loops->timed)
        return;
    loops->present = loop;
    loops->records[loop].function = function;
    loops->records[loop].line = line;
    loops->begin_ns = monotonic_ns();
}

void loop_end(struct loops *loops)
{
    if (!loops->timed)
        return;
    struct loop_record *record = &loops->records[loops->present];
    record->instances++;
    record->region_ns += monotonic_ns() - loops->begin_ns;
    uint64_t last_ns = 0;
    for (size_t thread = 0; thread < loops->threads; thread++) {
        uint64_t finish_ns = loops->finishes[thread].monotonic_ns - loops->begin_ns;
        record->thread_ns[thread] += finish_ns;
        last_ns = finish_ns > last_ns ? finish_ns : last_ns;
    }
    record->last_ns += last_ns;
}

static double mean_finish_ns(const struct loop_record *record, size_t threads)
{
    double sum_ns = 0;
    for (size_t thread = 0; thread < threads; thread++)
        sum_ns += (double)record->thread_ns[thread];
    return sum_ns / (double)threads;
}

// Load imbalance (LIB) as LB4OMP defines it: 0 if all threads finish together, 100 if one thread does everything.
static double lib_percent(const struct loop_record *record, size_t threads)
{
    if (threads == 1 || record->last_ns == 0)
        return 0;
    double ratio = mean_finish_ns(record, threads) / (double)record->last_ns;
    return 100 * (1 - ratio) * (double)threads / (double)(threads - 1);
}

static void write_record(struct truth *truth, const struct loops *loops, size_t loop)
{
    const struct loop_record *record = &loops->records[loop];
    truth_object_begin(truth);
    truth_string(truth, "name", descriptions[loop].name);
    truth_string(truth, "function", record->function);
    truth_u64(truth, "line", (uint64_t)record->line);
    truth_string(truth, "schedule", descriptions[loop].runtime ? "runtime" : "static");
    truth_u64(truth, "instances", record->instances);
    truth_u64(truth, "ns", record->region_ns);
    truth_u64(truth, "last_ns", record->last_ns);
    truth_double(truth, "lib_percent", lib_percent(record, loops->threads));
    truth_array_begin(truth, "thread_ns");
    for (size_t thread = 0; thread < loops->threads; thread++)
        truth_u64(truth, NULL, record->thread_ns[thread]);
    truth_array_end(truth);
    truth_object_end(truth);
}

void loops_truth(struct truth *truth, const struct loops *loops)
{
    if (!loops->timed)
        return;
    truth_array_begin(truth, "loops");
    for (size_t loop = 0; loop < LOOP_COUNT; loop++)
        write_record(truth, loops, loop);
    truth_array_end(truth);
}
