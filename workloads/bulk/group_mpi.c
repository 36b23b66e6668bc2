// SPDX-License-Identifier: Apache-2.0 OR MIT
// Ranks that are processes over MPI. A rank that waits spins in the library's loop.
#include <limits.h>
#include <stdlib.h>

// Old libraries' C++ bindings do not compile as C.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "array.h"
#include "fail.h"
#include "group.h"

const char *const group_suffix = "-mpi";

enum { TAG_COLLECT = 100 };

// The number of this process among those of the same machine.
static size_t local_rank(void)
{
    MPI_Comm machine;
    int number;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &number);
    MPI_Comm_free(&machine);
    return (size_t)number;
}

static int to_int(size_t count)
{
    if (count > INT_MAX)
        bad_input("a message of %zu values is too long for MPI", count);
    return (int)count;
}

void group_run(const struct group_options *options, group_body *body, void *problem)
{
    if (options->has_threads)
        bad_input("--threads cannot be used here: MPI starts the ranks (mpiexec -n N)");
    if (options->has_wait)
        bad_input("--wait cannot be used here: the MPI library decides how to wait");
    int given, ranks, rank;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
        check_failed("MPI cannot be initialised");
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct member me = {.rank = (size_t)rank, .ranks = (size_t)ranks, .cpu = GROUP_NO_CPU};
    if (options->cpus.count > 0) {
        me.cpu = (int)options->cpus.cpus[local_rank() % options->cpus.count];
        pin_to_cpu((unsigned)me.cpu);
    }
    body(&me, problem);
    MPI_Finalize();
}

void group_barrier(struct member *me)
{
    (void)me;
    MPI_Barrier(MPI_COMM_WORLD);
}

double group_sum(struct member *me, double own)
{
    (void)me;
    double sum;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

uint64_t group_sum_u64(struct member *me, uint64_t own)
{
    (void)me;
    uint64_t sum;
    MPI_Allreduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

void group_exchange(struct member *me, const struct layout *layout, const struct border borders[DIRECTIONS])
{
    (void)me;
    MPI_Request requests[2 * DIRECTIONS];
    // gcc warns of MPICH's MPI_STATUSES_IGNORE.
    MPI_Status statuses[2 * DIRECTIONS];
    int count = 0;
    // The tag is the direction in which the message travels.
    for (enum direction to = 0; to < DIRECTIONS; to++)
        if (layout->has[to])
            MPI_Irecv(borders[to].theirs, to_int(borders[to].count), MPI_DOUBLE, (int)layout->neighbour[to],
                      (int)opposite(to), MPI_COMM_WORLD, &requests[count++]);
    for (enum direction to = 0; to < DIRECTIONS; to++)
        if (layout->has[to])
            MPI_Isend(borders[to].own, to_int(borders[to].count), MPI_DOUBLE, (int)layout->neighbour[to], (int)to,
                      MPI_COMM_WORLD, &requests[count++]);
    MPI_Waitall(count, requests, statuses);
}

void group_collect(struct member *me, const uint64_t *values, size_t count, take_values *take, void *context)
{
    if (me->rank != 0) {
        MPI_Send(values, to_int(count), MPI_UINT64_T, 0, TAG_COLLECT, MPI_COMM_WORLD);
        return;
    }
    take(context, 0, values, count);
    uint64_t *theirs = zeroed_array(CACHE_LINE, count, sizeof *theirs);
    for (size_t rank = 1; rank < me->ranks; rank++) {
        MPI_Recv(theirs, to_int(count), MPI_UINT64_T, (int)rank, TAG_COLLECT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        take(context, rank, theirs, count);
    }
    free(theirs);
}
