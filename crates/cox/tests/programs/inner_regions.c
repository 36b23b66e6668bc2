/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions in tasks: how many threads they have, and what OpenMP says about the regions around. It is the same whoever runs the task.
 */
#include <omp.h>

#include "again.h"

enum { TASKS = 12 };

static int wrong;

static void expect(int holds, const char *what)
{
	if (!holds && __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) == 0)
		printf("%s\n", what);
}

/*
 * Regions around, how many of them have more threads than one, and sizes of theirs, the outermost first. It asks for no thread number: tasks
 * that do are left to the team's own threads from then on.
 */
static void expect_regions(int level, int active, const int *sizes)
{
	expect(omp_get_level() == level, "omp_get_level");
	expect(omp_get_active_level() == active, "omp_get_active_level");
	expect(omp_in_parallel() == (active > 0), "omp_in_parallel");
	expect(omp_get_team_size(0) == 1, "level 0");
	for (int i = 1; i <= level; i++)
		expect(omp_get_team_size(i) == sizes[i - 1], "omp_get_team_size");
	expect(omp_get_num_threads() == sizes[level - 1], "omp_get_num_threads");
	expect(omp_get_team_size(level + 1) == -1 && omp_get_team_size(-1) == -1, "omp_get_team_size beyond");
}

/* … and numbers. */
static void expect_levels(int level, int active, const int *sizes)
{
	expect_regions(level, active, sizes);
	expect(omp_get_ancestor_thread_num(0) == 0, "number at level 0");
	expect(omp_get_ancestor_thread_num(level) == omp_get_thread_num(), "omp_get_ancestor_thread_num of the innermost");
	expect(omp_get_ancestor_thread_num(level + 1) == -1 && omp_get_ancestor_thread_num(-1) == -1,
	       "omp_get_ancestor_thread_num beyond");
}

/* Runs `go` in tasks that have slept before: most of them on standbys. */
static int in_tasks(void (*go)(int outer))
{
	wrong = 0;
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < TASKS; i++) {
#pragma omp task
		{
			usleep(300);
			go(omp_get_team_size(1));
		}
	}
	return wrong == 0;
}

static void without_numbers(int outer)
{
	int active = outer > 1, began = 0;

	expect_regions(1, active, &outer);
#pragma omp parallel num_threads(2) reduction(+ : began)
	{
		began++;
		expect_regions(2, active + 1, (int[]){ outer, 2 });
#pragma omp parallel num_threads(1)
		expect_regions(3, active + 1, (int[]){ outer, 2, 1 });
	}
	expect(began == 2, "threads of an inner region");
#pragma omp parallel num_threads(1)
	{
		expect_regions(2, active, (int[]){ outer, 1 });
#pragma omp parallel num_threads(2)
		expect_regions(3, active + 1, (int[]){ outer, 1, 2 });
	}
	expect_regions(1, active, &outer);
}

/* Within each other, and one of a single thread between. */
static void all_levels(int outer)
{
	int active = outer > 1, own = omp_get_thread_num(), began = 0;

	expect_levels(1, active, &outer);
#pragma omp parallel num_threads(2) reduction(+ : began)
	{
		int second = omp_get_thread_num();

		began++;
		expect_levels(2, active + 1, (int[]){ outer, 2 });
		expect(omp_get_ancestor_thread_num(1) == own, "the ancestor's number is the task's");
#pragma omp parallel num_threads(1) reduction(+ : began)
		{
			began += 10;
			expect_levels(3, active + 1, (int[]){ outer, 2, 1 });
			expect(omp_get_ancestor_thread_num(1) == own && omp_get_ancestor_thread_num(2) == second,
			       "numbers of ancestors");
#pragma omp parallel num_threads(3) reduction(+ : began)
			{
				began += 100;
				expect_levels(4, active + 2, (int[]){ outer, 2, 1, 3 });
				expect(omp_get_ancestor_thread_num(1) == own && omp_get_ancestor_thread_num(2) == second &&
					       omp_get_ancestor_thread_num(3) == 0,
				       "numbers of ancestors, further in");
			}
		}
	}
	expect(began == 2 + 20 + 600, "threads of inner regions");
	expect_levels(1, active, &outer);
	expect(own == omp_get_thread_num(), "the number is the same until the task ends");
}

/* Nobody has asked for the task's number before. */
static void number_asked_for_inside(int outer)
{
	int numbers[2] = { -1, -2 };
#pragma omp parallel num_threads(2)
	{
		usleep(100);
		numbers[omp_get_thread_num()] = omp_get_ancestor_thread_num(1);
	}
	expect(numbers[0] == numbers[1], "the ancestor's number is one");
	expect(numbers[0] >= 0 && numbers[0] < outer, "… and one of the team's");
	expect(omp_get_thread_num() == numbers[0], "… and the task's from then on");
}

/* An inner region with one thread alone, and none with more. */
static void alone(int outer)
{
	int threads = 0;
#pragma omp parallel num_threads(1) reduction(+ : threads)
	{
		threads += omp_get_num_threads();
		expect_levels(2, outer > 1, (int[]){ outer, 1 });
	}
	expect(threads == 1, "a region of one thread");
}

/* With two active levels at most. */
static void no_more_levels(int outer)
{
	int first = 0, second = 0;
#pragma omp parallel num_threads(2) reduction(+ : first, second)
	{
		first++;
#pragma omp parallel num_threads(2) reduction(+ : second)
		second++;
	}
	expect(first == 2 && second == (outer > 1 ? 2 : 4), "OMP_MAX_ACTIVE_LEVELS");
}

