/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Prints the chunks of a loop with 1000 iterations for the four threads of a team, in the order of iterations. Calls libgomp's functions as gcc does.
 * The argument is the program's chunk; 0 means `runtime`. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

extern bool GOMP_loop_nonmonotonic_dynamic_start(long, long, long, long, long *, long *);
extern bool GOMP_loop_nonmonotonic_dynamic_next(long *, long *);
extern bool GOMP_loop_maybe_nonmonotonic_runtime_start(long, long, long, long *, long *);
extern bool GOMP_loop_maybe_nonmonotonic_runtime_next(long *, long *);
extern void GOMP_loop_end_nowait(void);

#define N 1000

int main(int count, char **arguments)
{
	long chunk = count > 1 ? atol(arguments[1]) : 0;
	static long ends[N + 1];
#pragma omp parallel num_threads(4)
	{
		long from, to;
		bool more = chunk ? GOMP_loop_nonmonotonic_dynamic_start(0, N, 1, chunk, &from, &to) :
				    GOMP_loop_maybe_nonmonotonic_runtime_start(0, N, 1, &from, &to);
		while (more) {
			ends[from] = to;
			more = chunk ? GOMP_loop_nonmonotonic_dynamic_next(&from, &to) :
				       GOMP_loop_maybe_nonmonotonic_runtime_next(&from, &to);
		}
		GOMP_loop_end_nowait();
	}
	for (long at = 0; at < N; at = ends[at]) {
		if (ends[at] <= at)
			return 1;
		printf("%ld ", ends[at] - at);
	}
	puts("");
	return 0;
}
