/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program that lacks something: what its tasks compute is the same nonetheless.
 *
 * Usage: lacking WHAT [NUMBER]
 *
 *   threads N       the preload library can make N threads and no more
 *   memory N        it gets no memory of less than N bytes, 0: of any size, while tasks are made and block
 *   mapping         it can map nothing
 *   descriptors N   there are N descriptors left before the first region
 *   closes          all descriptors but the first three are closed between regions
 *   forks N         N children are forked by a thread of its own while tasks run; each runs tasks of its own
 *   task-forks N    tasks fork N children, each of which goes on with tasks where it is
 *
 * It stands in for the C library where the preload library calls: built with -rdynamic, it comes first. Writes "right" and ends with 0;
 * with 3 when it does not end in time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "blocked.h"

/* Descriptors that a program may have here. */
#define LIMIT 256

static bool lacks_mapping, lacks_threads;
/* It gets nothing that is smaller. */
static size_t lacks_below;
static int threads_left;
static int refused;

/* Whether code at this address is the preload library's. */
static bool is_guest(void *code)
{
	Dl_info object;

	return dladdr(code, &object) && strstr(object.dli_fname, "libcox_preload.so");
}

static bool refuses(bool lacks, void *code)
{
	bool no = lacks && is_guest(code);

	if (no)
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
	return no;
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes)
{
	return refuses(bytes < lacks_below, __builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return refuses(count * bytes < lacks_below, __builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
	return refuses(bytes < lacks_below, __builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}

int posix_memalign(void **place, size_t align, size_t bytes)
{
	*place = refuses(bytes < lacks_below, __builtin_return_address(0)) ? NULL : __libc_memalign(align, bytes);
	return *place ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	if (refuses(lacks_mapping, __builtin_return_address(0))) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, bytes, access, flags, fd, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *argument)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (lacks_threads && is_guest(__builtin_return_address(0)) &&
	    __atomic_fetch_sub(&threads_left, 1, __ATOMIC_ACQ_REL) <= 0)
		return EAGAIN;
	if (!real)
		real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, how, work, argument);
}

/* Tasks that block and compute, in tasks and in loops, with data that fits a task's block and data that does not. */
static bool is_right(int tasks)
{
	long sum = 0, items = 0;
	char wide[900];

	memset(wide, 1, sizeof(wide));
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < tasks; i++) {
#pragma omp task firstprivate(i) shared(sum)
			{
				if (i % 8 == 0)
					for_ms(1);
#pragma omp atomic
				sum += i;
			}
#pragma omp task firstprivate(wide) shared(items)
			{
#pragma omp atomic
				items += wide[899];
			}
		}
#pragma omp taskloop num_tasks(20) shared(items)
		for (int i = 0; i < 100; i++) {
#pragma omp atomic
			items++;
		}
	}
	return sum == (long)tasks * (tasks - 1) / 2 && items == tasks + 100;
}

static void expect_right(const char *where)
{
	if (!is_right(100)) {
		printf("wrong: %s\n", where);
		exit(1);
	}
}

static int pipes[2];

/* Not a thread of OpenMP's. By when it writes is of no account. */
static void *let_go(void *unused)
{
	for_ms(50);
	for (int i = 0; i < BLOCKED; i++)
		put_byte(pipes[1]);
	return unused;
}

/* So many blocked tasks at a time that new standbys are wanted. */
static void block_many(void)
{
	pthread_t thread;

	if (pipe(pipes) || pthread_create(&thread, NULL, let_go, NULL))
		fail("pipe");
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < BLOCKED; i++) {
#pragma omp task
		get_byte(pipes[0]);
	}
	pthread_join(thread, NULL);
}

/* Leaves so many descriptors. */
static void leave_descriptors(int left)
{
	struct rlimit limit = { .rlim_cur = LIMIT, .rlim_max = LIMIT };
	int fd;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("setrlimit");
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		;
	for (fd = LIMIT - 1; left > 0; left--)
		close(fd--);
}

static long ms_between(const struct timespec *from, const struct timespec *to)
{
	return (to->tv_sec - from->tv_sec) * 1000 + (to->tv_nsec - from->tv_nsec) / 1000000;
}

