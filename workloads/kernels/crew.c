// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "crew.h"

#include <errno.h>
#include <stdlib.h>

#include "clocks.h"
#include "fail.h"
#include "task.h"

struct crew_member {
    struct kernel *kernel;
    crew_body *body;
    void *work;
    size_t thread;
    pthread_t handle;    // unused for thread 0
};

static void *member_main(void *argument)
{
    struct crew_member *me = argument;
    struct team_member *record =
        me->kernel->team.members != NULL ? &me->kernel->team.members[me->thread] : NULL;
    if (record != NULL)
        member_begin(record);
    me->body(me->work, me->thread);
    if (record != NULL)
        member_end(record);
    return NULL;
}

void crew_run(struct kernel *kernel, crew_body *body, void *work)
{
    struct crew_member *members = kernel_array(kernel->threads, sizeof *members);
    if (truth_wanted(&kernel->truth))
        team_allocate(&kernel->team, kernel->threads);
    uint64_t begin_ns = monotonic_ns();
    for (size_t i = 0; i < kernel->threads; i++)
        members[i] = (struct crew_member){kernel, body, work, i, 0};
    for (size_t i = 1; i < kernel->threads; i++)
        members[i].handle = start_thread(member_main, &members[i], 0);
    member_main(&members[0]);
    for (size_t i = 1; i < kernel->threads; i++)
        join_thread(members[i].handle);
    kernel->elapsed_ns = monotonic_ns() - begin_ns;
    kernel->phases++;
    free(members);
}

void crew_barrier_create(struct crew_barrier *barrier, size_t threads)
{
    barrier->passed = 0;
    errno = pthread_barrier_init(&barrier->barrier, NULL, (unsigned)threads);
    if (errno != 0)
        system_failed("create a barrier");
}

void crew_barrier_wait(struct crew_barrier *barrier)
{
    int result = pthread_barrier_wait(&barrier->barrier);
    // One thread of each round gets this value, and the next round cannot end without that thread.
    if (result == PTHREAD_BARRIER_SERIAL_THREAD) {
        barrier->passed++;
        return;
    }
    errno = result;
    if (errno != 0)
        system_failed("wait at a barrier");
}

uint64_t crew_barrier_destroy(struct crew_barrier *barrier)
{
    pthread_barrier_destroy(&barrier->barrier);
    return barrier->passed;
}

void crew_lock_create(pthread_mutex_t *lock)
{
    errno = pthread_mutex_init(lock, NULL);
    if (errno != 0)
        system_failed("create a lock");
}

void crew_lock(pthread_mutex_t *lock)
{
    errno = pthread_mutex_lock(lock);
    if (errno != 0)
        system_failed("take a lock");
}

void crew_unlock(pthread_mutex_t *lock)
{
    errno = pthread_mutex_unlock(lock);
    if (errno != 0)
        system_failed("release a lock");
}
