/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the tests of the perf and proc backends observe: it does one thing, and every thread says at
 * its end what the kernel itself knows of it.
 *
 * Waits for a byte on standard input, so that it can be enrolled before it begins. Lines printed:
 *   thread TID CPU_NS VOLUNTARY INVOLUNTARY   (CLOCK_THREAD_CPUTIME_ID and RUSAGE_THREAD; of the
 *                                              main thread since the byte came)
 *   slept NS                                  (by CLOCK_MONOTONIC, around the sleep)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
/* Longer than two polls of /proc, also on a full machine. */
#define BUSY_MS 250

static long long clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

struct counts {
	long long cpu_ns;
	long voluntary, involuntary;
};

static struct counts counts(void)
{
	struct rusage use;

	getrusage(RUSAGE_THREAD, &use);
	return (struct counts){ clock_ns(CLOCK_THREAD_CPUTIME_ID), use.ru_nvcsw, use.ru_nivcsw };
}

/* Of the main thread, before it was told to go. */
static struct counts before;

static void say_thread(void)
{
	struct counts now = counts();
	long tid = syscall(SYS_gettid);

	if (tid == getpid()) {
		now.cpu_ns -= before.cpu_ns;
		now.voluntary -= before.voluntary;
		now.involuntary -= before.involuntary;
	}
	dprintf(1, "thread %ld %lld %ld %ld\n", tid, now.cpu_ns, now.voluntary, now.involuntary);
}

static void busy(long ms)
{
	long long end = clock_ns(CLOCK_MONOTONIC) + ms * MS;

	while (clock_ns(CLOCK_MONOTONIC) < end)
		for (volatile int i = 0; i < 10000; i++)
			;
}

static void doze(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * MS };
	long long begin = clock_ns(CLOCK_MONOTONIC);

	nanosleep(&t, NULL);
	dprintf(1, "slept %lld\n", clock_ns(CLOCK_MONOTONIC) - begin);
}

static void *busy_thread(void *ms)
{
	busy((long)ms);
	say_thread();
	return NULL;
}

/* Busy, then a thread that does the same with one generation less, and so on. */
static void *generations(void *left)
{
	pthread_t next;

	busy(BUSY_MS);
	if ((long)left > 0) {
		pthread_create(&next, NULL, generations, (void *)((long)left - 1));
		pthread_join(next, NULL);
	}
	say_thread();
	return NULL;
}

static void *exec_thread(void *program)
{
	busy(BUSY_MS);
	execl(program, program, "--go", "sleep", "100", NULL);
	_exit(1);
}

static void ping_pong(long rounds)
{
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) || pipe(back))
		_exit(1);
	pid_t child = fork();

	for (long i = 0; i < rounds; i++) {
		int *from = child ? back : there, *to = child ? there : back;

		if (child && write(to[1], &byte, 1) != 1)
			_exit(1);
		if (read(from[0], &byte, 1) != 1)
			_exit(1);
		if (!child && write(to[1], &byte, 1) != 1)
			_exit(1);
	}
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	char byte;
	int at = 1;

	if (argc > at && !strcmp(argv[at], "--go"))
		at++;
	else if (read(0, &byte, 1) != 1)
		return 1;
	before = counts();
	const char *what = argc > at ? argv[at] : "";
	long n = argc > at + 1 ? atol(argv[at + 1]) : 0;
	long ms = argc > at + 2 ? atol(argv[at + 2]) : 0;

	if (!strcmp(what, "sleep")) {
		doze(n);
	} else if (!strcmp(what, "busy")) {
		pthread_t threads[64];

		for (long i = 0; i < n && i < 64; i++)
			pthread_create(&threads[i], NULL, busy_thread, (void *)ms);
		for (long i = 0; i < n && i < 64; i++)
			pthread_join(threads[i], NULL);
	} else if (!strcmp(what, "generations")) {
		generations((void *)n);
	} else if (!strcmp(what, "fork")) {
		pid_t child = fork();

		if (!child) {
			before = (struct counts){ 0 };
			generations((void *)n);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	} else if (!strcmp(what, "exec-by-thread")) {
		pthread_t thread;

		pthread_create(&thread, NULL, exec_thread, argv[0]);
		pthread_join(thread, NULL);
	} else if (!strcmp(what, "ping-pong")) {
		ping_pong(n);
	} else {
		return 1;
	}
	say_thread();
	return 0;
}
