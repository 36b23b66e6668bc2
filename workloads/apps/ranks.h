// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two processes that share the work, and blocking messages between them: by TCP (ranks.c), or by MPI
// (ranks_mpi.c), whose libraries wait in loops, as a program that may choose neither.
//
// By TCP there is one connection per channel, and a channel has at most one sender and one receiver at a
// time in each rank: tasks that use one depend on its mark. So any number of receives may block at once
// and none of them takes another's message, without tags, demultiplexing or locks. The two directions
// of a connection have nothing to do with each other.
//
// Whether receives that block can block all threads of both ranks for ever depends on the order of
// the tasks: `ranks_mark` has one mark for all when they shall be one after the other.
#ifndef COX_WORKLOADS_APPS_RANKS_H
#define COX_WORKLOADS_APPS_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ranks {
    uint64_t count, rank;
    size_t channels;
    uint64_t patience_ns;    // for a message
    int *connections;    // of each channel; NULL when there is one rank
    char *marks;         // [0] all, then two of each channel, for depend clauses
    _Atomic uint64_t messages;
};

// Where a launcher tells a process who it is, sets both and says which launcher; NULL: options tell. The
// first call of all.
const char *ranks_join(uint64_t *count, uint64_t *rank);

// For two ranks. `peer` is HOST:PORT; rank 0 listens there until rank 1 comes, which tries again for as
// long as `patience_ns`. The same time is the longest a message may take. `problem` must be the same
// number in both.
void ranks_connect(struct ranks *ranks, const char *peer, uint64_t patience_ns, size_t channels,
                   uint64_t problem);
void ranks_destroy(struct ranks *ranks);

static inline bool ranks_has_next(const struct ranks *ranks)
{
    return ranks->rank + 1 < ranks->count;
}

static inline bool ranks_has_previous(const struct ranks *ranks)
{
    return ranks->rank > 0;
}

// What a task that sends or receives on this channel depends on.
static inline char *ranks_mark(const struct ranks *ranks, size_t channel, bool sends, bool ordered)
{
    return &ranks->marks[ordered ? 0 : 1 + 2 * channel + sends];
}

// Block until all values are with the kernel, or there.
void ranks_send(struct ranks *ranks, size_t channel, const double *values, size_t count);
void ranks_receive(struct ranks *ranks, size_t channel, double *values, size_t count);

// The sum over all ranks of `own`, in all ranks: waits for the other one. Outside the tasks.
uint64_t ranks_sum(struct ranks *ranks, uint64_t own);

#endif
