// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the program says at its end, as text and as truth.
#ifndef COX_WORKLOADS_INJECT_REPORT_H
#define COX_WORKLOADS_INJECT_REPORT_H

#include <stddef.h>

#include "inject.h"
#include "truth.h"

// `all` holds the events of all workers.
void print_report(const struct injection *injection, const struct worker *workers, size_t count,
                  const struct event_log *all);
void write_truth(struct truth *truth, const struct injection *injection, const struct worker *workers,
                 size_t count, const struct event_log *all);

#endif
