/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Shared by the cases of the probe: sums of counters, and the kernel's own counts of the same thread. */
#ifndef PROBE_H
#define PROBE_H

#define _GNU_SOURCE
#include <cox_umt.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Far more than anything takes. */
#define PATIENCE_S 30

#define CHECK(what, ...)                                                                                               \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: not %s: ", __FILE__, __LINE__, #what);                                 \
			fprintf(stderr, " " __VA_ARGS__);                                                              \
			fprintf(stderr, "\n");                                                                         \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

/* What was read of a CPU in all; the last one of all. */
struct sums {
	long blocked, unblocked, lost;
};

extern int cpus;
/* Two CPUs that may be used; the same one if there is no other. */
extern int here, there;
extern struct sums sums[1025];

/* Adds up what has come on all CPUs. */
void read_all(void);

/* Registered threads that are ready, by what was added up: on a CPU, and on all. */
long ready_by_sums(int cpu);
long all_ready(void);

/* Voluntary and other switches of the calling thread. */
struct switches {
	long will, other;
};
struct switches switches(void);

void stay_on(int cpu);
void nap(void);
pthread_t start(void *(*work)(void *), void *argument);
void join(pthread_t thread);

/* Yields until a condition holds, which it does soon. */
#define AWAIT(what)                                                                                                    \
	for (time_t end_ = time(NULL) + PATIENCE_S; !(what); sched_yield())                                            \
	CHECK(time(NULL) < end_, "waiting for %s", #what)

/*
 * The same for what is so at once, or behind the calling thread's next switch: with bpf a thread may not be seen to come back, because switches away
 * from some service threads of a guest reach no tracepoint (ARCHITECTURE.md), and is then counted when it leaves. And the kernel lets a thread's joiner
 * go before it reports the thread's end.
 */
#define SETTLES(what, ...)                                                                                             \
	for (int tries_ = 0; !(what); nap())                                                                           \
	CHECK(tries_++ < (strcmp(cox_umt_backend(), "bpf") ? 0 : 20) || (what), " " __VA_ARGS__)

struct cases {
	const char *name;
	void (*run)(void);
};
extern const struct cases threads_cases[], descriptor_cases[];


#endif
