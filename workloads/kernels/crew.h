// SPDX-License-Identifier: Apache-2.0 OR MIT
// The threads of a pthreads kernel, and their barrier.
#ifndef COX_WORKLOADS_CREW_H
#define COX_WORKLOADS_CREW_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel.h"

typedef void crew_body(void *work, size_t thread);

// Runs `body` in every thread of the kernel (the caller is thread 0) and joins the others, which counts as
// one phase. Sets the elapsed time, and measures each thread if a truth is wanted.
void crew_run(struct kernel *kernel, crew_body *body, void *work);

// A pthread barrier, in which threads sleep without spinning, and the number of rounds.
struct crew_barrier {
    pthread_barrier_t barrier;
    uint64_t passed;
};

void crew_barrier_create(struct crew_barrier *barrier, size_t threads);
void crew_barrier_wait(struct crew_barrier *barrier);
// Returns the number of rounds.
uint64_t crew_barrier_destroy(struct crew_barrier *barrier);

// Mutex functions that end the program on any failure.
void crew_lock_create(pthread_mutex_t *lock);
void crew_lock(pthread_mutex_t *lock);
void crew_unlock(pthread_mutex_t *lock);

#endif
