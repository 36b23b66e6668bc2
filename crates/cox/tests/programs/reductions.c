/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reductions that tasks take part in, in a program's first region: no contribution is lost, whoever runs the tasks, and whether all members of
 * the team have begun the construct or not.
 */
#include <omp.h>

#include "again.h"

enum { TASKS = 4 };

/* Tasks may run while the second member has yet to begin the region. */
static int in_a_region(void)
{
	int a = 1;
#pragma omp parallel num_threads(2) reduction(task, * : a)
	{
#pragma omp master
		for (int i = 0; i < TASKS; i++) {
#pragma omp task in_reduction(* : a)
			a *= 2;
		}
	}
	return a == 16;
}

/* With sleeps: standbys come. */
static int with_sleeps(void)
{
	long sum = 0, product = 1;
#pragma omp parallel reduction(task, + : sum) reduction(task, * : product)
	{
#pragma omp masked
		for (int i = 0; i < 8 * TASKS; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
			{
				usleep(50);
				sum += i;
			}
			if (i < TASKS) {
#pragma omp task in_reduction(* : product)
				{
#pragma omp task in_reduction(* : product)
					product *= 3;
					product *= 2;
#pragma omp taskwait
				}
			}
		}
#pragma omp masked
		sum += 1000;
	}
	return sum == 32 * 31 / 2 + 1000 && product == 1296;
}

/* A member that comes late from one barrier is not to run tasks of the construct behind it. */
static int behind_barriers(void)
{
	int wrong = 0;
	long product = 1, sum = 0;
#pragma omp parallel num_threads(3)
	for (int round = 0; round < 30; round++) {
#pragma omp single
		{
			product = 1;
			sum = 0;
		}
#pragma omp for schedule(static, 1) reduction(task, * : product)
		for (int i = 0; i < 3; i++) {
			for (int j = 0; j < TASKS; j++) {
#pragma omp task in_reduction(* : product)
				product *= 2;
			}
		}
#pragma omp sections reduction(task, + : sum)
		{
#pragma omp section
			for (int j = 0; j < TASKS; j++) {
#pragma omp task in_reduction(+ : sum)
				sum += 1;
			}
#pragma omp section
			sum += 10;
		}
#pragma omp scope reduction(task, + : sum)
		{
#pragma omp task in_reduction(+ : sum)
			sum += 100;
		}
#pragma omp master
		if (product != 1 << (3 * TASKS) || sum != TASKS + 10 + 300)
			wrong++;
#pragma omp barrier
	}
	return wrong == 0;
}

/* A region that was there before without a task: at its end members need not wait for each other. */
static int in_a_region_without_tasks_at_first(void)
{
	int a = 1;

	for (int tasks = 0; tasks <= TASKS; tasks += TASKS) {
		a = 1;
#pragma omp parallel num_threads(2) reduction(task, * : a)
		{
#pragma omp master
			for (int i = 0; i < tasks; i++) {
#pragma omp task in_reduction(* : a)
				a *= 2;
			}
		}
	}
	return a == 16;
}

/* Groups, within each other and within a region's reduction; more tasks than threads sleep in one with a copy. */
static int in_groups(void)
{
	long region = 0, outer = 0, inner = 0;
#pragma omp parallel num_threads(2) reduction(task, + : region)
	{
#pragma omp single
		{
#pragma omp taskgroup task_reduction(+ : outer)
			{
				for (int i = 0; i < TASKS; i++) {
#pragma omp task in_reduction(+ : outer, region) shared(inner)
					{
						outer += 1;
						region += 10;
#pragma omp taskgroup
						{
#pragma omp task in_reduction(+ : outer)
							{
								usleep(200);
								outer += 100;
							}
						}
#pragma omp task in_reduction(+ : region)
						region += 1000;
					}
				}
#pragma omp taskloop reduction(+ : inner) in_reduction(+ : outer) grainsize(1)
				for (int i = 0; i < 8; i++) {
					usleep(100);
					inner += i;
					outer += 1000;
				}
			}
		}
	}
	return region == 1010L * TASKS && outer == 101L * TASKS + 8000 && inner == 28;
}

/* Groups that are begun in tasks, which standbys run. */
static int in_groups_of_tasks(void)
{
	int wrong = 0;
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 6; i++) {
#pragma omp task shared(wrong)
		{
			long sum = 0;

			usleep(300);
#pragma omp taskgroup task_reduction(+ : sum)
			{
				for (int j = 0; j < TASKS; j++) {
#pragma omp task in_reduction(+ : sum)
					{
						usleep(100);
						sum += 1 << j;
					}
				}
#pragma omp task in_reduction(+ : sum) if (0)
				sum += 100;
			}
			if (sum != 115) {
#pragma omp atomic
				wrong++;
			}
		}
	}
	return wrong == 0;
}

int main(int argc, char **argv)
{
	static const struct check checks[] = {
		{ "region", in_a_region, { NULL } },
		{ "sleeps", with_sleeps, { NULL } },
		{ "barriers", behind_barriers, { NULL } },
		{ "without-tasks-at-first", in_a_region_without_tasks_at_first, { NULL } },
		{ "groups", in_groups, { NULL } },
		{ "groups-of-tasks", in_groups_of_tasks, { NULL } },
		{ NULL, NULL, { NULL } },
	};

	return run_checks(checks, argc, argv);
}
