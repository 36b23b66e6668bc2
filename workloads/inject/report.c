// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

static double per_second(const struct injection *injection, uint64_t count)
{
    return (double)count * NS_PER_SECOND / (double)(injection->end_ns - injection->begin_ns);
}

static uint64_t all_missed(const struct worker *workers, size_t count)
{
    uint64_t missed = 0;
    for (size_t i = 0; i < count; i++)
        missed += workers[i].grid.missed;
    return missed;
}

void print_report(const struct injection *injection, const struct worker *workers, size_t count,
                  const struct event_log *all)
{
    struct length_statistics lengths = events_lengths(all);
    printf("inject %s: %zu events, %.2f per second, %" PRIu64 " missed, in %.3f s\n", injection->kind->name,
           all->count, per_second(injection, all->count), all_missed(workers, count),
           (double)injection->duration_ns / NS_PER_SECOND);
    if (all->count > 0)
        printf("length: median %.2f us, mean %.2f, min %.2f, max %.2f\n", (double)lengths.median_ns / NS_PER_US,
               lengths.mean_ns / NS_PER_US, (double)lengths.min_ns / NS_PER_US,
               (double)lengths.max_ns / NS_PER_US);
    for (size_t i = 0; i < count; i++) {
        const struct worker *victim = &workers[i];
        if (victim->is_victim)
            printf("victim on CPU %u: %" PRIu64 " loops, shortest %" PRIu64 " ns, %" PRIu64 " detours, %.3f ms; switches %" PRIu64
                   " voluntary, %" PRIu64 " involuntary; faults %" PRIu64 " minor, %" PRIu64 " major\n",
                   victim->cpu, victim->loops, victim->loop_min_ns, victim->detours,
                   (double)victim->detour_ns / NS_PER_MS,
                   victim->usage.voluntary_switches, victim->usage.involuntary_switches,
                   victim->usage.minor_faults, victim->usage.major_faults);
    }
}

static void events_truth(struct truth *truth, const struct injection *injection, const struct event_log *log,
                         uint64_t missed)
{
    struct length_statistics lengths = events_lengths(log);
    truth_u64(truth, "count", log->count);
    truth_u64(truth, "missed", missed);
    truth_double(truth, "rate", per_second(injection, log->count));
    truth_u64(truth, "median_ns", lengths.median_ns);
    truth_double(truth, "mean_ns", lengths.mean_ns);
    truth_u64(truth, "min_ns", lengths.min_ns);
    truth_u64(truth, "max_ns", lengths.max_ns);
}

static void worker_truth(struct truth *truth, const struct worker *worker)
{
    const struct injection *injection = worker->injection;
    truth_object_begin(truth);
    truth_thread_span(truth, worker->tid, worker->span);
    truth_string(truth, "comm", worker->is_victim ? "victim" : injection->kind->thread_name);
    truth_string(truth, "role", worker->is_victim ? "victim" : "injector");
    truth_u64(truth, "cpu", worker->cpu);
    truth_u64(truth, "voluntary_switches", worker->usage.voluntary_switches);
    truth_u64(truth, "involuntary_switches", worker->usage.involuntary_switches);
    truth_u64(truth, "minor_faults", worker->usage.minor_faults);
    truth_u64(truth, "major_faults", worker->usage.major_faults);
    if (worker->is_victim) {
        truth_u64(truth, "loops", worker->loops);
        truth_u64(truth, "loop_min_ns", worker->loop_min_ns);
        truth_u64(truth, "detours", worker->detours);
        truth_u64(truth, "detour_ns", worker->detour_ns);
    }
    if (injects(worker)) {
        truth_u64(truth, "first_ns", worker->grid.first_ns);
        events_truth(truth, injection, &worker->log, worker->grid.missed);
    }
    if (injection->kind == &kind_timers && !worker->is_victim)
        truth_u64(truth, "expirations", worker->grid.count);
    if (injection->kind == &kind_faults)
        truth_u64(truth, "recycled", worker->recycled);
    truth_object_end(truth);
}

void write_truth(struct truth *truth, const struct injection *injection, const struct worker *workers,
                 size_t count, const struct event_log *all)
{
    if (!truth_wanted(truth))
        return;
    truth_begin(truth, "inject");
    truth_string(truth, "kind", injection->kind->name);
    truth_u64(truth, "begin_ns", injection->begin_ns);
    truth_u64(truth, "end_ns", injection->end_ns);
    truth_u64(truth, "period_ns", injection->period_ns);
    truth_u64(truth, "priority", injection->priority);
    if (injection->kind == &kind_rt) {
        truth_u64(truth, "length_ns", injection->length_ns);
        truth_bool(truth, "staggered", injection->stagger);
        truth_bool(truth, "memory_locked", injection->memory_locked);
    }
    events_truth(truth, injection, all, all_missed(workers, count));
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < count; i++)
        worker_truth(truth, &workers[i]);
    truth_array_end(truth);
    truth_end(truth);
}
