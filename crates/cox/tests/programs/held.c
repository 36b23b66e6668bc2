/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tasks held by what the kernel waits for: files and mapped pages of a slow disk, sleep; and many at a time.
 *
 * Usage: held WHAT SECONDS [FOLDER|TASKS]
 *
 * As in blocked.c, later tasks let them go. Ends with 0 when all tasks have, with 3 when they do not in time, with 77 where the
 * system has no such thing.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>

#include "blocked.h"
#include "served.h"

/* How a task comes by the bytes of a file. */
typedef char (*reader)(int fd);

static char by_reading(int fd)
{
	char page[SERVED_BYTES];

	if (pread(fd, page, sizeof(page), 0) != sizeof(page))
		too_long(0); /* its disk has ended before it was let go */
	return page[SERVED_BYTES - 1];
}

static char by_mapping(int fd)
{
	volatile char *page = mmap(NULL, SERVED_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		fail("mmap");
	return page[SERVED_BYTES / 2];
}

/* Files that the disk gives when a later task has it do so. */
static void files(reader bytes_of, const char *folder, unsigned int seconds)
{
	struct served served = served_at(folder, seconds);
	int fds[BLOCKED], wrong = 0;

	for (int i = 0; i < BLOCKED; i++)
		fds[i] = served_file(folder, i);
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i) shared(wrong)
			{
				has_begun();
				if (bytes_of(fds[i]) != served_byte(i))
					__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task
			put_byte(served.let_go);
		}
	}
	served_no_more(&served, folder);
	if (wrong) {
		fprintf(stderr, "files: not what is in them\n");
		exit(1);
	}
}

static void wake_up(int signal)
{
	(void)signal;
}

/* Sleeps that end when a later task ends them. */
static void sleeps(void)
{
	static pthread_t sleeper[BLOCKED];
	static int awake[BLOCKED];
	struct sigaction action = { .sa_handler = wake_up };

	sigaction(SIGUSR1, &action, NULL);
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i)
			{
				sleeper[i] = pthread_self();
				has_begun();
				for_ms(1000000);
				__atomic_store_n(&awake[i], 1, __ATOMIC_RELEASE);
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i)
			/* Again and again: it may not have slept yet. */
			while (!__atomic_load_n(&awake[i], __ATOMIC_ACQUIRE)) {
				pthread_kill(sleeper[i], SIGUSR1);
				for_ms(1);
			}
		}
	}
}

static int pipes[2];
static int enough;

/* Not a thread of OpenMP's: it waits for nobody's CPU. */
static void *release(void *tasks)
{
	wait_for_begun(enough);
	for (long i = 0; i < *(long *)tasks; i++)
		put_byte(pipes[1]);
	return NULL;
}

/* Many that block at a time: as soon as `enough` do, all are let go, whoever is left. */
static void many(long tasks)
{
	pthread_t thread;

	if (pipe(pipes) || pthread_create(&thread, NULL, release, &tasks))
		fail("pipe");
#pragma omp parallel
#pragma omp single
	for (long i = 0; i < tasks; i++) {
#pragma omp task
		{
			has_begun();
			get_byte(pipes[0]);
			one_done();
		}
	}
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	unsigned int seconds = (unsigned int)atoi(argv[2]);
	const char *what = argv[1], *where = argc > 3 ? argv[3] : "";

	end_after(seconds);
	/* The same for a page: who waits for one takes no signal before. */
	signal(SIGBUS, too_long);
	if (!strcmp(what, "reads")) {
		files(by_reading, where, seconds);
	} else if (!strcmp(what, "faults")) {
		files(by_mapping, where, seconds);
	} else if (!strcmp(what, "sleeps")) {
		sleeps();
	} else if (!strcmp(what, "many") && argc > 4) {
		enough = atoi(argv[4]);
		many(atol(where));
		return done == atol(where) ? 0 : 4;
	} else {
		return 2;
	}
	return done == BLOCKED ? 0 : 4;
}
