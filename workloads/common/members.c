// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "members.h"

#include <stdlib.h>
#include <unistd.h>

#include "fail.h"

void team_allocate(struct team *team, size_t size)
{
    *team = (struct team){.size = size, .members = calloc(size, sizeof *team->members)};
    if (team->members == NULL)
        system_failed("allocate the team's records");
}

void member_begin(struct team_member *me)
{
    me->tid = gettid();
    thread_meter_open(&me->meter);
    me->begin = thread_meter_read(&me->meter);
}

void member_end(struct team_member *me)
{
    me->span = span_between(me->begin, thread_meter_read(&me->meter));
    thread_meter_close(&me->meter);
}

void team_truth(struct truth *truth, const struct team *team)
{
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < team->size; i++) {
        truth_object_begin(truth);
        truth_thread_span(truth, team->members[i].tid, team->members[i].span);
        truth_object_end(truth);
    }
    truth_array_end(truth);
}

void team_destroy(struct team *team)
{
    free(team->members);
    *team = (struct team){0};
}
