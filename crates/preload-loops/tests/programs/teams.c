/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Loops in all kinds of teams. The argument names a case. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define N 100

/* Many loops without a barrier; then the first thread executes all of them before the others begin. */
static void chain(void)
{
#pragma omp parallel
	for (int k = 0; k < 200; k++)
#pragma omp for schedule(runtime) nowait
		for (int i = 0; i < N; i++)
			hit(i);
	once("nowait", N, 200);
	int passed = 0;
#pragma omp parallel
	{
		if (omp_get_thread_num() > 0)
			while (!__atomic_load_n(&passed, __ATOMIC_ACQUIRE))
				usleep(100);
		/* `static` gives the others a part: they execute it later. */
		for (int k = 0; k < 200; k++)
#pragma omp for schedule(runtime) nowait
			for (int i = 0; i < N; i++)
				hit(i);
		__atomic_store_n(&passed, 1, __ATOMIC_RELEASE);
	}
	once("nowait, one thread ahead", N, 200);
}

static void nest(int depth)
{
#pragma omp parallel num_threads(2 + depth % 2)
	{
#pragma omp for schedule(runtime) nowait
		for (int i = 0; i < N; i++)
			hit(depth * N + i);
#pragma omp for schedule(dynamic) nowait
		for (int i = 0; i < 4; i++) {
			/* A loop in a region in a loop. */
			if (depth < 3)
				nest(depth + 1);
		}
#pragma omp for schedule(runtime)
		for (int i = 0; i < N; i++)
			hit(depth * N + i);
	}
}

static void nested(void)
{
	omp_set_max_active_levels(4);
	nest(0);
	for (int depth = 0, times = 2; depth < 4; depth++, times *= 4)
		for (int i = 0; i < N; i++) {
			if (hits[depth * N + i] != times)
				fail("nested", hits[depth * N + i], times);
			hits[depth * N + i] = 0;
		}
	once("beside nested loops", 0, 0);
}

static void *concurrent_part(void *at)
{
	long base = (long)at * 1000;
	for (int k = 0; k < 100; k++) {
#pragma omp parallel
		{
#pragma omp for schedule(runtime) nowait
			for (int i = 0; i < N; i++)
				hit(base + i);
#pragma omp for schedule(dynamic)
			for (int i = 0; i < N; i++)
				hit(base + i);
		}
#pragma omp parallel for schedule(runtime)
		for (int i = 0; i < 7; i++)
			hit(base + N + i);
	}
	return NULL;
}

static void concurrent(void)
{
	pthread_t threads[3];
	for (long k = 0; k < 3; k++)
		pthread_create(&threads[k], NULL, concurrent_part, (void *)k);
	for (int k = 0; k < 3; k++)
		pthread_join(threads[k], NULL);
	for (long base = 0; base < 3000; base += 1000)
		for (int i = 0; i < N + 7; i++) {
			if (hits[base + i] != (i < N ? 200 : 100))
				fail("concurrent", hits[base + i], i < N ? 200 : 100);
			hits[base + i] = 0;
		}
	once("beside concurrent loops", 0, 0);
}

/* Loops that are cancelled, and complete ones after them in the same team. */
static void cancelled(void)
{
	if (!omp_get_cancellation())
		fail("OMP_CANCELLATION", 0, 1);
	for (int round = 0; round < 50; round++) {
		int stopped = 0;
#pragma omp parallel
		{
#pragma omp for schedule(runtime)
			for (int i = 0; i < 100000; i++) {
#pragma omp cancellation point for
				__atomic_fetch_add(&stopped, 1, __ATOMIC_RELAXED);
				if (i >= 10) {
#pragma omp cancel for
				}
			}
#pragma omp for schedule(runtime)
			for (int i = 0; i < N; i++)
				hit(i);
#pragma omp for schedule(dynamic)
			for (int i = 0; i < N; i++)
				hit(i);
		}
		if (stopped >= 100000)
			fail("iterations of a cancelled loop", stopped, 10);
		once("after a cancelled loop", N, 2);
		/* The region is cancelled: some threads never come to the last loop, others leave it at its end. */
#pragma omp parallel
		{
#pragma omp for schedule(runtime) nowait
			for (int i = 0; i < N; i++)
				hit(i);
			if (omp_get_thread_num() == omp_get_num_threads() - 1) {
#pragma omp cancel parallel
			}
#pragma omp for schedule(runtime)
			for (int i = 0; i < N; i++)
				__atomic_fetch_add(&stopped, 1, __ATOMIC_RELAXED);
			fail("the end of a loop in a cancelled region", 1, 0);
		}
		once("before a region is cancelled", N, 1);
#pragma omp parallel for schedule(runtime)
		for (int i = 0; i < N; i++)
			hit(i);
		once("after a cancelled region", N, 1);
	}
}

