/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tasks that block until a later task lets them go: with as many of them as threads, a runtime that does not notice
 * blocked threads never comes to the later one.
 *
 * Usage: blocked WHAT
 *
 * With PRIVATE_DATA it has thread-local data of its own, which alone changes what a runtime may do with it.
 *
 * Ends with 0 when all tasks have, with 3 when they do not within 10 s.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "blocked.h"

static void make_pairs(int (*pairs)[2], int count)
{
	for (int i = 0; i < count; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]))
			fail("socketpair");
}

/* Receives that nobody has sent to yet, all before the first send. */
static void receives(void)
{
	int pairs[BLOCKED][2];

	make_pairs(pairs, BLOCKED);
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i)
			{
				has_begun();
				get_byte(pairs[i][0]);
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i)
			{
				put_byte(pairs[i][1]);
				one_done();
			}
		}
	}
}

/* By the master alone, when the others have come to the region's end; null: nothing. */
static void in_one_region(int (*pairs)[2], void (*makes_tasks)(int (*)[2]))
{
#pragma omp parallel
#pragma omp master
	if (makes_tasks) {
		for_ms(20);
		makes_tasks(pairs);
	}
}

/* In a region that has had no tasks before, so that nobody stays at its end for them. */
static void in_region_without_tasks_before(void (*makes_tasks)(int (*)[2]))
{
	int pairs[BLOCKED][2];

	make_pairs(pairs, BLOCKED);
	for (int i = 0; i < 3; i++)
		in_one_region(pairs, NULL);
	in_one_region(pairs, makes_tasks);
}

static void receives_then_sends(int (*pairs)[2])
{
	for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i, pairs)
		{
			has_begun();
			get_byte(pairs[i][0]);
			one_done();
		}
	}
	wait_for_begun(BLOCKED);
	for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i, pairs)
		put_byte(pairs[i][1]);
	}
}

static void first_tasks(void)
{
	in_region_without_tasks_before(receives_then_sends);
}

/* A task that asks for its thread's number. */
static void send_and_ask(int to)
{
#pragma omp task firstprivate(to)
	{
		if (omp_get_thread_num() < 0)
			fail("omp_get_thread_num");
		put_byte(to);
	}
}

/* The only thread that has stayed waits for tasks that ask, itself and not in a task. */
static void waits_for_tasks_that_ask(int (*pairs)[2])
{
	for (int i = 0; i < BLOCKED; i++)
		send_and_ask(pairs[i][1]);
	for (int i = 0; i < BLOCKED; i++) {
		get_byte(pairs[i][0]);
		one_done();
		one_done();
	}
}

/* That they ask is found out while there are no other threads any more. */
static void first_tasks_ask(void)
{
	in_region_without_tasks_before(waits_for_tasks_that_ask);
}

/* … or is known from elsewhere. */
static void first_tasks_are_known_to_ask(void)
{
	int pair[1][2];

	make_pairs(pair, 1);
#pragma omp parallel
#pragma omp single
	send_and_ask(pair[0][1]);
	in_region_without_tasks_before(waits_for_tasks_that_ask);
}

/* Receives behind so many other tasks that their maker could do one itself, and never come to the send. */
static void late_sends(void)
{
	enum { OTHERS = 2000 };
	static char cells[OTHERS + 2 * BLOCKED];
	int pairs[BLOCKED][2];

	/* A place to depend on is no use to some compilers. */
	(void)cells;
	make_pairs(pairs, BLOCKED);
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < OTHERS; i++) {
#pragma omp task depend(out : cells[i])
			{
				volatile int work = 0;

				while (work < 20000)
					work++;
			}
		}
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task depend(out : cells[OTHERS + i]) firstprivate(i)
			{
				get_byte(pairs[i][0]);
				one_done();
			}
		}
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task depend(out : cells[OTHERS + BLOCKED + i]) firstprivate(i)
			{
				put_byte(pairs[i][1]);
				one_done();
			}
		}
	}
}

