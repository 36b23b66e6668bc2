/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Loops in many small tasks, which somebody else may take up at any place. */
#include "promise.h"

enum { PARTS = 3000 };

/* A part now and then takes long, so that others run out of work in between. */
static void take(int i)
{
	if (i % 700 == 699)
		for_a_moment();
}

/* Each part once, with its own copy of what is firstprivate, of the size that was asked for. */
static void parts(void)
{
	static int seen[PARTS], place[PARTS], down[PARTS];
	int k = 0, wrong = 0, begun = 0, ended = 0, most = 0, final_ones = 0;

	memset(seen, 0, sizeof seen);
	memset(down, 0, sizeof down);
#pragma omp parallel
#pragma omp single
	{
#pragma omp taskloop grainsize(1) firstprivate(k)
		for (int i = 0; i < PARTS; i++) {
			take(i);
			add(&seen[i]);
			place[i] = k++;
		}
		for (int i = 0; i < PARTS; i++)
			wrong += get(&seen[i]) != 1 || place[i] != 0;
		expect(wrong == 0, "each part of a taskloop runs once, with its own copies");

#pragma omp taskloop grainsize(strict : 7) firstprivate(k)
		for (int i = 0; i < PARTS; i++) {
			take(i);
			add(&seen[i]);
			place[i] = k++;
		}
		for (int i = 0; i < PARTS; i++)
			wrong += get(&seen[i]) != 2 || place[i] != i % 7;
		expect(wrong == 0, "a strict grainsize is kept");

#pragma omp taskloop num_tasks(450) firstprivate(k) priority(3)
		for (int i = 0; i < PARTS; i++) {
			take(i);
			add(&seen[i]);
			place[i] = k++;
		}
		for (int i = 0; i < PARTS; i++) {
			wrong += get(&seen[i]) != 3;
			begun += place[i] == 0;
			most = place[i] > most ? place[i] : most;
		}
		expect(wrong == 0 && begun == 450 && most == 6, "as many parts as were asked for, of like sizes");

#pragma omp taskloop grainsize(1)
		for (unsigned long long i = (1ull << 63) + PARTS; i > 1ull << 63; i--)
			add(&down[i - (1ull << 63) - 1]);
#pragma omp taskloop grainsize(3)
		for (long i = 5 * (PARTS - 1) - 7; i >= -7; i -= 5)
			add(&down[(i + 7) / 5]);
		for (int i = 0; i < PARTS; i++)
			wrong += get(&down[i]) != 2;
		expect(wrong == 0, "parts of loops that count down");

#pragma omp taskloop grainsize(1) final(1)
		for (int i = 0; i < 100; i++)
			if (omp_in_final())
				add(&final_ones);
#pragma omp task final(1)
		{
#pragma omp taskloop grainsize(1)
			for (int i = 0; i < 100; i++)
				if (omp_in_final())
					add(&final_ones);
		}
#pragma omp taskwait
		expect(final_ones == 200, "parts of a final loop are final");
	}
	int threads = 0;
#pragma omp parallel
	{
#pragma omp atomic
		threads++;
		/* All at once, in each other's way. */
#pragma omp taskloop grainsize(1) nogroup
		for (int i = 0; i < PARTS; i++) {
			take(i);
			add(&ended);
		}
	}
	expect(ended == threads * PARTS, "no part is left at a region's end");
}

/* Parts are children of the task that has the loop, whoever makes them, and have children of their own. */
static void parts_and_children(void)
{
	int ended = 0, below = 0, late = 0, early = 0;

#pragma omp parallel
#pragma omp single
	{
		for (int round = 1; round <= 5; round++) {
#pragma omp taskloop grainsize(1) nogroup
			for (int i = 0; i < PARTS; i++) {
				take(i);
				add(&ended);
			}
#pragma omp taskwait
			expect(get(&ended) == round * PARTS, "a taskwait waits for all parts");
		}
#pragma omp taskloop grainsize(1)
		for (int i = 0; i < 300; i++) {
			int own = 0;
#pragma omp task shared(own)
			{
				add(&own);
#pragma omp taskloop grainsize(1)
				for (int j = 0; j < 10; j++)
					add(&below);
			}
#pragma omp task shared(own)
			{
				take(i);
				add(&own);
			}
#pragma omp taskwait
			if (get(&own) != 2)
				add(&early);
#pragma omp task
			{
				if (i % 100 == 0)
					for_a_moment();
				add(&late);
			}
		}
		expect(get(&early) == 0, "a part waits for its own children");
		expect(get(&late) == 300 && get(&below) == 3000, "a taskloop waits for what its parts have made");
		int a = 0;
		(void)a;
#pragma omp task depend(out : a)
		{
#pragma omp taskloop grainsize(1) nogroup
			for (int i = 0; i < PARTS; i++)
				add(&below);
		}
#pragma omp task depend(in : a)
		add(&late);
	}
	expect(get(&late) == 301 && get(&below) == 3000 + PARTS, "a task may end before the parts of its loop");
}

/* Each thread adds up for itself, whichever parts it has. */
static void parts_reduced(void)
{
	long sum = 1, most = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp taskloop grainsize(1) reduction(+ : sum) reduction(max : most)
		for (int i = 1; i <= PARTS; i++) {
			take(i);
			sum += i;
			most = most > i ? most : i;
		}
		expect(sum == 1 + PARTS * (PARTS + 1L) / 2 && most == PARTS, "all parts are in a taskloop's reduction");
#pragma omp taskgroup task_reduction(+ : sum)
		{
#pragma omp taskloop grainsize(1) in_reduction(+ : sum) nogroup
			for (int i = 0; i < PARTS; i++) {
				take(i);
				sum++;
			}
		}
		expect(sum == 1 + PARTS * (PARTS + 1L) / 2 + PARTS, "... and in that of the group around");
	}
}

/* Parts that have not begun when their loop's group is cancelled do not begin; where libgomp (12) does them at once, they do. */
static void parts_cancelled(void)
{
	int begun = 0, allowed = omp_get_cancellation(), again = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp taskgroup
		{
#pragma omp taskloop grainsize(1) nogroup
			for (int i = 0; i < PARTS; i++) {
				add(&begun);
				if (get(&begun) >= 100) {
#pragma omp cancel taskgroup
				}
			}
		}
		/* Every other thread may have begun one more by then. */
		expect(allowed ? get(&begun) >= 100 && get(&begun) < 100 + omp_get_num_threads() : get(&begun) == PARTS,
		       "no part begins once its group is cancelled");
#pragma omp taskloop grainsize(1)
		for (int i = 0; i < PARTS; i++)
			add(&again);
		expect(get(&again) == PARTS, "the next loop is not cancelled");
	}
}
