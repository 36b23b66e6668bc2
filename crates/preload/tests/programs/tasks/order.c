/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Dependences. */
#include "promise.h"

/* in, out, inout: order, and nothing but the order that is asked for. */
static void order(void)
{
	int a = 0, b = 0, gate = 0, early = 0, readers = 0, chain = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(out : a)
		{
			while (!get(&gate))
				for_a_moment();
			a = 7;
		}
		for (int i = 0; i < 40; i++) {
#pragma omp task depend(in : a)
			{
				if (a != 7)
					add(&early);
				add(&readers);
			}
		}
#pragma omp task depend(inout : a)
		{
			expect(get(&readers) == 40, "a writer waits for all readers");
			a = 8;
		}
#pragma omp task depend(out : b)
		b = 1;
		for_a_moment();
		expect(get(&readers) == 0 && get(&early) == 0, "nobody reads before the writer has ended");
		set(&gate, 1);
#pragma omp taskwait
		expect(a == 8 && b == 1, "taskwait waits for tasks with dependences");
		for (int i = 0; i < 1000; i++) {
#pragma omp task depend(inout : chain)
			{
				expect(chain == i, "a chain keeps its order");
				chain = i + 1;
			}
		}
	}
	expect(early == 0, "no reader was early");
	expect(chain == 1000, "all links of a chain have run");
}

/* Blocks of a matrix, each after its left and its upper neighbour. */
static void wavefront(void)
{
	enum { N = 24 };
	static int block[N + 1][N + 1];
	memset(block, 0, sizeof block);
	for (int i = 0; i <= N; i++)
		block[0][i] = block[i][0] = 1;
#pragma omp parallel
#pragma omp single
	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++) {
#pragma omp task depend(in : block[i - 1][j], block[i][j - 1]) depend(out : block[i][j]) firstprivate(i, j)
			block[i][j] = (block[i - 1][j] + block[i][j - 1]) % 1000003;
		}
	int expected[N + 1][N + 1];
	memcpy(expected, block, sizeof block);
	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++)
			expected[i][j] = (expected[i - 1][j] + expected[i][j - 1]) % 1000003;
	expect(memcmp(expected, block, sizeof block) == 0, "a wavefront's blocks wait for their neighbours");
}

/* inoutset: together; mutexinoutset: one at a time, in any order; depend objects; iterators. */
static void sets(void)
{
	int a = 0, together = 0, inside = 0, crowded = 0, counted = 0, plain = 0, gate = 0;
	int cells[8] = { 0 };
	omp_depend_t object;
	/* gcc 12 knows no inoutset. */
	(void)a;
#if __GNUC__ >= 13
#pragma omp depobj(object) depend(inoutset : a)
#else
#pragma omp depobj(object) depend(in : a)
#endif
#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(out : a)
		{
			while (!get(&gate))
				for_a_moment();
			add(&together);
		}
		for (int i = 0; i < 8; i++) {
#pragma omp task depend(depobj : object)
			{
				expect(get(&together) >= 1, "an inoutset waits for the writer before it");
				add(&together);
			}
		}
#pragma omp task depend(inout : a)
		expect(get(&together) == 9, "a writer waits for the whole inoutset");
		for_a_moment();
		expect(get(&together) == 0, "an inoutset has not begun before the writer");
		set(&gate, 1);
#pragma omp taskwait
		for (int i = 0; i < 50; i++) {
#pragma omp task depend(mutexinoutset : plain)
			{
				add(&inside);
				if (get(&inside) != 1)
					add(&crowded);
				plain++;
#pragma omp atomic
				inside--;
				add(&counted);
			}
		}
#pragma omp task depend(in : plain)
		expect(plain == 50 && get(&counted) == 50, "a reader waits for the whole mutexinoutset");
#pragma omp task depend(iterator(i = 0 : 8), out : cells[i])
		for (int i = 0; i < 8; i++)
			cells[i] = i + 1;
		for (int i = 0; i < 8; i++) {
#pragma omp task depend(in : cells[i])
			expect(cells[i] == i + 1, "an iterator names every cell");
		}
	}
	expect(crowded == 0, "a mutexinoutset's tasks exclude each other");
	expect(plain == 50, "all of a mutexinoutset have run");
#pragma omp depobj(object) destroy
}

#if __GNUC__ >= 13
/* omp_all_memory: after all before, before all after. */
static void all_memory(void)
{
	int a = 0, b = 0, before = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(out : a)
		{
			for_a_moment();
			add(&before);
		}
#pragma omp task depend(in : b)
		add(&before);
#pragma omp task depend(out : omp_all_memory)
		{
			expect(get(&before) == 2, "omp_all_memory waits for everything");
			add(&before);
		}
#pragma omp task depend(in : b)
		expect(get(&before) == 3, "everything waits for omp_all_memory");
	}
}
#else
static void all_memory(void)
{
}
#endif

/* What gcc calls from version 13 on, which alone compiles it from `taskwait depend(...) nowait`. */
extern void GOMP_taskwait_depend_nowait(void **depend) __attribute__((weak));

/* A taskwait that nobody waits at: later tasks do. */
static void wait_later(void)
{
	int a = 0, b = 0, gate = 0, ran = 0;
	/* libgomp has it from version 13 on, and regions of one thread are always libgomp's. */
	if (!GOMP_taskwait_depend_nowait || omp_get_max_threads() == 1)
		return;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(out : a)
		{
			while (!get(&gate))
				for_a_moment();
			a = 1;
		}
		/* depend(inout: b) depend(in: a) */
		GOMP_taskwait_depend_nowait((void *[]){ (void *)2, (void *)1, &b, &a });
#pragma omp task depend(in : b)
		{
			expect(a == 1, "what comes behind a taskwait with nowait waits for what that one does");
			add(&ran);
		}
		for_a_moment();
		expect(get(&ran) == 0, "nobody comes past a taskwait with nowait");
		set(&gate, 1);
	}
	expect(ran == 1, "what comes behind a taskwait with nowait goes on");
}

/* A false if: at once, by the same thread, after what it depends on. */
static void at_once(void)
{
	int a = 0, here = 0, gate = 0;
#pragma omp parallel
#pragma omp single
	{
		int thread = omp_get_thread_num();
#pragma omp task if (0) shared(here)
		here = thread == omp_get_thread_num() ? 1 : -1;
		expect(here == 1, "a task with a false if is done at once by its creator");
#pragma omp task depend(out : a) shared(a)
		{
			for_a_moment();
			a = 5;
		}
#pragma omp task if (0) depend(in : a)
		expect(a == 5, "a task with a false if waits for what it depends on");
		expect(a == 5, "... and so does its creator");
#pragma omp task depend(out : a)
		a = 6;
#pragma omp task
		/* The thread that waits may run it itself. */
		for (int i = 0; i < 20 && !get(&gate); i++)
			for_a_moment();
#pragma omp taskwait depend(in : a)
		expect(a == 6, "taskwait with depend waits for the named");
		set(&gate, 1);
	}
}
