/*
 * A line of values that is divided among MPI ranks: halo VALUES STEPS.
 *
 * In each step every rank computes its part and exchanges the values at its borders with its neighbours. Every tenth step, all ranks add up a sum.
 * The work of all ranks together is the same for every number of ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, ranks;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 3) {
		fprintf(stderr, "usage: halo VALUES STEPS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	long all = atol(argv[1]), steps = atol(argv[2]);
	long own = all / ranks + (rank < all % ranks);
	double *from = calloc((size_t)own + 2, sizeof *from);
	double *to = calloc((size_t)own + 2, sizeof *to);
	if (!from || !to)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (long i = 1; i <= own; i++)
		from[i] = (double)((i + rank) % 100);
	int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
	double sum = 0;
	for (long step = 0; step < steps; step++) {
		MPI_Sendrecv(from + 1, 1, MPI_DOUBLE, left, 0, from + own + 1, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		MPI_Sendrecv(from + own, 1, MPI_DOUBLE, right, 1, from, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		for (long i = 1; i <= own; i++)
			to[i] = from[i] / (1.0 + 1e-9 * from[i - 1] * from[i + 1]);
		if (step % 10 == 9) {
			double part = 0;
			for (long i = 1; i <= own; i++)
				part += to[i];
			MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		}
		double *swapped = from;
		from = to;
		to = swapped;
	}
	if (!rank)
		printf("%.6e\n", sum);
	MPI_Finalize();
	free(from);
	free(to);
	return 0;
}
