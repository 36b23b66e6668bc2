// SPDX-License-Identifier: Apache-2.0 OR MIT
// The life of a thread: pinned, prepared, one window, counts at its begin and end.
//
// 1. Each thread prepares itself and waits at `ready`.
// 2. The main thread sets the window, which begins a little later, and lets all pass `started`.
// 3. Victims sleep until the window begins, injectors until their first instant. All end by the clock.
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpus.h"
#include "fail.h"
#include "inject.h"
#include "task.h"
#include "work.h"

// Iterations of a victim's loop, some microseconds: short beside the events, long beside a look at the clock.
enum { LOOP_ITERATIONS = 2000, WARM_UP_LOOPS = 200 };

// A loop that takes this much longer than the shortest one was interrupted. Less can be a lower clock rate.
static const uint64_t detour_limit_ns = 1000;

// From the moment when all threads are ready to the begin of the window.
static const uint64_t start_delay_ns = 20 * NS_PER_MS;

static void pass(pthread_barrier_t *barrier)
{
    int result = pthread_barrier_wait(barrier);
    if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD) {
        errno = result;
        system_failed("wait for the other threads");
    }
}

struct usage usage_now(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        system_failed("read the thread's resource usage");
    return (struct usage){
        .voluntary_switches = (uint64_t)usage.ru_nvcsw,
        .involuntary_switches = (uint64_t)usage.ru_nivcsw,
        .minor_faults = (uint64_t)usage.ru_minflt,
        .major_faults = (uint64_t)usage.ru_majflt,
    };
}

static struct usage usage_since(struct usage begin)
{
    struct usage now = usage_now();
    return (struct usage){
        .voluntary_switches = now.voluntary_switches - begin.voluntary_switches,
        .involuntary_switches = now.involuntary_switches - begin.involuntary_switches,
        .minor_faults = now.minor_faults - begin.minor_faults,
        .major_faults = now.major_faults - begin.major_faults,
    };
}

void victim_warm_up(struct worker *me)
{
    struct victim_work work = {.last_ns = monotonic_ns(), .min_ns = UINT64_MAX};
    for (int i = 0; i < WARM_UP_LOOPS; i++)
        victim_loop(&work);
    me->loop_min_ns = work.min_ns;
}

struct victim_work victim_begin(const struct worker *me)
{
    uint64_t seed = work_seed(me->index, 0);
    return (struct victim_work){.seed = seed, .value = seed, .last_ns = monotonic_ns(), .min_ns = me->loop_min_ns};
}

uint64_t victim_loop(struct victim_work *work)
{
    struct working_set none = {0};
    work->value = calibrated_work(work->value, LOOP_ITERATIONS, &none);
    uint64_t now_ns = monotonic_ns(), took_ns = now_ns - work->last_ns;
    if (took_ns < work->min_ns)
        work->min_ns = took_ns;
    if (took_ns > work->min_ns + detour_limit_ns) {
        work->detours++;
        work->detour_ns += took_ns - work->min_ns;
    }
    work->last_ns = now_ns;
    work->loops++;
    return now_ns;
}

void victim_end(struct worker *me, const struct victim_work *work)
{
    if (work->value != work_answer(work_answer_for(work->loops * LOOP_ITERATIONS), work->seed))
        check_failed("victim %zu has a wrong result", me->index);
    me->loops = work->loops;
    me->loop_min_ns = work->min_ns;
    me->detours = work->detours;
    me->detour_ns = work->detour_ns;
}

void victim_run(struct worker *me)
{
    struct victim_work work = victim_begin(me);
    while (victim_loop(&work) < me->injection->end_ns)
        continue;
    victim_end(me, &work);
}

// In step: the same instants on all CPUs. Staggered: CPU k of n is shifted by k/n of a period.
static uint64_t offset_of(const struct worker *worker)
{
    const struct injection *injection = worker->injection;
    if (worker->is_victim)
        return 0;
    uint64_t shift_ns = injection->stagger ? injection->period_ns * worker->index / injection->injectors : 0;
    return (injection->offset_ns + shift_ns) % injection->period_ns;
}

static void use_fifo(uint64_t priority)
{
    const struct sched_param parameters = {.sched_priority = (int)priority};
    errno = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
    if (errno != 0)
        system_failed("use SCHED_FIFO");
}

static void *worker_main(void *argument)
{
    struct worker *me = argument;
    struct injection *injection = me->injection;
    const struct kind *kind = injection->kind;
    bool acts = injects(me);
    struct thread_meter meter;
    me->tid = gettid();
    name_thread(me->is_victim ? "victim" : kind->thread_name);
    pin_to_cpu(me->cpu);
    // Otherwise the kernel may wake a sleeper 50 us late.
    if (prctl(PR_SET_TIMERSLACK, 1) != 0)
        system_failed("set the timer slack");
    thread_meter_open(&meter);
    if (!me->is_victim && injection->priority != 0)
        use_fifo(injection->priority);
    if (acts && kind->prepare != NULL)
        kind->prepare(me);
    if (me->is_victim)
        victim_warm_up(me);
    pass(&injection->ready);
    pass(&injection->started);
    if (acts)
        me->grid = grid_in_window(injection->begin_ns, injection->end_ns, offset_of(me), injection->period_ns);
    if (me->is_victim)
        sleep_until_ns(injection->begin_ns);
    struct thread_instant begin = thread_meter_read(&meter);
    struct usage begin_usage = usage_now();
    if (acts)
        kind->run(me);
    else
        victim_run(me);
    me->usage = usage_since(begin_usage);
    me->span = span_between(begin, thread_meter_read(&meter));
    thread_meter_close(&meter);
    if (acts && kind->finish != NULL)
        kind->finish(me);
    if (acts && me->log.count + me->grid.missed != me->grid.count)
        check_failed("%s: %zu events and %" PRIu64 " missed instants do not add up to %" PRIu64,
                     kind->name, me->log.count, me->grid.missed, me->grid.count);
    return NULL;
}

static void create_barrier(pthread_barrier_t *barrier, size_t count)
{
    errno = pthread_barrier_init(barrier, NULL, (unsigned)count);
    if (errno != 0)
        system_failed("create a barrier");
}

void run_workers(struct injection *injection, struct worker *workers, size_t count)
{
    create_barrier(&injection->ready, count + 1);
    create_barrier(&injection->started, count + 1);
    for (size_t i = 0; i < count; i++)
        workers[i].handle = start_thread(worker_main, &workers[i], 0);
    pass(&injection->ready);
    // A multiple of the period: rt injectors in several processes have the same instants.
    uint64_t multiple_ns = injection->kind == &kind_rt ? injection->period_ns : 1;
    uint64_t earliest_ns = monotonic_ns() + start_delay_ns;
    injection->begin_ns = (earliest_ns + multiple_ns - 1) / multiple_ns * multiple_ns;
    injection->end_ns = injection->begin_ns + injection->duration_ns;
    pass(&injection->started);
    for (size_t i = 0; i < count; i++)
        join_thread(workers[i].handle);
    pthread_barrier_destroy(&injection->ready);
    pthread_barrier_destroy(&injection->started);
}
