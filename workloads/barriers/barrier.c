// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "barrier.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clocks.h"
#include "fail.h"
#include "work.h"

static uint32_t current_generation(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

bool barrier_arrive(struct barrier *barrier, uint32_t *generation)
{
    *generation = current_generation(&barrier->generation);
    return atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 ==
           barrier->threads;
}

void barrier_release(struct barrier *barrier)
{
    atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
    // Sequentially consistent, like the counting of sleepers: either the sleeper sees the new generation,
    // or the releaser sees the sleeper.
    atomic_fetch_add(&barrier->generation, 1);
    if (atomic_load(&barrier->sleepers) == 0)
        return;
    if (syscall(SYS_futex, &barrier->generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0) < 0)
        system_failed("wake the threads at the barrier");
}

__attribute__((noinline)) bool barrier_spin_wait(const _Atomic uint32_t *generation_word,
                                                 uint32_t generation, uint64_t limit, bool pause)
{
    if (!pause) {
        for (uint64_t load = 0; load < limit; load++)
            if (current_generation(generation_word) != generation)
                return true;
        return false;
    }
    for (uint64_t load = 0; load < limit; load++) {
        if (current_generation(generation_word) != generation)
            return true;
        cpu_relax();
    }
    return false;
}

static void sleep_until_released(struct barrier *barrier, uint32_t generation)
{
    atomic_fetch_add(&barrier->sleepers, 1);
    while (atomic_load(&barrier->generation) == generation) {
        long result = syscall(SYS_futex, &barrier->generation, FUTEX_WAIT_PRIVATE, generation,
                              NULL, NULL, 0);
        if (result < 0 && errno != EAGAIN && errno != EINTR)
            system_failed("sleep at the barrier");
    }
    atomic_fetch_sub(&barrier->sleepers, 1);
}

static void yield_until_released(const struct barrier *barrier, uint32_t generation)
{
    while (current_generation(&barrier->generation) == generation)
        sched_yield();
}

void barrier_wait(struct barrier *barrier, uint32_t generation)
{
    switch (barrier->mode) {
    case WAIT_FUTEX:
        sleep_until_released(barrier, generation);
        break;
    case WAIT_SPIN:
        barrier_spin_wait(&barrier->generation, generation, UINT64_MAX, barrier->pause);
        break;
    case WAIT_YIELD:
        yield_until_released(barrier, generation);
        break;
    case WAIT_SPIN_FUTEX:
        if (!barrier_spin_wait(&barrier->generation, generation, barrier->spin_limit,
                               barrier->pause))
            sleep_until_released(barrier, generation);
        break;
    }
}

double barrier_loads_per_us(bool pause)
{
    enum { TRIALS = 5, LOADS = 20000 };
    _Atomic uint32_t never_changes = 0;
    uint64_t best_ns = UINT64_MAX;
    for (int trial = 0; trial < TRIALS; trial++) {
        uint64_t begin_ns = thread_cpu_ns();
        barrier_spin_wait(&never_changes, 0, LOADS, pause);
        uint64_t used_ns = thread_cpu_ns() - begin_ns;
        best_ns = used_ns < best_ns ? used_ns : best_ns;
    }
    return (double)LOADS * NS_PER_US / (double)(best_ns > 0 ? best_ns : 1);
}