/* A pipe that is full until a later task reads. */
static void full_pipe(void)
{
	static char much[1 << 20];
	int pipes[2];

	if (pipe(pipes))
		fail("pipe");
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task
			{
				has_begun();
				if (write(pipes[1], much, sizeof(much)) != sizeof(much))
					fail("write");
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
#pragma omp task
		{
			char *room = malloc(sizeof(much));

			for (long left = (long)BLOCKED * (long)sizeof(much); left > 0;)
				left -= read(pipes[0], room, sizeof(much));
			free(room);
			one_done();
		}
	}
}

/* The one in the critical section sleeps, the others wait for the lock; a later task lets it go. */
static void critical(void)
{
	int pipes[2];

	if (pipe(pipes))
		fail("pipe");
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i)
			{
				has_begun();
#pragma omp critical
				get_byte(pipes[0]);
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
#pragma omp task
		for (int i = 0; i < BLOCKED; i++) {
			put_byte(pipes[1]);
			for_ms(1);
		}
	}
	done++;
}

/* A lock of the program's own, held by a task that is blocked. */
static void locks(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int pipes[2];

	if (pipe(pipes))
		fail("pipe");
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task
			{
				has_begun();
				pthread_mutex_lock(&lock);
				get_byte(pipes[0]);
				pthread_mutex_unlock(&lock);
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
#pragma omp task
		for (int i = 0; i < BLOCKED; i++)
			put_byte(pipes[1]);
	}
	done++;
}

/* A child that is waited for, and that a later task tells to end. */
static void children(void)
{
	int pipes[2];

	if (pipe(pipes))
		fail("pipe");
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task
			{
				pid_t child = fork();

				if (child)
					has_begun();
				if (child == 0) {
					close(pipes[1]);
					get_byte(pipes[0]);
					_exit(0);
				}
				if (waitpid(child, NULL, 0) != child)
					fail("waitpid");
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
#pragma omp task
		for (int i = 0; i < BLOCKED; i++)
			put_byte(pipes[1]);
	}
	done++;
}

/* A wait that is in a task within a task, in a taskgroup, and behind a dependence. */
static void nested(void)
{
	int pipes[2], x = 0;

	(void)x;
	if (pipe(pipes))
		fail("pipe");
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task shared(x)
#pragma omp taskgroup
			{
#pragma omp task shared(x) depend(out : x)
				{
					has_begun();
					get_byte(pipes[0]);
				}
#pragma omp task shared(x) depend(in : x)
				one_done();
			}
		}
		wait_for_begun(BLOCKED);
#pragma omp task
		for (int i = 0; i < BLOCKED; i++)
			put_byte(pipes[1]);
	}
}

/* No two tasks that run or are blocked have the same thread number, however many there are. */
static void numbers(void)
{
	static int used[64];
	int threads = 0, doubled = 0, strange = 0;

#pragma omp parallel
#pragma omp single
	{
		threads = omp_get_num_threads();
		for (int i = 0; i < 300; i++) {
#pragma omp task shared(doubled, strange)
			{
				for_ms(1); /* before it asks it may block as it likes */
				int me = omp_get_thread_num();

				if (me < 0 || me >= threads || omp_get_num_threads() != threads || omp_get_level() != 1 ||
				    omp_in_parallel() != (threads > 1) || omp_get_ancestor_thread_num(1) != me ||
				    omp_get_team_size(1) != threads || omp_get_active_level() != (threads > 1))
					__atomic_store_n(&strange, 1, __ATOMIC_RELAXED);
				if (__atomic_exchange_n(&used[me], 1, __ATOMIC_ACQ_REL))
					__atomic_store_n(&doubled, 1, __ATOMIC_RELAXED);
				for_ms(1);
				if (omp_get_thread_num() != me)
					__atomic_store_n(&strange, 1, __ATOMIC_RELAXED);
				__atomic_store_n(&used[me], 0, __ATOMIC_RELEASE);
			}
		}
	}
	if (doubled || strange) {
		fprintf(stderr, "numbers: doubled %d, strange %d\n", doubled, strange);
		exit(1);
	}
	done = 2 * BLOCKED;
}