/* Constructs that libgomp keeps, between loops of ours. */
static void mixed(void)
{
	for (int round = 0; round < 50; round++) {
		long last = -1, sum = 0, at = 0, singles = 0, parts = 0;
		static int order[N];
		static long row[N + 1];
#pragma omp parallel
		{
#pragma omp for schedule(runtime) nowait
			for (int i = 0; i < N; i++)
				hit(i);
#pragma omp for schedule(dynamic) ordered
			for (int i = 0; i < N; i++) {
				hit(i);
#pragma omp ordered
				order[at++] = i;
			}
#pragma omp single nowait
			singles++;
#pragma omp for schedule(runtime) ordered nowait
			for (int i = 0; i < N; i++) {
				hit(i);
#pragma omp ordered
				at++;
			}
#pragma omp for schedule(guided) lastprivate(last)
			for (int i = 0; i < N; i++) {
				hit(i);
				last = i;
			}
#pragma omp sections
			{
#pragma omp section
				__atomic_fetch_add(&parts, 1, __ATOMIC_RELAXED);
#pragma omp section
				__atomic_fetch_add(&parts, 1, __ATOMIC_RELAXED);
			}
#pragma omp for schedule(dynamic) ordered(1)
			for (int i = 0; i < N; i++) {
#pragma omp ordered depend(sink : i - 1)
				row[i + 1] = row[i] + 1;
#pragma omp ordered depend(source)
			}
#pragma omp for schedule(dynamic) reduction(task, + : sum)
			for (int i = 0; i < N; i++) {
#pragma omp task in_reduction(+ : sum)
				sum += i;
			}
#pragma omp for schedule(static) nowait
			for (int i = 0; i < N; i++)
				hit(i);
#pragma omp for schedule(runtime) lastprivate(last)
			for (int i = 0; i < N; i++) {
				hit(i);
				last = i + 1;
			}
		}
		once("mixed", N, 6);
		for (int i = 0; i < N; i++)
			if (order[i] != i)
				fail("ordered", order[i], i);
		if (at != 2 * N || singles != 1 || parts != 2 || row[N] != N || sum != N * (N - 1) / 2 || last != N)
			fail("a construct of libgomp", at + singles + parts + row[N] + sum + last, 0);
		row[0] = 0;
	}
	int sum = 0;
#pragma omp parallel reduction(task, + : sum)
#pragma omp for schedule(runtime)
	for (int i = 0; i < N; i++) {
#pragma omp task in_reduction(+ : sum)
		sum++;
	}
	if (sum != N)
		fail("a reduction over tasks of a region", sum, N);
}

/* After a loop, each thread finds what all have written. */
static void barriers(void)
{
	static int cells[N];
#pragma omp parallel
	for (int k = 1; k <= 100; k++) {
#pragma omp for schedule(runtime)
		for (int i = 0; i < N; i++) {
			if (i == N - 1)
				usleep(50);
			__atomic_store_n(&cells[i], k, __ATOMIC_RELAXED);
		}
		for (int i = 0; i < N; i++)
			if (__atomic_load_n(&cells[i], __ATOMIC_RELAXED) != k)
				fail("a cell after the barrier", cells[i], k);
#pragma omp barrier
	}
}

