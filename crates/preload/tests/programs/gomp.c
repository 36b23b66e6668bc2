/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every kind of barrier that gcc calls, ROUNDS times; then what the library has counted. */
#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

#include "look.h"

static long region(void)
{
	long sum = 0, copied = 0;
#pragma omp parallel reduction(+ : sum) private(copied)
	{
#pragma omp barrier
#pragma omp for schedule(static)
		for (int i = 0; i < 100; i++)
			sum += i;
#pragma omp for schedule(dynamic, 7)
		for (int i = 0; i < 100; i++)
			sum += i;
#pragma omp sections
		{
#pragma omp section
			sum += 1;
#pragma omp section
			sum += 2;
		}
#pragma omp single copyprivate(copied)
		copied = 5;
		sum += copied;
	}
	return sum;
}

static long loops(void)
{
	long sum = 0;
#pragma omp parallel for schedule(static, 3) reduction(+ : sum)
	for (int i = 0; i < 100; i++)
		sum += i;
#pragma omp parallel for schedule(dynamic, 3) reduction(+ : sum)
	for (int i = 0; i < 100; i++)
		sum += i;
#pragma omp parallel for schedule(guided) reduction(+ : sum)
	for (int i = 0; i < 100; i++)
		sum += i;
#pragma omp parallel for schedule(runtime) reduction(+ : sum)
	for (int i = 0; i < 100; i++)
		sum += i;
#pragma omp parallel sections reduction(+ : sum)
	{
#pragma omp section
		sum += 1;
#pragma omp section
		sum += 2;
	}
	/* Teams of one meet nobody. */
#pragma omp parallel num_threads(1)
	{
#pragma omp barrier
	}
	return sum;
}

static long tasks(void)
{
	long sum = 0;
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 100; i++)
#pragma omp task shared(sum) firstprivate(i)
	{
#pragma omp atomic
		sum += i;
	}
#pragma omp parallel
#pragma omp single
#pragma omp taskloop reduction(+ : sum)
	for (int i = 0; i < 100; i++)
		sum += i;
	return sum;
}

/* Tasks that take part in a region's reduction. */
static long reduced(void)
{
	long sum = 0;
#pragma omp parallel reduction(task, + : sum)
#pragma omp for
	for (int i = 0; i < 100; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
		sum += i;
	}
	return sum;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	int threads = omp_get_max_threads();
	for (int i = 0; i < rounds; i++) {
		errno = 77;
		long sum = region() + loops();
		if (errno != 77 || sum != 2 * 4950 + 3 + 5 * threads + 4 * 4950 + 3) {
			printf("errno %d, sum %ld\n", errno, sum);
			return 1;
		}
	}
	if (argc > 2 && strcmp(argv[2], "tasks") == 0 && tasks() != 2 * 4950)
		return 2;
	if (argc > 2 && strcmp(argv[2], "reduced") == 0 && reduced() != 4950)
		return 2;
	/* The others have time to come to the barrier in which they wait for the next region. */
	usleep(20000);
	tell();
	return 0;
}
