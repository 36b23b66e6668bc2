/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cancellation, where the user allows it; else cancel constructs do nothing. */
#include "promise.h"

/* A taskgroup's tasks that have not begun do not begin, those that have can be told, and others are not concerned. */
static void cancelled_groups(void)
{
	int ran = 0, others = 0, beyond = 0, ended = 0, below = 0, allowed = omp_get_cancellation();
#pragma omp parallel
#pragma omp single
	{
		int a = 0;
		(void)a;
#pragma omp task
		{
			for_a_moment();
			add(&others);
		}
#pragma omp taskgroup
		{
#pragma omp task depend(out : a)
			{
#pragma omp task
				{
					for_a_moment();
					add(&below);
				}
#pragma omp cancel taskgroup
				add(&beyond);
			}
			for (int i = 0; i < 20; i++) {
#pragma omp task depend(inout : a)
				add(&ran);
			}
		}
		expect(get(&ran) == (allowed ? 0 : 20) && get(&beyond) == !allowed,
		       "tasks of a cancelled group do not begin, and who cancels ends");
#pragma omp taskgroup
		{
			/* A group within is cancelled for itself. */
#pragma omp task
			{
#pragma omp taskgroup
				{
#pragma omp task
					{
#pragma omp cancel taskgroup if (allowed)
						add(&beyond);
					}
				}
				add(&ended);
			}
		}
		expect(get(&ended) == 1, "a group around a cancelled one goes on");
#pragma omp taskgroup
		{
#pragma omp task
			{
				/* The other may never run while one thread is busy here. */
				for (int i = 0; allowed && omp_get_num_threads() > 1; i++) {
					for_a_moment();
#pragma omp cancellation point taskgroup
				}
				add(&ended);
			}
#pragma omp task
			{
#pragma omp cancel taskgroup
			}
		}
		expect(get(&ended) == 1 || !allowed || omp_get_num_threads() == 1,
		       "a cancellation point ends its task");
	}
	expect(others == 1, "tasks outside of a cancelled group run");
}

/* Threads at a barrier are let go, and the next region knows nothing of it. */
static void cancelled_regions(void)
{
	int reached = 0, after = 0, n = 0, tasks = 0, allowed = omp_get_cancellation();
	for (int round = 0; round < 4; round++) {
#pragma omp parallel
		{
			int mine = omp_get_thread_num();
			for (int i = 0; i < 10; i++) {
#pragma omp task
				add(&tasks);
			}
			if (mine == round % omp_get_num_threads()) {
				if (round & 1)
					for_a_moment();
#pragma omp cancel parallel
			}
			if (round == 2)
				for_a_moment();
#pragma omp barrier
			add(&reached);
#pragma omp task
			add(&tasks);
		}
		tasks = 0;
#pragma omp parallel
		{
#pragma omp task
			add(&tasks);
#pragma omp barrier
			if (get(&tasks) == omp_get_num_threads())
				add(&after);
#pragma omp atomic
			n++;
		}
		tasks = 0;
	}
	expect(!allowed || reached == 0, "nobody comes past a barrier of a cancelled region");
	expect(allowed || reached == n, "where that is not allowed, all do");
	expect(after == n, "the region behind a cancelled one has its barriers and its tasks");
}

