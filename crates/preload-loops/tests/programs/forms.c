/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Each form of a loop that gcc has a call for: all iterations exactly once, and in ascending order in each thread where `monotonic` says so. With the
 * argument `blocks`, the schedule must be that of `static`; with `runtime-blocks`, in `runtime` loops only. */
#include "check.h"

#define N 1000

static int blocks_all, blocks_runtime;
static int owner[N];

static void owned(const char *what, long count)
{
	int threads = omp_get_max_threads();
	long each = count / threads, more = count % threads, at = 0;
	for (int thread = 0; thread < threads; thread++)
		for (long end = at + each + (thread < more); at < end; at++)
			if (owner[at] != thread)
				fail(what, owner[at], thread);
}

#define CHECK(name, is_runtime, count)                                        \
	do {                                                                  \
		once(name, count, 1);                                         \
		if (blocks_all || (is_runtime && blocks_runtime))             \
			owned(name, count);                                   \
	} while (0)

static void note(long at)
{
	hit(at);
	if (at < N)
		owner[at] = omp_get_thread_num();
}

/* The bounds are variables, so that no call is combined with `parallel`; in COMBINED they are constants. */
#define LOOP(is_runtime, type, first, last, condition, change, step, at, count, ...) \
	do {                                                                  \
		type from = first, to = last, by = step;                      \
		_Pragma("omp parallel")                                       \
		{                                                             \
			type before = from;                                   \
			int any = 0;                                          \
			PRAGMA(omp for schedule(__VA_ARGS__))                      \
			for (type i = from; i condition to; i change by) {        \
				note(at);                                     \
				if (MONOTONIC(#__VA_ARGS__) && any && !(before condition i)) \
					fail(#__VA_ARGS__ " is not monotonic", (long)i, (long)before); \
				before = i, any = 1;                          \
			}                                                     \
			PRAGMA(omp for schedule(__VA_ARGS__) nowait)               \
			for (type i = from; i condition to; i change by)          \
				hit((at) + 2000);                             \
		}                                                             \
		for (long k = 0; k < count; k++)                              \
			if (hits[2000 + k]-- != 1)                            \
				fail(#__VA_ARGS__ " nowait", hits[2000 + k] + 1, 1); \
		CHECK(#__VA_ARGS__ " " #type, is_runtime, count);                  \
	} while (0)

#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#define MONOTONIC(text) (strncmp(text, "monotonic", 9) == 0)

#define COMBINED(is_runtime, ...)                                               \
	do {                                                                  \
		PRAGMA(omp parallel for schedule(__VA_ARGS__))                     \
		for (long i = 0; i < N; i++)                                  \
			note(i);                                              \
		CHECK("combined " #__VA_ARGS__, is_runtime, N);                    \
		PRAGMA(omp parallel for schedule(__VA_ARGS__))                     \
		for (int i = 3 * N - 1; i >= 0; i -= 3)                       \
			note((3 * N - 1 - i) / 3);                            \
		CHECK("combined down " #__VA_ARGS__, is_runtime, N);               \
	} while (0)

#define ALL(is_runtime, ...)                                                    \
	do {                                                                  \
		LOOP(is_runtime, long, 0, N, <, +=, 1, i, N, __VA_ARGS__);             \
		LOOP(is_runtime, int, 5, 5 + 3 * N - 1, <, +=, 3, (i - 5) / 3, N, __VA_ARGS__); \
		LOOP(is_runtime, long, 2 * N, 0, >, -=, 2, (2 * N - i) / 2, N, __VA_ARGS__); \
		LOOP(is_runtime, int, 7, 7, <, +=, 1, i, 0, __VA_ARGS__);              \
		LOOP(is_runtime, long, 9, 3, <, +=, 2, i, 0, __VA_ARGS__);             \
		LOOP(is_runtime, unsigned long long, 0, N, <, +=, 1, (long)i, N, __VA_ARGS__); \
		LOOP(is_runtime, unsigned long long, 10, 10 + 7 * N, <, +=, 7, (long)((i - 10) / 7), N, __VA_ARGS__); \
		LOOP(is_runtime, unsigned long long, 4 * N, 0, >, -=, 4, (long)((4 * N - i) / 4), N, __VA_ARGS__); \
		COMBINED(is_runtime, __VA_ARGS__);                                 \
	} while (0)

/* Counters that use nearly their whole range. Beyond `to` there is room for one step, as OpenMP requires. */
static void huge(void)
{
	unsigned long long step = 0x0040000000000001ull, to = -1ull - step, count = (to - 3 - 1) / step + 1;
#pragma omp parallel for schedule(runtime)
	for (unsigned long long i = 3; i < to; i += step)
		note((long)(i / step));
	once("huge unsigned", (long)count, 1);
	unsigned long long from = -1ull, down = step + 3;
	count = (from - down - 1) / step + 1;
#pragma omp parallel for schedule(runtime)
	for (unsigned long long i = from; i > down; i -= step)
		note((long)((from - i) / step));
	once("huge unsigned down", (long)count, 1);
	long first = -0x7fffffffffffffffl, end = 0x7fffffffffffffffl - (long)step;
	count = ((unsigned long long)end - (unsigned long long)first - 1) / step + 1;
#pragma omp parallel for schedule(runtime)
	for (long i = first; i < end; i += (long)step)
		note((long)(((unsigned long long)i - (unsigned long long)first) / step));
	once("huge signed", (long)count, 1);
	if (!omp_get_cancellation())
		return;
	to = -1ull;
	/* 2^64 - 1 iterations; each thread that gets some cancels the loop. */
	unsigned long long sum = 0;
#pragma omp parallel
	{
#pragma omp for schedule(runtime)
		for (unsigned long long i = 0; i < to; i++) {
			__atomic_fetch_add(&sum, 1, __ATOMIC_RELAXED);
#pragma omp cancel for
		}
	}
	if (sum == 0 || sum > (unsigned long long)omp_get_max_threads())
		fail("iterations before a cancellation", (long)sum, 1);
}

int main(int count, char **arguments)
{
	blocks_all = count > 1 && strcmp(arguments[1], "blocks") == 0;
	blocks_runtime = blocks_all || (count > 1 && strcmp(arguments[1], "runtime-blocks") == 0);
	if (count > 1 && strcmp(arguments[1], "huge") == 0) {
		huge();
		puts("kept");
		return 0;
	}
	ALL(1, runtime);
	ALL(1, monotonic:runtime);
	ALL(1, nonmonotonic:runtime);
	ALL(0, dynamic);
	ALL(0, dynamic, 3);
	ALL(0, monotonic:dynamic);
	ALL(0, guided);
	ALL(0, guided, 4);
	ALL(0, monotonic:guided);
	puts("kept");
	return 0;
}
