/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A module with an OpenMP library of its own: its threads must know their numbers. */
#include <omp.h>

int sum_of_numbers(void);

int sum_of_numbers(void)
{
	int sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
	{
		sum += omp_get_thread_num();
#pragma omp barrier
		sum += 10 * omp_get_num_threads();
	}
	return sum;
}
