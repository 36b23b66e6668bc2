// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two processes that share the work, and blocking messages between them: by TCP (ranks.c), or by MPI
// (ranks_mpi.c), whose libraries wait in loops.
//
// With TCP there is one connection per channel, and in each rank a channel has at most one sender and one
// receiver at a time: the tasks that use it depend on its mark. So any number of receives may block at the
// same time and none takes another's message, without tags, demultiplexing or locks. The two directions of
// a connection are independent.
//
// Whether blocking receives can deadlock both ranks depends on the order of the tasks: if the messages must
// be ordered, `ranks_mark` returns the same mark for all of them.
#ifndef COX_WORKLOADS_APPS_RANKS_H
#define COX_WORKLOADS_APPS_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ranks {
    uint64_t count, rank;
    size_t channels;
    uint64_t patience_ns;    // time limit of a message
    int *connections;    // one per channel; NULL if there is one rank
    char *marks;         // [0] for all channels, then two per channel, for depend clauses
    _Atomic uint64_t messages;
};

// If a launcher (MPI) has started this process, sets `count` and `rank` and returns the launcher's name;
// otherwise returns NULL, and options give them. Must be the first call.
const char *ranks_join(uint64_t *count, uint64_t *rank);

// Connects two ranks. `peer` is HOST:PORT: rank 0 listens there, and rank 1 retries until `patience_ns` has
// passed. The same time limits each message. `problem` must be the same number in both ranks.
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

// The mark on which a task that sends or receives on this channel depends.
static inline char *ranks_mark(const struct ranks *ranks, size_t channel, bool sends, bool ordered)
{
    return &ranks->marks[ordered ? 0 : 1 + 2 * channel + sends];
}

// Block until all values are handed to the kernel, or have arrived.
void ranks_send(struct ranks *ranks, size_t channel, const double *values, size_t count);
void ranks_receive(struct ranks *ranks, size_t channel, double *values, size_t count);

// Returns the sum of `own` over all ranks, in all ranks; waits for the other rank. Not for use in tasks.
uint64_t ranks_sum(struct ranks *ranks, uint64_t own);

#endif
