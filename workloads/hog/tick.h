// SPDX-License-Identifier: Apache-2.0 OR MIT
// What keeps the kernel from stopping the tick of a CPU on which one thread runs (nohz_full).
#ifndef COX_WORKLOADS_TICK_H
#define COX_WORKLOADS_TICK_H

enum keeper { KEEP_NONE, KEEP_CPU_TIMER, KEEP_PERF_EVENT };

// Lasts until the process ends.
void keep_tick(enum keeper keeper);

#endif
