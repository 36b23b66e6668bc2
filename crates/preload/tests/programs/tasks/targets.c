/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Target constructs are tasks, wherever they run. */
#include "promise.h"

#include <sched.h>

/* They depend on tasks, and tasks on them. */
static void targets_in_order(void)
{
	int a = 1, b = 0, c = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task shared(a) depend(out: a)
		{
			for_a_moment();
			a = 2;
		}
#pragma omp target map(tofrom: a) map(from: b) depend(inout: a) depend(out: b)
		{
			b = a;
			a = 3;
		}
#pragma omp task shared(a, b, c) depend(in: a, b) depend(out: c)
		{
			for_a_moment();
			c = a * 10 + b;
		}
#pragma omp target update to(c) depend(in: c)
#pragma omp target enter data map(to: c) depend(inout: c)
#pragma omp target nowait map(alloc: c) depend(inout: c)
		c++;
#pragma omp target exit data map(from: c) depend(inout: c)
	}
	expect(a == 3 && b == 2 && c == 33, "targets_in_order");
}

/* Everything that waits for tasks waits for those that are not waited for at once. */
static void targets_later(void)
{
	int group = 0, children = 0, after_group = 0, after_children = 0, barrier = 0, after_barrier = 1;
#pragma omp parallel
	{
#pragma omp single
		{
#pragma omp taskgroup
			{
#pragma omp target nowait map(tofrom: group)
				group = 1;
			}
			after_group = group;
#pragma omp target nowait map(tofrom: children)
			children = 1;
#pragma omp taskwait
			after_children = children;
#pragma omp target nowait map(tofrom: barrier)
			barrier = 1;
		}
		if (get(&barrier) != 1)
			set(&after_barrier, 0);
	}
	expect(after_group, "targets_later: taskgroup");
	expect(after_children, "targets_later: taskwait");
	expect(after_barrier, "targets_later: barrier");
}

/* Inside is no region around, and what is made there is done there. */
static void targets_inside(void)
{
	int level = -1, number = -1, threads = -1, sum = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task shared(level, number, threads, sum)
		{
#pragma omp target map(tofrom: level, number, threads, sum)
			{
				int own = 0;
				level = omp_get_level();
				number = omp_get_thread_num();
				threads = omp_get_num_threads();
				for (int i = 0; i < 10; i++) {
#pragma omp task shared(own)
					add(&own);
				}
				sum = own;
			}
		}
	}
	expect(level == 0 && number == 0 && threads == 1, "targets_inside: region");
	/* Without a device. Tasks outside of regions are done at once. */
	expect(sum == 10, "targets_inside: tasks");
}

/* A construct's own copies are of what was there when it was met. To be run where nobody else runs the task meanwhile. */
static void target_copies(void)
{
	int values[3] = { 1, 2, 3 }, seen[3] = { 0 }, done = 0;
#pragma omp parallel num_threads(2)
	{
		if (omp_get_thread_num() == 0) {
#pragma omp task shared(values) depend(out: values)
			values[0] = values[1] = values[2] = 9;
#pragma omp target map(from: seen) firstprivate(values) depend(in: values)
			for (int i = 0; i < 3; i++)
				seen[i] = values[i];
			set(&done, 1);
		}
		while (!get(&done))
			sched_yield();
	}
	expect(seen[0] == 1 && seen[1] == 2 && seen[2] == 3, "target_copies");
	expect(values[0] == 9, "target_copies: task");
}
