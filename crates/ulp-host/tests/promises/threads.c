/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads of a ULP run beside its main thread, which may be on a carrier. */
#include "promises.h"

#include <cox_ulp.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define THREADS 3
#define TURNS 15

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, turns, finished;
static __thread long in_tls = 5;

/* Takes its turns, one thread after another. */
static void *take_turns(void *argument)
{
	long own = (long)argument;
	CHECK(in_tls == 5 && getpid() == (pid_t)cox_ulp_pid(me) && syscall(SYS_gettid) != getpid());
	/* Only the main thread leaves its kernel task. */
	CHECK(cox_ulp_number() == me && cox_ulp_decouple() == -EPERM);
	in_tls = own;
	for (int i = 0; i < TURNS; i++) {
		errno = own;
		pthread_mutex_lock(&mutex);
		while (turn != own)
			pthread_cond_wait(&changed, &mutex);
		turn = (turn + 1) % (THREADS + 1);
		turns++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&mutex);
		cox_ulp_yield();
		CHECK(in_tls == own && errno == own);
	}
	__atomic_add_fetch(&finished, 1, __ATOMIC_RELEASE);
	return (void *)(100 + own);
}

void threads_beside(void)
{
	pthread_t threads[THREADS];
	void *result;
	in_tls = -1;
	for (long i = 0; i < THREADS; i++) {
		step();
		CHECK(pthread_create(&threads[i], NULL, take_turns, (void *)i) == 0);
	}
	/* The main thread is one of them, and yields while it has the mutex and while it has not. */
	for (int i = 0; i < TURNS; i++) {
		for (int is_done = 0; !is_done;) {
			step();
			pthread_mutex_lock(&mutex);
			step();
			is_done = turn == THREADS;
			if (is_done) {
				turn = 0;
				pthread_cond_broadcast(&changed);
			}
			pthread_mutex_unlock(&mutex);
		}
		CHECK(in_tls == -1);
	}
	while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < THREADS)
		step();
	CHECK(turns == THREADS * TURNS);
	for (long i = 0; i < THREADS; i++) {
		step();
		CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)(100 + i));
	}
	CHECK(in_tls == -1);
	meet();
}

static int cleaned, destroyed;
static pthread_key_t key;

static void clean(void *argument)
{
	cleaned += *(int *)argument;
}

static void destroy(void *argument)
{
	destroyed += *(int *)argument;
}

static void *wait_for_cancellation(void *argument)
{
	pthread_setspecific(key, argument);
	pthread_cleanup_push(clean, argument);
	__atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
	for (;;)
		sleep(60);
	pthread_cleanup_pop(0);
	return argument;
}

void threads_are_cancelled(void)
{
	int one = 1;
	void *result;
	pthread_t other;
	CHECK(pthread_key_create(&key, destroy) == 0);
	CHECK(pthread_create(&other, NULL, wait_for_cancellation, &one) == 0);
	while (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE))
		step();
	CHECK(pthread_cancel(other) == 0);
	step();
	CHECK(pthread_join(other, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1 && destroyed == 1);
	CHECK(pthread_getspecific(key) == NULL);
	meet();
}

static volatile sig_atomic_t arrived[2];
static __thread int is_main;

static void note(int signal)
{
	(void)signal;
	arrived[is_main]++;
}

/* Sends signals to the main thread, and changes what all threads must take over by a signal. */
static void *signal_main(void *main_thread)
{
	for (int i = 0; i < 5; i++) {
		CHECK(pthread_kill(*(pthread_t *)main_thread, SIGUSR1) == 0);
		while (arrived[1] <= i)
			sched_yield();
	}
	CHECK(setgid(getgid()) == 0);
	__atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
	while (arrived[0] < 1)
		sched_yield();
	return main_thread;
}

void threads_are_signalled(void)
{
	pthread_t main_thread = pthread_self(), other;
	void *result;
	struct sigaction action = {.sa_handler = note};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	is_main = 1;
	CHECK(pthread_create(&other, NULL, signal_main, &main_thread) == 0);
	while (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE))
		step();
	CHECK(pthread_kill(other, SIGUSR1) == 0);
	step();
	CHECK(pthread_join(other, &result) == 0 && result == &main_thread);
	CHECK(arrived[0] == 1 && arrived[1] == 5);
	meet();
}