/* A member's own number, asked for in its implicit task, is not given away while that runs; and is the same behind each wait. */
static void own_numbers(void)
{
	static int used[64];
	int wrong = 0;

#pragma omp parallel shared(wrong)
	{
		int me = omp_get_thread_num();

		for (int round = 0; round < 20; round++) {
			for (int i = 0; i < 6; i++) {
#pragma omp task shared(wrong)
				{
					int number = omp_get_thread_num();

					if (__atomic_exchange_n(&used[number], 1, __ATOMIC_ACQ_REL))
						__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
					for_ms(1);
					__atomic_store_n(&used[number], 0, __ATOMIC_RELEASE);
				}
			}
#pragma omp taskwait
			if (omp_get_thread_num() != me || __atomic_exchange_n(&used[me], 1, __ATOMIC_ACQ_REL))
				__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
			__atomic_store_n(&used[me], 0, __ATOMIC_RELEASE);
#pragma omp barrier
		}
	}
	if (wrong) {
		fprintf(stderr, "own numbers: wrong\n");
		exit(1);
	}
	done = 2 * BLOCKED;
}

/* A region in a task has one thread by default, whoever runs the task. */
static void regions(void)
{
	int most = 0;

	omp_set_max_active_levels(1);
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 40; i++) {
#pragma omp task shared(most)
		{
			for_ms(1);
#pragma omp parallel
#pragma omp critical
			if (omp_get_num_threads() > most)
				most = omp_get_num_threads();
		}
	}
	if (most != 1) {
		fprintf(stderr, "a region in a task has %d threads\n", most);
		exit(1);
	}
	done = 2 * BLOCKED;
}

/* Rounds of tasks that sleep, for as long as stdin is open; says so when the first has ended. */
static void until_told(void)
{
	long made = 0, ran = 0;

#pragma omp parallel
#pragma omp single
	{
		struct pollfd in = { .fd = 0, .events = POLLIN };

		do {
			for (int i = 0; i < 50; i++) {
#pragma omp task shared(ran)
				{
					for_ms(1);
					__atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
				}
			}
			made += 50;
#pragma omp taskwait
			if (made == 50) {
				printf("begun\n");
				fflush(stdout);
			}
		} while (poll(&in, 1, 0) == 0);
	}
	printf("%s\n", made == ran ? "all ran" : "some did not run");
	done = 2 * BLOCKED;
}

/* Threads block, again and again, and no task is ready. */
static void nothing_pending(void)
{
#pragma omp parallel
	for (int i = 0; i < 100; i++)
		for_ms(1);
	done = 2 * BLOCKED;
}

/* For those who only want to see the right answer. */
static void sums(void)
{
	long sum = 0;

#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 200; i++) {
#pragma omp task firstprivate(i) shared(sum)
		{
			for_ms(i % 3);
#pragma omp atomic
			sum += i;
		}
	}
	printf("%ld\n", sum);
	done = 2 * BLOCKED;
}

#ifdef PRIVATE_DATA
static int own;
#pragma omp threadprivate(own)

static void private_data(void)
{
	int wrong = 0;

#pragma omp parallel
	own = omp_get_thread_num() + 1;
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 100; i++) {
#pragma omp task shared(wrong)
		{
			for_ms(1);
			if (own != omp_get_thread_num() + 1)
				__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
		}
	}
	if (wrong) {
		fprintf(stderr, "threadprivate: another thread's\n");
		exit(1);
	}
	done = 2 * BLOCKED;
}
#endif

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*go)(void);
	} all[] = {
		{ "receives", receives }, { "full-pipe", full_pipe },	  { "critical", critical }, { "locks", locks },
		{ "children", children }, { "nested", nested },		  { "numbers", numbers },   { "own-numbers", own_numbers },
		{ "regions", regions },	  { "sums", sums },		  { "until-told", until_told },
		{ "nothing-pending", nothing_pending }, { "late-sends", late_sends },
		{ "first-tasks", first_tasks },
		{ "first-tasks-ask", first_tasks_ask },
		{ "first-tasks-known-to-ask", first_tasks_are_known_to_ask },
#ifdef PRIVATE_DATA
		{ "private-data", private_data },
#endif
	};

	end_after(argc > 2 ? (unsigned int)atoi(argv[2]) : 20);
	for (size_t i = 0; argc >= 2 && i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(argv[1], all[i].name)) {
			all[i].go();
			return done >= BLOCKED ? 0 : 4;
		}
	}
	fprintf(stderr, "usage: blocked WHAT [SECONDS]\n");
	return 2;
}
