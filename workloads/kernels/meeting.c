// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "meeting.h"

#include <errno.h>
#include <stdbool.h>

#include "crew.h"
#include "fail.h"
#include "work.h"

void meeting_create(struct meeting *meeting, uint32_t threads, uint64_t spin_limit)
{
    crew_lock_create(&meeting->lock);
    errno = pthread_cond_init(&meeting->all_here, NULL);
    if (errno != 0)
        system_failed("create a condition variable");
    meeting->threads = threads;
    meeting->arrived = 0;
    meeting->spin_limit = spin_limit;
    atomic_store(&meeting->rounds, 0);
}

void meeting_destroy(struct meeting *meeting)
{
    pthread_cond_destroy(&meeting->all_here);
    pthread_mutex_destroy(&meeting->lock);
}

// A separate function, so that samples of the instruction pointer can identify waiting.
__attribute__((noinline)) static bool spin_for_others(const struct meeting *meeting, uint64_t round)
{
    for (uint64_t load = 0; load < meeting->spin_limit; load++) {
        if (atomic_load_explicit(&meeting->rounds, memory_order_acquire) != round)
            return true;
        cpu_relax();
    }
    return false;
}

static void sleep_for_others(struct meeting *meeting, uint64_t round)
{
    crew_lock(&meeting->lock);
    while (atomic_load_explicit(&meeting->rounds, memory_order_relaxed) == round) {
        errno = pthread_cond_wait(&meeting->all_here, &meeting->lock);
        if (errno != 0)
            system_failed("wait for the other threads");
    }
    crew_unlock(&meeting->lock);
}

void meeting_wait(struct meeting *meeting)
{
    crew_lock(&meeting->lock);
    uint64_t round = atomic_load_explicit(&meeting->rounds, memory_order_relaxed);
    bool last = ++meeting->arrived == meeting->threads;
    if (last) {
        meeting->arrived = 0;
        atomic_store_explicit(&meeting->rounds, round + 1, memory_order_release);
        // No wake-up is lost: a thread checks the round again under the lock before it sleeps.
        pthread_cond_broadcast(&meeting->all_here);
    }
    crew_unlock(&meeting->lock);
    if (!last && !spin_for_others(meeting, round))
        sleep_for_others(meeting, round);
}
