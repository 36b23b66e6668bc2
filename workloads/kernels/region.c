// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "region.h"

#include "clocks.h"
#include "team.h"

void region_prepare(const struct kernel *kernel)
{
    team_prepare(kernel->threads);
}

void region_run(struct kernel *kernel, void (*body)(void *work), void *work)
{
    team_begin(&kernel->team, truth_wanted(&kernel->truth));
    uint64_t begin_ns = monotonic_ns();
    body(work);
    kernel->elapsed_ns = monotonic_ns() - begin_ns;
    team_end(&kernel->team);
}
