// SPDX-License-Identifier: Apache-2.0 OR MIT
// The same messages by MPI: a channel is a tag. A waiting receive spins in the library's loop and occupies a
// CPU.
#include "ranks.h"

#include <limits.h>
#include <stdlib.h>

// Old libraries' C++ bindings do not compile as C.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "array.h"
#include "fail.h"

// A tag beyond those of the channels, for messages outside the tasks.
enum { TAG_SUM = 32000 };

static int to_int(size_t count)
{
    if (count > INT_MAX)
        bad_input("a message of %zu values is too long for MPI", count);
    return (int)count;
}

static int other(const struct ranks *ranks)
{
    return ranks->rank == 0 ? 1 : 0;
}

const char *ranks_join(uint64_t *count, uint64_t *rank)
{
    int given, size, number;
    // Any thread may send and receive, because tasks run on any thread.
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given) != MPI_SUCCESS)
        check_failed("MPI cannot be initialised");
    if (given < MPI_THREAD_MULTIPLE)
        check_failed("this MPI library does not let any thread call it");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    if (size > 2)
        bad_input("at most two ranks share the work, not %d", size);
    *count = (uint64_t)size;
    *rank = (uint64_t)number;
    return "MPI";
}

void ranks_connect(struct ranks *ranks, const char *peer, uint64_t patience_ns, size_t channels,
                   uint64_t problem)
{
    (void)peer;
    // A blocking MPI call has no time limit.
    (void)patience_ns;
    if (channels >= TAG_SUM)
        bad_input("%zu channels are too many", channels);
    ranks->channels = channels;
    ranks->marks = zeroed_array(CACHE_LINE, 1 + 2 * channels, sizeof *ranks->marks);
    uint64_t theirs;
    MPI_Sendrecv(&problem, 1, MPI_UINT64_T, other(ranks), TAG_SUM, &theirs, 1, MPI_UINT64_T,
                 other(ranks), TAG_SUM, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (theirs != problem)
        check_failed("the other rank has another problem");
}

void ranks_destroy(struct ranks *ranks)
{
    free(ranks->marks);
    MPI_Finalize();
}

void ranks_send(struct ranks *ranks, size_t channel, const double *values, size_t count)
{
    MPI_Send(values, to_int(count), MPI_DOUBLE, other(ranks), (int)channel, MPI_COMM_WORLD);
    atomic_fetch_add_explicit(&ranks->messages, 1, memory_order_relaxed);
}

void ranks_receive(struct ranks *ranks, size_t channel, double *values, size_t count)
{
    MPI_Recv(values, to_int(count), MPI_DOUBLE, other(ranks), (int)channel, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    atomic_fetch_add_explicit(&ranks->messages, 1, memory_order_relaxed);
}

uint64_t ranks_sum(struct ranks *ranks, uint64_t own)
{
    if (ranks->count == 1)
        return own;
    uint64_t theirs;
    MPI_Sendrecv(&own, 1, MPI_UINT64_T, other(ranks), TAG_SUM, &theirs, 1, MPI_UINT64_T,
                 other(ranks), TAG_SUM, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return own + theirs;
}
