/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The part of libgomp that the preload library needs, by POSIX threads alone: what they order, the thread sanitizer knows, and libgomp's
 * futexes it does not. Each region has new threads.
 */
#include <pthread.h>
#include <stdbool.h>

enum { MOST = 64 };

struct region {
	void (*work)(void *);
	void *data;
	int size, level;
};

struct member {
	struct region *region;
	int number;
};

static _Thread_local struct member me;

static void *share(void *member)
{
	me = *(struct member *)member;
	me.region->work(me.region->data);
	return NULL;
}

void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags)
{
	(void)flags;
	struct member before = me;
	struct region region = { work, data, threads ? threads : 4, before.region ? before.region->level + 1 : 1 };
	struct member members[MOST];
	pthread_t others[MOST];
	for (int i = 1; i < region.size; i++) {
		members[i] = (struct member){ &region, i };
		pthread_create(&others[i], NULL, share, &members[i]);
	}
	me = (struct member){ &region, 0 };
	work(data);
	for (int i = 1; i < region.size; i++)
		pthread_join(others[i], NULL);
	me = before;
}

/* Nobody waits here: barriers are the preload library's where tasks are. */
void GOMP_barrier(void)
{
}

int omp_get_thread_num(void)
{
	return me.number;
}

int omp_get_num_threads(void)
{
	return me.region ? me.region->size : 1;
}

int omp_get_max_threads(void)
{
	return 4;
}

int omp_get_level(void)
{
	return me.region ? me.region->level : 0;
}

int omp_get_max_active_levels(void)
{
	return 2;
}