/* A loop or sections end early, with their tasks; the next ones do not. */
static void cancelled_work_shares(void)
{
	int done = 0, made = 0, wrong = 0, whole = 0, n = 0, sections = 0, allowed = omp_get_cancellation();
#pragma omp parallel
	{
#pragma omp for schedule(dynamic)
		for (int i = 0; i < 200; i++) {
			add(&made);
#pragma omp task
			add(&done);
#pragma omp cancel for
		}
		/* One iteration of each thread at most. */
		if (get(&done) != get(&made) || get(&made) > (allowed ? omp_get_num_threads() : 200))
			add(&wrong);
#pragma omp barrier
#pragma omp for schedule(dynamic)
		for (int i = 0; i < 50; i++) {
#pragma omp cancellation point for
			add(&whole);
#pragma omp cancel for if (i < 0)
		}
#pragma omp sections
		{
#pragma omp section
			{
#pragma omp task
				add(&done);
#pragma omp cancel sections
				add(&sections);
			}
		}
#pragma omp for
		for (int i = 0; i < 50; i++)
			add(&whole);
#pragma omp atomic
		n++;
	}
	expect(wrong == 0, "a cancelled loop ends with all its tasks");
	expect(whole == 100, "loops behind a cancelled one are whole");
	expect(sections == !allowed && done == made + 1, "sections end early, with their tasks");
}

/* Loops that are divided beforehand end at an explicit barrier. */
static void cancelled_static_loops(void)
{
	int cut = 0, whole = 0, n = 0, allowed = omp_get_cancellation();
#pragma omp parallel
	{
#pragma omp for schedule(static)
		for (int i = 0; i < 100; i++) {
#pragma omp cancel for
			add(&cut);
		}
#pragma omp for schedule(static)
		for (int i = 0; i < 100; i++) {
#pragma omp cancel for if (i < 0)
			add(&whole);
		}
#pragma omp for schedule(static)
		for (int i = 0; i < 100; i++) {
#pragma omp cancel for
			add(&cut);
		}
#pragma omp atomic
		n++;
	}
	expect(cut == (allowed ? 0 : 200), "cancelled static loops end");
	expect(whole == 100, "a static loop behind a cancelled one is whole");
}

/* As gcc calls it. */
void GOMP_task(void (*body)(void *), void *data, void (*copy)(void *, void *), long bytes, long align, bool deferrable,
	       unsigned flags, void **depend, int priority, void *event);

static int copies;

static void begin_copy(void *to, void *from)
{
	memcpy(to, from, sizeof(int));
	add(&copies);
}

static void end_copy(void *copy)
{
	(void)copy;
	__atomic_fetch_sub(&copies, 1, __ATOMIC_ACQ_REL);
}

/* In C++ a task has copies of objects, and only its body ends them. */
static void cancelled_copies(void)
{
	int word = 7;
#pragma omp parallel
#pragma omp single
#pragma omp taskgroup
	{
		for (int i = 0; i < 100; i++)
			GOMP_task(end_copy, &word, begin_copy, sizeof word, _Alignof(int), true, 0, NULL, 0, NULL);
#pragma omp task if (0)
		{
#pragma omp cancel taskgroup
		}
	}
	expect(copies == 0, "copies that were begun for cancelled tasks are ended");
	copies = 0;
}

/*
 * A region is cancelled while threads come to a loop that reduces, and leave it. Only when asked for: libgomp (12) lets the first
 * thread go with the memory that the others use.
 */
static void cancelled_reductions(void)
{
	static long a;
	int beyond = 0, allowed = omp_get_cancellation();
	for (int round = 0; round < 30; round++) {
		a = 0;
#pragma omp parallel
		{
			int mine = omp_get_thread_num();
#pragma omp for reduction(task, + : a) schedule(dynamic)
			for (int i = 0; i < 50; i++) {
#pragma omp task in_reduction(+ : a)
				a++;
#pragma omp cancel for if (i == round)
			}
			if (mine == 0 && (a > 50 || (!allowed && a != 50)))
				add(&beyond);
#pragma omp barrier
			if (mine == round % omp_get_num_threads()) {
#pragma omp cancel parallel
			}
			if (mine == 1)
				for_a_moment();
#pragma omp for reduction(task, + : a) schedule(dynamic)
			for (int i = 0; i < 50; i++) {
#pragma omp task in_reduction(+ : a)
				a++;
			}
		}
		if (a > 100)
			add(&beyond);
	}
	expect(beyond == 0, "nothing is added twice in a cancelled region");
}
