/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What every check of a promise needs. */
#ifndef PROMISE_H
#define PROMISE_H

#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int failures;

static void expect(bool kept, const char *what)
{
	if (!kept) {
#pragma omp atomic
		failures++;
		fprintf(stderr, "broken: %s\n", what);
	}
}

static void for_a_moment(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static int get(int *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void add(int *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

#endif