/* Teams that are smaller than what the program asks for, and loops outside of regions. */
static void sizes(void)
{
	for (int round = 0; round < 20; round++) {
#pragma omp parallel num_threads(64)
		{
			if (omp_get_num_threads() > omp_get_thread_limit())
				fail("threads", omp_get_num_threads(), omp_get_thread_limit());
#pragma omp for schedule(runtime)
			for (int i = 0; i < N; i++)
				hit(i);
		}
#pragma omp parallel for schedule(runtime) num_threads(64)
		for (int i = 0; i < N; i++)
			hit(i);
#pragma omp parallel for schedule(runtime) num_threads(1 + round % 4)
		for (int i = 0; i < N; i++)
			hit(i);
#pragma omp for schedule(runtime)
		for (int i = 0; i < N; i++)
			hit(i);
#pragma omp parallel if (round % 2)
#pragma omp for schedule(dynamic)
		for (int i = 0; i < N; i++)
			hit(i);
		once("teams of all sizes", N, 5);
	}
}

/* A child continues with one thread. libgomp cannot have teams in it after a team in the parent, so the parent has loops outside of regions. */
static void forked(void)
{
	for (int round = 0; round < 3; round++) {
#pragma omp for schedule(runtime)
		for (int i = 0; i < N; i++)
			hit(i);
		once("before a fork", N, 1);
		pid_t child = fork();
		if (child == 0) {
#pragma omp parallel num_threads(3)
			{
#pragma omp for schedule(runtime) nowait
				for (int i = 0; i < N; i++)
					hit(i);
#pragma omp for schedule(dynamic)
				for (int i = 0; i < N; i++)
					hit(i);
			}
			once("in a child", N, 2);
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		if (status != 0)
			fail("a child's status", status, 0);
	}
#pragma omp parallel for schedule(runtime)
	for (int i = 0; i < N; i++)
		hit(i);
	once("after a fork", N, 1);
	/* After a region: teams of one thread only. */
	pid_t child = fork();
	if (child == 0) {
#pragma omp parallel for schedule(runtime) num_threads(1)
		for (int i = 0; i < N; i++)
			hit(i);
		once("in a child after a region", N, 1);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	if (status != 0)
		fail("a child's status", status, 0);
}

static void *ending(void *unused)
{
#pragma omp for schedule(runtime)
	for (int i = 0; i < N; i++)
		hit(i);
#pragma omp parallel for schedule(runtime) num_threads(2)
	for (int i = 0; i < N; i++)
		hit(i);
	return unused;
}

/* Threads that begin regions and end. */
static void threads(void)
{
	for (int k = 0; k < 60; k++) {
		pthread_t thread;
		pthread_create(&thread, NULL, ending, NULL);
		pthread_join(thread, NULL);
	}
	once("threads that end", N, 120);
}

static void many(void)
{
	long sum = 0;
#pragma omp parallel reduction(+ : sum)
	for (int k = 0; k < 1000000; k++)
#pragma omp for schedule(runtime) nowait
		for (int i = 0; i < 10; i++)
			sum += i;
	if (sum != 45000000)
		fail("many instances", sum, 45000000);
}

/* Loops whose trip counts change all the time. */
static void changing(void)
{
	for (int k = 0; k < 2000; k++) {
		long sum = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : sum)
		for (int i = 0; i < k; i++)
			sum += i;
		if (sum != (long)k * (k - 1) / 2)
			fail("a changing loop", sum, (long)k * (k - 1) / 2);
	}
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "chain", chain }, { "nested", nested }, { "concurrent", concurrent }, { "cancelled", cancelled },
		{ "mixed", mixed }, { "barriers", barriers }, { "sizes", sizes }, { "forked", forked }, { "threads", threads },
		{ "many", many }, { "changing", changing },
	};
	for (unsigned k = 0; count > 1 && k < sizeof(cases) / sizeof(*cases); k++)
		if (strcmp(arguments[1], cases[k].name) == 0) {
			cases[k].run();
			puts("kept");
			return 0;
		}
	return 2;
}
