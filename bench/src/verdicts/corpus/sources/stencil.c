/*
 * A five-point stencil on a square field: stencil EDGE STEPS ALONE.
 *
 * Each step is a parallel loop over the rows and a parallel sum, so that the threads meet twice within about 500 us. Before the steps, one thread
 * alone initialises the field ALONE times, with much arithmetic: a serial part.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void initialise(double *field, long edge)
{
	for (long i = 0; i < edge * edge; i++)
		field[i] = sin(0.001 * (double)i + field[i]) * 0.5;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: stencil EDGE STEPS ALONE\n");
		return 2;
	}
	long edge = atol(argv[1]), steps = atol(argv[2]), alone = atol(argv[3]);
	double *from = calloc((size_t)(edge * edge), sizeof *from);
	double *to = calloc((size_t)(edge * edge), sizeof *to);
	if (!from || !to)
		return 1;
	initialise(from, edge);
	for (long i = 0; i < alone; i++)
		initialise(from, edge);
	double sum = 0;
	for (long step = 0; step < steps; step++) {
#pragma omp parallel for schedule(static)
		for (long y = 1; y < edge - 1; y++)
			for (long x = 1; x < edge - 1; x++) {
				const double *at = from + y * edge + x;
				to[y * edge + x] = 0.2 * (at[0] + at[-1] + at[1] + at[-edge] + at[edge]);
			}
		sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
		for (long i = 0; i < edge * edge; i++)
			sum += to[i] * to[i];
		double *swapped = from;
		from = to;
		to = swapped;
	}
	printf("%.6e\n", sum);
	free(from);
	free(to);
	return 0;
}
