// SPDX-License-Identifier: Apache-2.0 OR MIT
// Ranks that are threads of one process.
//
// - Barrier: one for all threads.
// - Sum: each thread writes its value to its own slot and passes the barrier, and then adds all slots in the order of
//   the ranks. There are two sets of slots, used in turn: a thread that is still adding has not passed the next
//   barrier, so no thread can be two sums ahead and overwrite its set.
// - Exchange: each pair of neighbours has a barrier of two. A thread copies its borders to its outboxes, arrives at all
//   its pairs' barriers, and then waits at each and copies the neighbour's outbox. There are two sets of outboxes, used
//   in turn, for the same reason.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../barriers/barrier.h"
#include "array.h"
#include "fail.h"
#include "group.h"
#include "task.h"

const char *const group_suffix = "";

struct slot {
    _Alignas(CACHE_LINE) double value;
    uint64_t whole;
};

struct outbox {
    double *values[2];
    size_t capacity;
};

struct post {
    _Alignas(CACHE_LINE) struct slot slots[2];
    struct outbox outboxes[DIRECTIONS];
    struct barrier pairs[2];         // with the neighbours to the EAST and SOUTH
    const uint64_t *collected;       // values for group_collect
};

struct group {
    struct barrier all;
    struct post *posts;              // one per rank
    group_body *body;
    void *problem;
};

struct starter {
    struct group *group;
    struct member member;
    pthread_t handle;                // unused for rank 0
};

static void meet(struct barrier *barrier)
{
    uint32_t generation;
    if (barrier_arrive(barrier, &generation))
        barrier_release(barrier);
    else
        barrier_wait(barrier, generation);
}

static void *rank_main(void *argument)
{
    struct starter *starter = argument;
    if (starter->member.cpu != GROUP_NO_CPU)
        pin_to_cpu((unsigned)starter->member.cpu);
    starter->group->body(&starter->member, starter->group->problem);
    return NULL;
}

static struct barrier new_barrier(size_t threads, unsigned mode)
{
    return (struct barrier){.threads = (uint32_t)threads, .mode = mode, .pause = true};
}

void group_run(const struct group_options *options, group_body *body, void *problem)
{
    static struct cpu_list allowed;
    cpu_list_allowed(&allowed);
    size_t threads = options->threads, cpus = options->cpus.count > 0 ? options->cpus.count : allowed.count;
    if (threads == 0)
        threads = cpus < GROUP_MAX_THREADS ? cpus : GROUP_MAX_THREADS;
    // Threads that spin while others need their CPU would take turns by time slices.
    unsigned wait = options->has_wait ? options->wait : threads <= cpus ? WAIT_SPIN : WAIT_FUTEX;
    struct group group = {
        .all = new_barrier(threads, wait),
        .posts = zeroed_array(CACHE_LINE, threads, sizeof *group.posts),
        .body = body,
        .problem = problem,
    };
    struct starter *starters = zeroed_array(CACHE_LINE, threads, sizeof *starters);
    for (size_t i = 0; i < threads; i++) {
        for (size_t pair = 0; pair < 2; pair++)
            group.posts[i].pairs[pair] = new_barrier(2, wait);
        starters[i].group = &group;
        starters[i].member = (struct member){
            .rank = i,
            .ranks = threads,
            .cpu = options->cpus.count > 0 ? (int)options->cpus.cpus[i % options->cpus.count] : GROUP_NO_CPU,
            .group = &group,
        };
    }
    for (size_t i = 1; i < threads; i++)
        starters[i].handle = start_thread(rank_main, &starters[i], 0);
    rank_main(&starters[0]);
    for (size_t i = 1; i < threads; i++)
        join_thread(starters[i].handle);
    for (size_t i = 0; i < threads; i++)
        for (size_t box = 0; box < DIRECTIONS; box++)
            for (size_t set = 0; set < 2; set++)
                free(group.posts[i].outboxes[box].values[set]);
    free(starters);
    free(group.posts);
}

void group_barrier(struct member *me)
{
    meet(&me->group->all);
}

double group_sum(struct member *me, double own)
{
    size_t set = me->sums++ % 2;
    me->group->posts[me->rank].slots[set].value = own;
    meet(&me->group->all);
    double sum = 0;
    for (size_t rank = 0; rank < me->ranks; rank++)
        sum += me->group->posts[rank].slots[set].value;
    return sum;
}

uint64_t group_sum_u64(struct member *me, uint64_t own)
{
    size_t set = me->sums++ % 2;
    me->group->posts[me->rank].slots[set].whole = own;
    meet(&me->group->all);
    uint64_t sum = 0;
    for (size_t rank = 0; rank < me->ranks; rank++)
        sum += me->group->posts[rank].slots[set].whole;
    return sum;
}

// The barrier of a pair belongs to its western or northern rank.
static struct barrier *pair_of(struct member *me, const struct layout *layout, enum direction direction)
{
    bool mine = direction == EAST || direction == SOUTH;
    struct post *owner = &me->group->posts[mine ? me->rank : layout->neighbour[direction]];
    return &owner->pairs[direction == NORTH || direction == SOUTH];
}

static void fill(struct outbox *outbox, size_t set, const struct border *border)
{
    // The neighbour reads only after the barrier, and no longer reads this set.
    if (outbox->values[set] == NULL) {
        outbox->values[set] = zeroed_array(CACHE_LINE, border->count, sizeof *border->own);
        outbox->capacity = border->count;
    }
    if (border->count > outbox->capacity)
        check_failed("a border has become longer");
    memcpy(outbox->values[set], border->own, border->count * sizeof *border->own);
}

void group_exchange(struct member *me, const struct layout *layout, const struct border borders[DIRECTIONS])
{
    size_t set = me->exchanges++ % 2;
    bool waits[DIRECTIONS] = {false};
    uint32_t generations[DIRECTIONS];
    for (enum direction to = 0; to < DIRECTIONS; to++)
        if (layout->has[to])
            fill(&me->group->posts[me->rank].outboxes[to], set, &borders[to]);
    for (enum direction to = 0; to < DIRECTIONS; to++) {
        if (!layout->has[to])
            continue;
        waits[to] = !barrier_arrive(pair_of(me, layout, to), &generations[to]);
        if (!waits[to])
            barrier_release(pair_of(me, layout, to));
    }
    for (enum direction to = 0; to < DIRECTIONS; to++) {
        if (!layout->has[to])
            continue;
        if (waits[to])
            barrier_wait(pair_of(me, layout, to), generations[to]);
        const struct outbox *from = &me->group->posts[layout->neighbour[to]].outboxes[opposite(to)];
        memcpy(borders[to].theirs, from->values[set], borders[to].count * sizeof *borders[to].theirs);
    }
}

void group_collect(struct member *me, const uint64_t *values, size_t count, take_values *take, void *context)
{
    me->group->posts[me->rank].collected = values;
    group_barrier(me);
    for (size_t rank = 0; me->rank == 0 && rank < me->ranks; rank++)
        take(context, rank, me->group->posts[rank].collected, count);
    // The values stay until rank 0 has taken all.
    group_barrier(me);
}
