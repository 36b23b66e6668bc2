// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the kinds of noise share. A kind is one row of functions: see struct kind.
#ifndef COX_WORKLOADS_INJECT_H
#define COX_WORKLOADS_INJECT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "clocks.h"
#include "events.h"
#include "grid.h"

struct worker;

struct kind {
    const char *name;
    const char *thread_name;     // of the injector threads; NULL: there are none
    bool needs_victim;
    bool needs_other_cpu;        // the injector must not run on a victim's CPU
    bool victim_injects;         // the victims themselves have events
    // Called in the injector thread before the window: opens what is needed, and warms up. May be NULL.
    void (*prepare)(struct worker *me);
    // Injects until the window ends. NULL: only victims run.
    void (*run)(struct worker *me);
    // Called in the same thread after the window: checks and closes. May be NULL.
    void (*finish)(struct worker *me);
};

extern const struct kind kind_rt, kind_munmap, kind_membarrier, kind_sync, kind_timers, kind_faults, kind_none;

// What all threads have in common: the options, and the window.
struct injection {
    const struct kind *kind;
    uint64_t duration_ns, period_ns;
    uint64_t length_ns, offset_ns;    // rt
    bool stagger;
    uint64_t priority;                // of the injectors in SCHED_FIFO; 0: they are not
    bool memory_locked;
    uint64_t bytes;                   // sync
    const char *directory;
    size_t injectors;                 // number of injector threads
    // Set by the main thread after all threads are ready and before any of them starts.
    uint64_t begin_ns, end_ns;
    pthread_barrier_t ready, started;
};

// What a thread has used in the window, by getrusage.
struct usage {
    uint64_t voluntary_switches, involuntary_switches, minor_faults, major_faults;
};

// A thread: an injector or a victim.
struct worker {
    struct injection *injection;
    bool is_victim;
    size_t index;            // among the injectors, or among the victims
    unsigned cpu;
    pthread_t handle;
    pid_t tid;
    struct grid grid;
    struct event_log log;
    uint64_t loops, loop_min_ns;     // victims
    uint64_t detours, detour_ns;     // victims: loops with an interruption, and by how much they were longer
    struct thread_span span;
    struct usage usage;
    int fd;                          // sync, timers
    uint64_t recycled;               // faults: how often the region was given back to the kernel
    void *memory;
};

static inline bool injects(const struct worker *worker)
{
    return worker->is_victim ? worker->injection->kind->victim_injects : worker->injection->kind->run != NULL;
}

// Loops of a victim: a fixed piece of work, and a look at the clock.
struct victim_work {
    uint64_t seed, value, loops, last_ns, min_ns;
    uint64_t detours, detour_ns;
};

// Finds out how long a loop takes at least; call before the window.
void victim_warm_up(struct worker *me);
struct victim_work victim_begin(const struct worker *me);
// Does one loop and returns the time at its end.
uint64_t victim_loop(struct victim_work *work);
// Checks the result and stores the counts in the worker.
void victim_end(struct worker *me, const struct victim_work *work);
// Computes until the window ends.
void victim_run(struct worker *me);

// Returns what the calling thread has used so far.
struct usage usage_now(void);

// Starts the threads, lets them run for one window and joins them.
void run_workers(struct injection *injection, struct worker *workers, size_t count);

#endif
