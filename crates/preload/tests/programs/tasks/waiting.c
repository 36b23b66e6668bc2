/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Who waits for whom: barriers, taskwait, taskgroups, regions. */
#include "promise.h"

/* Tasks in tasks: each waits for its own. */
static long fib(int n)
{
	long a, b;
	if (n < 2)
		return n;
#pragma omp task shared(a)
	a = fib(n - 1);
#pragma omp task shared(b)
	b = fib(n - 2);
#pragma omp taskwait
	return a + b;
}

static void recursion(void)
{
	long result = 0;
#pragma omp parallel
#pragma omp single
	result = fib(16);
	expect(result == 987, "fib(16)");
}

/* Every kind of barrier waits for all tasks, whoever made them. */
static void barriers(void)
{
	int threads = 0, done = 0, after_loop = -1, after_sections = -1, after_single = -1, after_barrier = -1;
#pragma omp parallel
	{
#pragma omp single
		threads = omp_get_num_threads();
#pragma omp for schedule(dynamic)
		for (int i = 0; i < 20; i++) {
#pragma omp task
			add(&done);
		}
		if (get(&done) != 20)
			set(&after_loop, get(&done));
#pragma omp barrier
#pragma omp sections
		{
#pragma omp section
			{
#pragma omp task
				add(&done);
			}
#pragma omp section
			{
#pragma omp task
				{
					for_a_moment();
					add(&done);
				}
			}
		}
		if (get(&done) != 22)
			set(&after_sections, get(&done));
#pragma omp barrier
#pragma omp single
		for (int i = 0; i < 20; i++) {
#pragma omp task
			add(&done);
		}
		if (get(&done) != 42)
			set(&after_single, get(&done));
#pragma omp barrier
#pragma omp task
		{
			/* A task made by a task counts too. */
#pragma omp task
			{
				for_a_moment();
				add(&done);
			}
		}
#pragma omp barrier
		if (get(&done) != 42 + threads)
			set(&after_barrier, get(&done));
#pragma omp barrier
#pragma omp task
		add(&done);
	}
	expect(after_loop == -1, "the end of a loop waits for tasks");
	expect(after_sections == -1, "the end of sections waits for tasks");
	expect(after_single == -1, "the end of a single waits for tasks");
	expect(after_barrier == -1, "a barrier waits for tasks of tasks");
	expect(done == 42 + 2 * threads, "the end of a region waits for tasks");
}

/* taskwait waits for children only; a taskgroup for all below. */
static void waiting(void)
{
	int child = 0, grandchild = 0, gate = 0, in_group = 0, by = -1;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task
		{
#pragma omp task
			{
				set(&by, omp_get_thread_num());
				for (int i = 0; i < 50 && !get(&gate); i++)
					for_a_moment();
				add(&grandchild);
			}
			add(&child);
		}
#pragma omp taskwait
		expect(get(&child) == 1, "taskwait waits for children");
		/* The thread that waits may run it itself; then it has to wait for it. */
		expect(get(&grandchild) == 0 || get(&by) == omp_get_thread_num(),
		       "taskwait does not wait for grandchildren");
		set(&gate, 1);
#pragma omp taskgroup
		{
#pragma omp task
			{
#pragma omp task
				{
#pragma omp task
					{
						for_a_moment();
						add(&in_group);
					}
					add(&in_group);
				}
				add(&in_group);
			}
		}
		expect(get(&in_group) == 3, "a taskgroup waits for all below");
#pragma omp taskgroup
		{
#pragma omp task
			{
				/* A group in a task of a group is its own. */
#pragma omp taskgroup
				{
#pragma omp task
					add(&in_group);
				}
				expect(get(&in_group) == 4, "a group within a group's task is waited for there");
			}
#pragma omp taskgroup
			{
			}
		}
	}
	expect(grandchild == 1, "the grandchild has run by the region's end");
}
/* Regions in regions, and in tasks: each has its own tasks. */
static void nested(void)
{
	int done = 0, inner = 0, alone = 0;
	omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
	{
#pragma omp task
		{
#pragma omp parallel num_threads(3)
			{
#pragma omp task
				add(&inner);
#pragma omp barrier
				if (get(&inner) < omp_get_num_threads())
					add(&failures);
			}
			add(&done);
		}
#pragma omp parallel num_threads(2)
#pragma omp single
		{
			for (int i = 0; i < 10; i++) {
#pragma omp task
				add(&done);
			}
		}
#pragma omp parallel num_threads(1)
		{
#pragma omp task
			add(&alone);
#pragma omp taskwait
		}
	}
	omp_set_max_active_levels(1);
	expect(done == 22, "tasks of nested regions have run");
	expect(alone == 2, "tasks of regions of one thread have run");
}

/* Clauses that only ask, and a lot of everything. */
static void many(void)
{
	int done = 0, sum = 0;
	double weights[16] = { 0 };
#pragma omp parallel
	{
#pragma omp for
		for (int i = 0; i < 3000; i++) {
#pragma omp task untied mergeable priority(i % 5)
			add(&done);
		}
#pragma omp single
		for (int i = 0; i < 3000; i++) {
#pragma omp task depend(inout : weights[i % 16]) firstprivate(i)
			{
				weights[i % 16] += i;
#pragma omp taskyield
#pragma omp critical
				sum++;
			}
		}
	}
	double total = 0;
	for (int i = 0; i < 16; i++)
		total += weights[i];
	expect(done == 3000, "3,000 tasks by all threads");
	expect(sum == 3000 && total == 2999.0 * 3000 / 2, "3,000 tasks with dependences");
}

/* Tasks outside of regions are done at once. */
static void outside(void)
{
	int done = 0;
#pragma omp task shared(done)
	done = 1;
	expect(done == 1, "a task outside of regions is done at once");
#pragma omp taskgroup
	{
#pragma omp taskloop shared(done)
		for (int i = 0; i < 4; i++)
			add(&done);
	}
#pragma omp taskwait
	expect(done == 5, "a taskloop outside of regions");
}
