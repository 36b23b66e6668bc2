/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* How many iterations of `static` loops each thread executes. */
#include "check.h"

static void show(const int *counts)
{
	for (int thread = 0; thread < omp_get_max_threads(); thread++)
		printf("%s%d", thread ? " " : "", counts[thread]);
	puts("");
}

#define COUNT(type, first, last, condition, change, trips)                    \
	do {                                                                  \
		int counts[64] = { 0 };                                       \
		long last_seen = -1;                                          \
		_Pragma("omp parallel for schedule(static) lastprivate(last_seen)") \
		for (type i = first; i condition last; i change) {            \
			counts[omp_get_thread_num()]++;                       \
			last_seen = (long)i;                                  \
			hit(i condition last ? (long)(i > first ? i - first : first - i) / 3 : -1); \
		}                                                             \
		once("static", trips, 1);                                     \
		if (last_seen != (long)(first) + ((first) < (last) ? 3 : -3) * (trips - 1)) \
			fail("lastprivate", last_seen, trips);                \
		show(counts);                                                 \
	} while (0)

int main(void)
{
	COUNT(int, 0, 2700, <, += 3, 900);
	COUNT(unsigned long long, 3000, 300, >, -= 3, 900);
	COUNT(long, 27, 0, >, -= 3, 9);
	COUNT(unsigned, 4, 7, <, += 3, 1);
	return 0;
}