/* With one, which is what there is when nothing is set. */
static void no_levels(int outer)
{
	int first = 0;
#pragma omp parallel num_threads(2) reduction(+ : first)
	first++;
	expect(first == (outer > 1 ? 1 : 2), "one active level");
}

/* The inner region's threads make tasks of their own, which sleep. */
static void tasks_inside(int outer)
{
	int sum = 0;
#pragma omp parallel num_threads(2)
	{
#pragma omp single
		for (int i = 0; i < 4; i++) {
#pragma omp task firstprivate(i)
			{
				usleep(200);
				expect_levels(2, 1 + (outer > 1), (int[]){ outer, 2 });
#pragma omp atomic
				sum += 1 << i;
#pragma omp parallel num_threads(2)
				{
					expect_levels(3, 2 + (outer > 1), (int[]){ outer, 2, 2 });
#pragma omp atomic
					sum += 100;
				}
			}
		}
	}
	expect(sum == 15 + 800, "tasks of inner regions");
}

static int levels_are_right(void)
{
	return in_tasks(all_levels) && in_tasks(alone);
}

static int regions_are_right(void)
{
	return in_tasks(without_numbers);
}

static int numbers_are_right(void)
{
	return in_tasks(number_asked_for_inside);
}

static int tasks_in_tasks(void)
{
	return in_tasks(tasks_inside);
}

static int two_levels(void)
{
	return in_tasks(no_more_levels);
}

static int one_level(void)
{
	return in_tasks(no_levels);
}

/* Threads of a contention group together; two regions at a time need not fit. */
static int limited_to_five(void)
{
	wrong = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
	for (int i = 0; i < TASKS; i++) {
		int threads = 0, inner = 0, limit = 0;
#pragma omp task shared(threads, inner, limit)
		{
			usleep(300);
			limit = omp_get_thread_limit();
#pragma omp parallel num_threads(3) reduction(+ : threads)
			{
				threads++;
#pragma omp barrier
#pragma omp master
				{
#pragma omp parallel num_threads(3) reduction(+ : inner)
					inner++;
				}
#pragma omp barrier
			}
		}
		usleep(300);
#pragma omp taskwait
		expect(limit == 5, "omp_get_thread_limit");
		expect(threads == 3 && inner == 2, "OMP_THREAD_LIMIT");
	}
	return wrong == 0;
}

/* As many as the program has allowed, not the environment. */
static int levels_that_were_set(void)
{
	omp_set_max_active_levels(4);
	return in_tasks(without_numbers);
}

static int inner, innermost;

static void default_threads(int outer)
{
	(void)outer;
	expect(omp_get_max_threads() == 3, "threads of the second level");
#pragma omp parallel
	{
		__atomic_fetch_add(&inner, 1, __ATOMIC_RELAXED);
		expect(omp_get_num_threads() == 3 && omp_get_max_threads() == 2, "threads of the third level");
#pragma omp parallel
		{
			__atomic_fetch_add(&innermost, 1, __ATOMIC_RELAXED);
			expect(omp_get_num_threads() == 2 && omp_get_max_threads() == 2, "threads behind the last");
		}
	}
}

/* A number for each level. */
static int numbers_by_level(void)
{
	inner = innermost = 0;
	return in_tasks(default_threads) && inner == 3 * TASKS && innermost == 6 * TASKS;
}

/* … and in a league. */
static int in_a_league(void)
{
	wrong = 0;
#pragma omp teams num_teams(2) thread_limit(3)
	{
		int team = omp_get_team_num();
#pragma omp parallel num_threads(2)
#pragma omp single
		for (int i = 0; i < TASKS; i++) {
			int threads = 0;
#pragma omp task shared(threads)
			{
				usleep(300);
				expect(omp_get_team_num() == team && omp_get_num_teams() == 2, "omp_get_team_num");
				expect(omp_get_thread_limit() == 3, "thread_limit");
#pragma omp parallel num_threads(4) reduction(+ : threads)
				{
					threads++;
					expect(omp_get_team_num() == team && omp_get_num_teams() == 2, "omp_get_team_num inside");
				}
			}
			usleep(300);
#pragma omp taskwait
			expect(threads == 2, "threads of a league's team");
		}
	}
	return wrong == 0;
}

int main(int argc, char **argv)
{
	static const struct check checks[] = {
		{ "regions", regions_are_right, { "OMP_MAX_ACTIVE_LEVELS=4" } },
		{ "levels", levels_are_right, { "OMP_MAX_ACTIVE_LEVELS=4" } },
		{ "numbers", numbers_are_right, { "OMP_MAX_ACTIVE_LEVELS=4" } },
		{ "tasks", tasks_in_tasks, { "OMP_MAX_ACTIVE_LEVELS=4" } },
		{ "two-levels", two_levels, { "OMP_MAX_ACTIVE_LEVELS=2" } },
		{ "one-level", one_level, { NULL } },
		{ "set", levels_that_were_set, { NULL } },
		{ "list", numbers_by_level, { "OMP_NUM_THREADS=2,3,2", "OMP_MAX_ACTIVE_LEVELS=4" } },
		{ "limit", limited_to_five, { "OMP_THREAD_LIMIT=5", "OMP_MAX_ACTIVE_LEVELS=4" } },
		{ "league", in_a_league, { "OMP_MAX_ACTIVE_LEVELS=4" } },
		{ NULL, NULL, { NULL } },
	};

	return run_checks(checks, argc, argv);
}
