/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Loops in tasks, and reductions. */
#include "promise.h"

/* Each iteration once, however a loop is divided, and the construct waits unless told not to. */
static void loops(void)
{
	enum { N = 1000 };
	static int seen[N];
	memset(seen, 0, sizeof seen);
	int tasks = 0, outside = 0, small = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp taskloop
		for (int i = 0; i < N; i++)
			add(&seen[i]);
		for (int i = 0; i < N; i++)
			outside += get(&seen[i]) != 1;
#pragma omp taskloop num_tasks(7)
		for (int i = N - 1; i >= 0; i -= 3)
			add(&seen[i]);
#pragma omp taskloop grainsize(50)
		for (unsigned long long i = 0; i < N; i += 3)
			add(&seen[i]);
#pragma omp taskloop grainsize(strict : 64) nogroup
		for (unsigned long long i = N; i > 0; i--)
			add(&seen[i - 1]);
#pragma omp taskwait
		for (int i = 0; i < N; i++)
			outside += get(&seen[i]) != 2 + (i % 3 == 0) * 2;
#pragma omp taskloop collapse(2) num_tasks(5)
		for (int i = 0; i < 10; i++)
			for (int j = 0; j < 10; j++)
				add(&tasks);
#pragma omp taskloop if (0)
		for (int i = 0; i < 3; i++)
			small += i;
#pragma omp taskloop
		for (int i = 3; i < 3; i++)
			small += 100;
	}
	expect(outside == 0, "a taskloop runs each iteration once, and waits");
	expect(tasks == 100, "collapsed loops");
	expect(small == 3, "a taskloop with a false if, and an empty one");
}

/* Each thread adds up for itself, and all is there at the end. */
static void reductions(void)
{
	long sum = 5, inner = 1, most = 0;
	double product = 2;
#pragma omp parallel
#pragma omp single
	{
#pragma omp taskgroup task_reduction(+ : sum) task_reduction(max : most)
		{
			for (int i = 1; i <= 200; i++) {
#pragma omp task in_reduction(+ : sum) in_reduction(max : most) firstprivate(i)
				{
					sum += i;
					most = most > i ? most : i;
					/* A group within sees its own and those around it. */
					long own = 0;
#pragma omp taskgroup task_reduction(+ : own)
					{
#pragma omp task in_reduction(+ : own, sum)
						{
							own += 1;
							sum += 1;
						}
					}
#pragma omp atomic
					inner += own;
				}
			}
		}
		expect(sum == 5 + 200 * 201 / 2 + 200 && most == 200, "a task reduction is there at its group's end");
#pragma omp taskloop reduction(* : product) num_tasks(10)
		for (int i = 0; i < 20; i++)
			product *= 2;
		expect(product == 2097152, "a taskloop's reduction is there at its end");
#pragma omp taskloop reduction(+ : sum)
		for (int i = 7; i < 7; i++)
			sum += 1000;
	}
	expect(sum == 5 + 200 * 201 / 2 + 200, "an empty taskloop's reduction changes nothing");
	expect(inner == 201, "reductions of groups within tasks");
}
