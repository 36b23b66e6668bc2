/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Nestable locks: a task owns them, not the thread that it runs on. */
#include "promise.h"

/* A task's child is another task, wherever it runs; and the owner has what it had when the child has ended. */
static void locks_of_children(void)
{
	enum { N = 64 };
	int got = 0, undeferred = 0, wrong = 0, again = 0;
	omp_nest_lock_t lock;
	omp_init_nest_lock(&lock);
#pragma omp parallel
#pragma omp single
	{
		if (omp_test_nest_lock(&lock) != 1 || omp_test_nest_lock(&lock) != 2)
			add(&wrong);
		for (int i = 0; i < N; i++) {
#pragma omp task shared(lock, got)
			{
				if (i % 16 == 0)
					for_a_moment();
				if (omp_test_nest_lock(&lock))
					add(&got);
			}
#pragma omp task if (0) shared(lock, undeferred)
			{
				if (omp_test_nest_lock(&lock))
					add(&undeferred);
			}
		}
#pragma omp taskyield
#pragma omp taskwait
#pragma omp taskloop grainsize(1) shared(lock, got)
		for (int i = 0; i < 20; i++) {
			if (omp_test_nest_lock(&lock))
				add(&got);
		}
#pragma omp task final(1) shared(lock, undeferred)
		{
#pragma omp task shared(lock, undeferred)
			if (omp_test_nest_lock(&lock))
				add(&undeferred);
		}
#pragma omp taskwait
		omp_set_nest_lock(&lock);
		if (omp_test_nest_lock(&lock) != 4)
			add(&wrong);
		for (int i = 0; i < 4; i++)
			omp_unset_nest_lock(&lock);
		/* It is free, for tasks too, and each has its own count. */
		for (int i = 0; i < 10; i++) {
#pragma omp task if (0) shared(lock, again)
			{
				if (omp_test_nest_lock(&lock) != 1)
					add(&again);
				omp_set_nest_lock(&lock);
				if (omp_test_nest_lock(&lock) != 3)
					add(&again);
				for (int j = 0; j < 3; j++)
					omp_unset_nest_lock(&lock);
			}
		}
		if (omp_test_nest_lock(&lock) != 1)
			add(&wrong);
		omp_unset_nest_lock(&lock);
	}
	omp_destroy_nest_lock(&lock);
	expect(got == 0, "a child does not have its parent's nestable lock");
	expect(undeferred == 0, "nor does an undeferred one, or one below a final one");
	expect(wrong == 0, "who has a nestable lock has it again, and counts");
	expect(again == 0, "a nestable lock that was given back is free");
}

/* One at a time, and as often as it wants, also across scheduling points. */
static void locks_exclude(void)
{
	enum { N = 60 };
	int inside = 0, crowded = 0, count = 0, miscounted = 0;
	omp_nest_lock_t lock;
	omp_init_nest_lock(&lock);
#pragma omp parallel
#pragma omp for
	for (int i = 0; i < N; i++) {
#pragma omp task shared(lock, inside, crowded, count, miscounted) firstprivate(i)
		{
			omp_set_nest_lock(&lock);
			omp_set_nest_lock(&lock);
			if (__atomic_fetch_add(&inside, 1, __ATOMIC_ACQ_REL))
				add(&crowded);
			count++;
			if (i % 20 == 0)
				for_a_moment();
			if (i % 4 == 0) {
				int theirs = -1;
#pragma omp task shared(lock, theirs)
				theirs = omp_test_nest_lock(&lock);
#pragma omp taskyield
#pragma omp taskwait
				if (theirs != 0 || omp_test_nest_lock(&lock) != 3)
					add(&miscounted);
				else
					omp_unset_nest_lock(&lock);
			}
			__atomic_fetch_sub(&inside, 1, __ATOMIC_ACQ_REL);
			omp_unset_nest_lock(&lock);
			omp_unset_nest_lock(&lock);
		}
	}
	omp_destroy_nest_lock(&lock);
	expect(crowded == 0 && count == N, "one task at a time has a nestable lock");
	expect(miscounted == 0, "who has it has it behind scheduling points too");
}

/* Implicit tasks are others in each region, also in one that a task makes. */
static void locks_of_regions(void)
{
	int outside = 0, implicit = 0, inner = 0, wrong = 0;
	omp_nest_lock_t lock;
	omp_init_nest_lock(&lock);
	omp_set_nest_lock(&lock);
#pragma omp parallel
	{
		if (omp_test_nest_lock(&lock))
			add(&outside);
#pragma omp task shared(lock, outside)
		if (omp_test_nest_lock(&lock))
			add(&outside);
	}
	if (omp_test_nest_lock(&lock) != 2)
		add(&wrong);
	omp_unset_nest_lock(&lock);
	omp_unset_nest_lock(&lock);
#pragma omp parallel
	{
#pragma omp master
		if (omp_test_nest_lock(&lock) != 1)
			add(&wrong);
#pragma omp barrier
		if (omp_get_thread_num() != 0 && omp_test_nest_lock(&lock))
			add(&implicit);
#pragma omp task shared(lock, implicit)
		if (omp_test_nest_lock(&lock))
			add(&implicit);
#pragma omp barrier
#pragma omp master
		{
#pragma omp parallel num_threads(2) shared(lock, inner)
			{
				if (omp_test_nest_lock(&lock))
					add(&inner);
			}
			if (omp_test_nest_lock(&lock) != 2)
				add(&wrong);
			omp_unset_nest_lock(&lock);
			omp_unset_nest_lock(&lock);
#pragma omp task shared(lock, inner)
			{
				for_a_moment();
				omp_set_nest_lock(&lock);
#pragma omp parallel num_threads(2) shared(lock, inner)
				{
					if (omp_test_nest_lock(&lock))
						add(&inner);
				}
				omp_unset_nest_lock(&lock);
			}
		}
	}
	if (omp_test_nest_lock(&lock) != 1)
		add(&wrong);
	omp_unset_nest_lock(&lock);
	omp_destroy_nest_lock(&lock);
	expect(outside == 0, "what was locked before a region is not a region's");
	expect(implicit == 0, "a nestable lock is one implicit task's");
	expect(inner == 0, "nor is it that of a region which its owner makes");
	expect(wrong == 0, "a nestable lock is its owner's");
}

void omp_init_nest_lock_(void **lock);
void omp_destroy_nest_lock_(void **lock);
void omp_set_nest_lock_(void **lock);
void omp_unset_nest_lock_(void **lock);
int32_t omp_test_nest_lock_(void **lock);

/* By Fortran's names, the variable has the lock's address. */
static void locks_by_fortran(void)
{
	int got = 0, wrong = 0;
	void *lock;
	omp_init_nest_lock_(&lock);
#pragma omp parallel
#pragma omp single
	{
		omp_set_nest_lock_(&lock);
		if (omp_test_nest_lock_(&lock) != 2)
			add(&wrong);
		for (int i = 0; i < 10; i++) {
#pragma omp task if (i % 2) shared(lock, got)
			if (omp_test_nest_lock_(&lock))
				add(&got);
		}
#pragma omp taskwait
		omp_unset_nest_lock_(&lock);
		omp_unset_nest_lock_(&lock);
#pragma omp task shared(lock, wrong)
		{
			for_a_moment();
			if (omp_test_nest_lock_(&lock) != 1)
				add(&wrong);
			omp_set_nest_lock_(&lock);
			omp_unset_nest_lock_(&lock);
			omp_unset_nest_lock_(&lock);
		}
	}
	omp_destroy_nest_lock_(&lock);
	expect(got == 0 && wrong == 0, "nestable locks by Fortran's names");
}
