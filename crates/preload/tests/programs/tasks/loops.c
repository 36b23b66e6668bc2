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

/* Adds one to each, in a task, and one more to the first in a task below that. */
static void add_in_tasks(long *first, long *second)
{
	long *x = first, *y = second;
#pragma omp task in_reduction(+ : x[ : 1], y[ : 1])
	{
		x[0]++;
		y[0]++;
		/* A group within sees its own and those around it. */
		long own = 0;
#pragma omp taskgroup task_reduction(+ : own)
		{
#pragma omp task in_reduction(+ : own) in_reduction(+ : x[ : 1])
			{
				own++;
				x[0]++;
			}
		}
		expect(own == 1, "a group's reduction within a task of a reducing construct");
	}
}

/* Tasks take part in reductions of regions. */
static void reducing_regions(void)
{
	long sum = 3, other = 4, n = 0, looped = 5, in_sections = 6;
	double product = 1;
#pragma omp parallel reduction(task, + : sum, other)
	{
		sum++;
		for (int i = 0; i < 10; i++) {
#pragma omp task in_reduction(+ : sum, other)
			{
				sum++;
#pragma omp task in_reduction(+ : other)
				other++;
			}
		}
#pragma omp taskgroup task_reduction(* : product)
		{
#pragma omp task in_reduction(* : product) in_reduction(+ : sum)
			{
				product *= 1;
				sum++;
			}
		}
#pragma omp atomic
		n++;
	}
	expect(sum == 3 + n * 12 && other == 4 + n * 10, "tasks take part in a region's reduction");
#pragma omp parallel for reduction(task, + : looped)
	for (int i = 0; i < 100; i++) {
		looped++;
#pragma omp task in_reduction(+ : looped)
		looped++;
	}
	expect(looped == 5 + 200, "tasks take part in a parallel loop's reduction");
#pragma omp parallel sections reduction(task, + : in_sections)
	{
#pragma omp section
#pragma omp task in_reduction(+ : in_sections)
		in_sections++;
#pragma omp section
#pragma omp task in_reduction(+ : in_sections)
		in_sections++;
	}
	expect(in_sections == 6 + 2, "tasks take part in parallel sections' reduction");
}

/* A region's reduction within a task of another region, and the tasks of both; with one level the inner one has one thread. */
static void reduce_nested_regions(int levels)
{
	long outer = 0, n = 0;
	omp_set_max_active_levels(levels);
#pragma omp parallel num_threads(2) reduction(task, + : outer)
	{
#pragma omp task in_reduction(+ : outer)
		{
			long inner = 0, m = 0;
#pragma omp parallel num_threads(3) reduction(task, + : inner)
			{
#pragma omp task in_reduction(+ : inner)
				inner++;
#pragma omp atomic
				m++;
			}
			expect(inner == m, "a reducing region in a task of another");
			outer++;
		}
#pragma omp atomic
		n++;
	}
	omp_set_max_active_levels(1);
	expect(outer == n, "tasks with regions take part in a reduction");
}

static void nested_reducing_regions(void)
{
	reduce_nested_regions(1);
	reduce_nested_regions(2);
}

/* Tasks take part in reductions of loops, sections and scopes; several of them, one after the other. */
static void reducing_work_shares(void)
{
	static long a, b, c;
	static int n;
	a = b = c = n = 0;
#pragma omp parallel
	{
		for (int round = 0; round < 3; round++) {
#pragma omp for reduction(task, + : a, b)
			for (int i = 0; i < 50; i++)
				add_in_tasks(&a, &b);
#pragma omp single nowait
			expect(a == (round + 1) * 100 && b == (round + 1) * 50, "tasks take part in a loop's reduction");
#pragma omp for schedule(dynamic, 3) reduction(task, + : c)
			for (unsigned long long i = 1ull << 63; i < (1ull << 63) + 50; i++) {
#pragma omp task in_reduction(+ : c)
				c++;
			}
#pragma omp single nowait
			expect(c == round * 203 + 50, "... of a dynamic one over unsigned long long");
#pragma omp for ordered schedule(dynamic, 3) reduction(task, + : c)
			for (int i = 0; i < 50; i++) {
#pragma omp task in_reduction(+ : c)
				c++;
#pragma omp ordered
				n++;
			}
#pragma omp for ordered schedule(dynamic, 3) reduction(task, + : c)
			for (unsigned long long i = 1ull << 63; i < (1ull << 63) + 50; i++) {
#pragma omp task in_reduction(+ : c)
				c++;
#pragma omp ordered
				n++;
			}
#pragma omp for ordered(1) reduction(task, + : c)
			for (int i = 0; i < 50; i++) {
#pragma omp ordered depend(sink : i - 1)
				n++;
#pragma omp ordered depend(source)
#pragma omp task in_reduction(+ : c)
				c++;
			}
#pragma omp single nowait
			expect(c == round * 203 + 200 && n == (round + 1) * 150, "... of ordered ones");
#pragma omp sections reduction(task, + : c)
			{
#pragma omp section
#pragma omp task in_reduction(+ : c)
				c++;
#pragma omp section
				c++;
#pragma omp section
#pragma omp task in_reduction(+ : c)
				c++;
			}
#pragma omp single nowait
			expect(c == (round + 1) * 203, "tasks take part in the reduction of sections");
#pragma omp barrier
		}
		long own = 0, mine = 0;
#pragma omp taskgroup task_reduction(+ : own)
		{
			/* A group around a construct that reduces is seen from within. */
#pragma omp for reduction(task, + : b)
			for (int i = 0; i < 20; i++) {
				mine++;
#pragma omp task in_reduction(+ : own, b)
				{
					own++;
					b++;
				}
			}
		}
		expect(own == mine, "a group's reduction within a loop that reduces");
	}
	expect(b == 150 + 20, "tasks take part in the reduction of a loop within a group");
}

static void reducing_scopes(void)
{
#if __GNUC__ >= 12
	static long a, b;
	static int n;
	a = b = n = 0;
#pragma omp parallel
	{
#pragma omp scope reduction(task, + : a, b)
		{
			add_in_tasks(&a, &b);
#pragma omp atomic
			n++;
		}
		expect(a == 2 * n && b == n, "tasks take part in a scope's reduction");
	}
#endif
}
