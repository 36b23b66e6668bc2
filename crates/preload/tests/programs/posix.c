/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * posix THREADS ROUNDS: threads meet at a pthread barrier; then the number of the next descriptor, and what
 * the library has counted. With "fork", a child does so too, and both say what has become of the descriptor that may be
 * kept; with "reuse" the program has put its own there. With "poor", no descriptor can be had.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "look.h"

static pthread_barrier_t barrier;
static int rounds, last;

static void *meet(void *unused)
{
	(void)unused;
	errno = 77;
	for (int i = 0; i < rounds; i++)
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	if (errno != 77)
		abort();
	return NULL;
}

static void meet_all(int count)
{
	pthread_t *threads = calloc(count, sizeof *threads);
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	pthread_barrier_init(&barrier, NULL, count);
	last = 0;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], &attributes, meet, NULL) != 0)
			abort();
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("met %d\n", last);
	free(threads);
}

/* -1: there is none; FD_CLOEXEC, 1: the library's; 0: the program's own. */
static void tell_kept(void)
{
	printf("kept %d\n", fcntl(COX_PRELOAD_KEPT_FROM, F_GETFD));
}

int main(int argc, char **argv)
{
	int count = atoi(argv[1]);
	rounds = atoi(argv[2]);
	int poor = argc > 3 && strcmp(argv[3], "poor") == 0;
	if (poor)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3});
	meet_all(count);
	int next = dup(0);
	printf("next %d\n", next);
	close(next);
	tell();
	fflush(stdout);
	if (argc > 3 && !poor) {
		/* The main thread has a slot of its parent's when it forks. */
		pthread_barrier_init(&barrier, NULL, 1);
		pthread_barrier_wait(&barrier);
		if (strcmp(argv[3], "reuse") == 0)
			dup2(0, COX_PRELOAD_KEPT_FROM);
		if (fork() == 0) {
			tell();
			tell_kept();
			meet_all(count);
			tell();
			tell_kept();
			return 0;
		}
		int status;
		wait(&status);
		tell();
		tell_kept();
		return status != 0;
	}
	return 0;
}
