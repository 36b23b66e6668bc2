/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts how often each iteration is executed. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096

static unsigned char hits[MOST];

static void fail(const char *what, long a, long b)
{
	printf("%s: %ld, not %ld\n", what, a, b);
	exit(1);
}

static void hit(long at)
{
	if (at < 0 || at >= MOST)
		fail("an iteration is outside the loop", at, MOST);
	__atomic_fetch_add(&hits[at], 1, __ATOMIC_RELAXED);
}

/* Each of the first `count` was executed `times` times, and no other. */
static void once(const char *what, long count, int times)
{
	for (long at = 0; at < MOST; at++)
		if (hits[at] != (at < count ? times : 0)) {
			printf("iteration %ld: ", at);
			fail(what, hits[at], at < count ? times : 0);
		}
	memset(hits, 0, sizeof(hits));
}
