// SPDX-License-Identifier: Apache-2.0 OR MIT
// A central barrier with a generation counter, and four ways to wait in it.
//
// 1. Each thread reads the generation, then adds itself to `arrived`.
// 2. The last one sets `arrived` back to 0 and then raises the generation (release): a thread that
//    sees the new generation also sees the 0, so it may enter the next round at once.
// 3. The others wait until the generation differs from the one read in step 1 (acquire).
#ifndef COX_WORKLOADS_BARRIER_H
#define COX_WORKLOADS_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum barrier_wait_mode {
    WAIT_FUTEX,         // sleep in the kernel at once
    WAIT_SPIN,          // load in a loop, never enter the kernel
    WAIT_YIELD,         // sched_yield between loads
    WAIT_SPIN_FUTEX,    // spin up to a limit, then sleep
};

struct barrier {
    _Alignas(64) _Atomic uint32_t arrived;
    // Changes rarely and is what everybody loads while waiting: a cache line of its own.
    _Alignas(64) _Atomic uint32_t generation;
    _Atomic uint32_t sleepers;    // threads in or near futex_wait
    _Alignas(64) uint32_t threads;
    enum barrier_wait_mode mode;
    bool pause;                // put a pause instruction into the spin loop
    uint64_t spin_limit;       // loads before WAIT_SPIN_FUTEX goes to sleep
};

// The calling thread arrives. True for the last one: it must call barrier_release, all others
// barrier_wait with the generation returned in `generation`.
bool barrier_arrive(struct barrier *barrier, uint32_t *generation);
void barrier_release(struct barrier *barrier);
void barrier_wait(struct barrier *barrier, uint32_t generation);

// Loads until the generation is no longer `generation` (true) or `limit` loads were made (false).
// A function of its own, so that samples of the instruction pointer can name the waiting.
bool barrier_spin_wait(const _Atomic uint32_t *generation_word, uint32_t generation,
                       uint64_t limit, bool pause);

// Loads per microsecond of CPU time that barrier_spin_wait makes on this machine.
double barrier_loads_per_us(bool pause);

#endif
