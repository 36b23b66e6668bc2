/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Whose a variable is, and who has *not* gone on yet. */
#include "promise.h"

/* The gate that a task waits at opens by itself after a while: where its creator runs it, nobody else can open it. */
static void wait_at(int *gate)
{
	for (int i = 0; i < 20 && !get(gate); i++)
		for_a_moment();
}

/* private, firstprivate, lastprivate, default(none): in tasks and in loops of tasks. */
static void sharing(void)
{
	enum { N = 100 };
	int first = 7, last = -1, own = 3, wrong = 0, sum = 0, lasts = 0;
#pragma omp parallel default(none) shared(first, last, own, wrong, sum, lasts)
#pragma omp single
	{
#pragma omp taskloop firstprivate(first) lastprivate(last) private(own) grainsize(9) untied priority(3) mergeable
		for (int i = 0; i < N; i++) {
			own = first + i;
			last = own;
#pragma omp atomic
			sum += own - i;
		}
		/* The construct waits, so the last iteration's value is there. */
		lasts = last;
		for (int i = 0; i < N; i++) {
			int mine = i;
#pragma omp task default(none) firstprivate(mine) private(own) shared(wrong) affinity(last)
			{
				own = mine;
				for_a_moment();
				if (own != mine)
					add(&wrong);
			}
			mine = -1;
		}
#pragma omp taskloop num_tasks(4) final(1) shared(wrong)
		for (int i = 0; i < 8; i++) {
			if (!omp_in_final())
				add(&wrong);
		}
#pragma omp taskloop simd lastprivate(last) if (0)
		for (int i = 0; i < N; i++)
			last = i;
	}
	expect(sum == 7 * N && first == 7 && own == 3, "a taskloop's private and firstprivate variables are its own");
	expect(lasts == 7 + N - 1 && last == N - 1, "lastprivate is the last iteration's");
	expect(wrong == 0, "private and firstprivate variables of tasks are their own");
}

/* What one thread has found out is everybody's when they go on, and its tasks are done behind the barrier. */
static void copied_results(void)
{
	int wrong = 0, done = 0, masked = 0;
#pragma omp parallel
	{
		int found;
#pragma omp single copyprivate(found)
		{
			for (int i = 0; i < 10; i++) {
#pragma omp task
				{
					for_a_moment();
					add(&done);
				}
			}
			found = 42;
		}
		if (found != 42)
			add(&wrong);
#pragma omp barrier
		if (get(&done) != 10)
			add(&wrong);
#pragma omp masked
		{
#pragma omp task
			add(&masked);
		}
	}
	expect(wrong == 0, "copyprivate");
	expect(done == 10 && masked == 1, "tasks beside copyprivate, and of masked, have run");
}

/* Nobody passes while a task, or one that it has made, has not ended; and somebody does where nothing holds him. */
static void nobody_passes(void)
{
	int gate = 0, ended = 0, early = 0, held_up = 0, by = -1;
#pragma omp parallel
	{
#pragma omp single nowait
		{
#pragma omp task
			{
#pragma omp task
				{
					for_a_moment();
					add(&ended);
				}
			}
		}
#pragma omp barrier
		if (get(&ended) != 1)
			add(&early);
#pragma omp barrier
#pragma omp single
		{
			/* nogroup: the loop's tasks are held, its creator is not. */
#pragma omp taskloop nogroup num_tasks(1)
			for (int i = 0; i < 1; i++) {
				set(&by, omp_get_thread_num());
				wait_at(&gate);
				add(&ended);
			}
			if (get(&ended) != 1 && get(&by) != omp_get_thread_num())
				add(&held_up);
			set(&gate, 1);
#pragma omp taskwait
			if (get(&ended) != 2)
				add(&early);
			set(&gate, 0);
			/* taskgroup: not past it before the grandchild. */
#pragma omp taskgroup
			{
#pragma omp task
				{
#pragma omp task
					{
						for_a_moment();
						add(&ended);
					}
				}
			}
			if (get(&ended) != 3)
				add(&early);
		}
		/* An end of a loop without nowait, and one with. */
#pragma omp for schedule(static)
		for (int i = 0; i < 8; i++) {
#pragma omp task
			{
				for_a_moment();
				add(&ended);
			}
		}
		if (get(&ended) != 11)
			add(&early);
#pragma omp barrier
#pragma omp for nowait
		for (int i = 0; i < 8; i++) {
#pragma omp task
			add(&ended);
		}
#pragma omp sections nowait
		{
#pragma omp section
			add(&ended);
		}
	}
	expect(early == 0, "nobody passes a barrier, a taskwait, a taskgroup before their tasks have ended");
	expect(held_up == 0, "nogroup does not wait");
	expect(ended == 20, "tasks of loops without a barrier have run by the region's end");
}

#ifdef OWN_WORDS
static int own_word;
#pragma omp threadprivate(own_word)

/* threadprivate: a task's is its thread's from one scheduling point to the next; copyin. */
static void own_words(void)
{
	int wrong = 0;
	own_word = 9;
#pragma omp parallel copyin(own_word)
	{
		if (own_word != 9)
			add(&wrong);
		own_word = 100 + omp_get_thread_num();
#pragma omp barrier
		for (int i = 0; i < 20; i++) {
#pragma omp task
			{
				if (own_word != 100 + omp_get_thread_num())
					add(&wrong);
				for_a_moment();
				if (own_word != 100 + omp_get_thread_num())
					add(&wrong);
			}
		}
#pragma omp taskwait
		if (own_word != 100 + omp_get_thread_num())
			add(&wrong);
	}
	expect(wrong == 0, "threadprivate data are those of the thread with the number that is told");
}
#else
/* A program with such data has no standbys: the other checks are to be made with them. */
static void own_words(void)
{
}
#endif
