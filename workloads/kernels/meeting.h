// SPDX-License-Identifier: Apache-2.0 OR MIT
// A barrier as many programs implement it: spin for a while, then sleep on a condition variable.
#ifndef COX_WORKLOADS_MEETING_H
#define COX_WORKLOADS_MEETING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    uint32_t threads;
    uint32_t arrived;       // protected by the lock
    uint64_t spin_limit;    // loads before a thread sleeps
    // Number of completed rounds. Changed under the lock; spinning threads read it without the lock.
    _Alignas(64) _Atomic uint64_t rounds;
};

void meeting_create(struct meeting *meeting, uint32_t threads, uint64_t spin_limit);
void meeting_destroy(struct meeting *meeting);

// Returns when all threads have called it as often as the caller has.
void meeting_wait(struct meeting *meeting);

#endif
