// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "team.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fail.h"

size_t team_prepare(size_t threads)
{
    // A team whose size depends on the machine's load would not give comparable results.
    omp_set_dynamic(0);
    // libgomp's default is dynamic,1, the worst schedule for cheap iterations.
    if (getenv("OMP_SCHEDULE") == NULL)
        omp_set_schedule(omp_sched_static, 0);
    if (threads != 0)
        omp_set_num_threads((int)threads);
    size_t size = 0;
#pragma omp parallel
    {
#pragma omp single
        size = (size_t)omp_get_num_threads();
    }
    if (threads != 0 && size != threads)
        not_possible_here("the OpenMP runtime gave %zu threads instead of %zu", size, threads);
    return size;
}

void team_begin(struct team *team, bool wanted)
{
    *team = (struct team){0};
    if (!wanted)
        return;
    team_allocate(team, (size_t)omp_get_max_threads());
#pragma omp parallel
    member_begin(&team->members[omp_get_thread_num()]);
}

void team_end(struct team *team)
{
    if (team->members == NULL)
        return;
#pragma omp parallel
    {
        struct team_member *me = &team->members[omp_get_thread_num()];
        if (gettid() != me->tid)
            check_failed("OpenMP thread %d is another kernel thread than at the start",
                         omp_get_thread_num());
        member_end(me);
    }
}

void runtime_schedule_text(char *text, size_t bytes)
{
    omp_sched_t kind;
    int chunk;
    omp_get_schedule(&kind, &chunk);
    const char *name = "other";
    switch ((int)kind & 0x7fffffff) {    // the top bit is the monotonic modifier
    case omp_sched_static: name = "static"; break;
    case omp_sched_dynamic: name = "dynamic"; break;
    case omp_sched_guided: name = "guided"; break;
    case omp_sched_auto: name = "auto"; break;
    }
    if (chunk > 0)
        snprintf(text, bytes, "%s,%d", name, chunk);
    else
        snprintf(text, bytes, "%s", name);
}