/* Standbys are at work, parked and rung while it happens. */
static void closing(void)
{
	for (int round = 0; round < 5; round++)
		expect_right("before");
	close_range(3, ~0u, 0);
	for (int round = 0; round < 5; round++)
		expect_right("behind");
	/* Nobody waits in a loop for what will not come: that would take a whole CPU, all the while. */
	struct timespec before, behind;
	struct timespec begun, over;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	for_ms(400);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &behind);
	clock_gettime(CLOCK_MONOTONIC, &over);
	if (2 * ms_between(&before, &behind) > ms_between(&begun, &over)) {
		printf("wrong: threads run, though there is nothing to do\n");
		exit(1);
	}
}

/* Descriptors with numbers that a program may count on for its own. */
static int low_descriptors(void)
{
	int count = 0;

	for (int fd = 3; fd < 900; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int children_wrong, keeps_forking = 1;

/* A thread that libgomp does not know: its children may have regions. */
static void *forking(void *count)
{
	for (int i = 0; i < *(int *)count; i++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			end_after(5);
			_exit(!is_right(10));
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			children_wrong++;
	}
	__atomic_store_n(&keeps_forking, 0, __ATOMIC_RELEASE);
	return NULL;
}

static void forks(int count)
{
	pthread_t thread;

	expect_right("before");
	pthread_create(&thread, NULL, forking, &count);
	while (__atomic_load_n(&keeps_forking, __ATOMIC_ACQUIRE))
		expect_right("beside forks");
	pthread_join(thread, NULL);
	if (children_wrong) {
		printf("wrong: %d of %d children\n", children_wrong, count);
		exit(1);
	}
}

/* A child has the queues of its parent's team, but not to write to. */
static void task_forks(int count)
{
	int done = 0, others = 0;

#pragma omp parallel
#pragma omp single
	for (int i = 0; i < count; i++) {
#pragma omp task shared(done)
		{
			pid_t child = fork();
			int status, sum = 0;

			if (child == 0)
				end_after(5);
			for (int k = 0; k < 100; k++) {
#pragma omp task shared(sum)
				{
#pragma omp atomic
					sum++;
				}
			}
#pragma omp taskwait
			if (child == 0)
				_exit(sum != 100);
			if (child > 0 && sum == 100 && waitpid(child, &status, 0) == child && status == 0) {
#pragma omp atomic
				done++;
			}
		}
#pragma omp task shared(others)
		{
#pragma omp atomic
			others++;
		}
	}
	if (done != count || others != count) {
		printf("wrong: %d and %d of %d\n", done, others, count);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 0;

	end_after(60);
	int low = low_descriptors();
	if (!strcmp(what, "threads")) {
		lacks_threads = true;
		threads_left = number;
		block_many();
		close(pipes[0]);
		close(pipes[1]);
	} else if (!strcmp(what, "mapping")) {
		lacks_mapping = true;
	} else if (!strcmp(what, "descriptors")) {
		leave_descriptors(number);
	} else if (!strcmp(what, "memory")) {
		/* Teams and threads are there, and few tasks. */
		if (!is_right(1))
			return 1;
		lacks_below = number ? (size_t)number : SIZE_MAX;
		block_many();
		if (!is_right(4000)) {
			printf("wrong: without memory\n");
			return 1;
		}
		lacks_below = 0;
		if (!refused) {
			printf("wrong: no memory was asked for\n");
			return 1;
		}
	} else if (!strcmp(what, "closes")) {
		closing();
	} else if (!strcmp(what, "forks")) {
		forks(number);
	} else if (!strcmp(what, "task-forks")) {
		task_forks(number);
	} else {
		return 2;
	}
	expect_right(what);
	if (lacks_mapping && !refused) {
		printf("wrong: nothing was mapped\n");
		return 1;
	}
	if (!strcmp(what, "threads")) {
		/* A thread that begins may have one for a moment. */
		for (int i = 0; i < 100 && low_descriptors() != low; i++)
			usleep(10000);
		if (low_descriptors() != low) {
			printf("wrong: descriptors have low numbers\n");
			return 1;
		}
	}
	printf("right\n");
	return 0;
}
