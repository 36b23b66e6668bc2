// SPDX-License-Identifier: Apache-2.0 OR MIT
// A central barrier with a generation counter, and four ways to wait in it.
//
// 1. Each thread reads the generation, then increments `arrived`.
// 2. The last thread resets `arrived` to 0 and then increments the generation (release): a thread that sees
//    the new generation also sees the 0, so it may enter the next round at once.
// 3. The other threads wait until the generation differs from the one read in step 1 (acquire).
#ifndef COX_WORKLOADS_BARRIER_H
#define COX_WORKLOADS_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum barrier_wait_mode {
    WAIT_FUTEX,         // sleep in the kernel immediately
    WAIT_SPIN,          // load in a loop, never enter the kernel
    WAIT_YIELD,         // sched_yield between loads
    WAIT_SPIN_FUTEX,    // spin up to a limit, then sleep
};

struct barrier {
    _Alignas(64) _Atomic uint32_t arrived;
    // Changes rarely, and all waiting threads load it: a cache line of its own.
    _Alignas(64) _Atomic uint32_t generation;
    _Atomic uint32_t sleepers;    // threads in or near futex_wait
    _Alignas(64) uint32_t threads;
    enum barrier_wait_mode mode;
    bool pause;                // use a pause instruction in the spin loop
    uint64_t spin_limit;       // loads before WAIT_SPIN_FUTEX goes to sleep
};

// The calling thread arrives. Returns true for the last thread, which must call barrier_release. All others
// must call barrier_wait with the value stored in `generation`.
bool barrier_arrive(struct barrier *barrier, uint32_t *generation);
void barrier_release(struct barrier *barrier);
void barrier_wait(struct barrier *barrier, uint32_t generation);

// Loads until the generation is no longer `generation` (returns true) or `limit` loads were made (returns
// false).
// A separate function, so that samples of the instruction pointer can identify waiting.
bool barrier_spin_wait(const _Atomic uint32_t *generation_word, uint32_t generation,
                       uint64_t limit, bool pause);

// Returns how many loads barrier_spin_wait makes per microsecond of CPU time on this machine.
double barrier_loads_per_us(bool pause);

#endif
