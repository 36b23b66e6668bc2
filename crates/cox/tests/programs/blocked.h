/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What programs whose tasks block have in common. */
#ifndef BLOCKED_H
#define BLOCKED_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Tasks that block at the same time: more than any team here has threads. */
#define BLOCKED 12

static int done, begun;

static inline void too_long(int signal)
{
	(void)signal;
	_exit(3);
}

/* A program whose tasks wait for ever ends with 3. */
static inline void end_after(unsigned int seconds)
{
	signal(SIGALRM, too_long);
	alarm(seconds);
}

static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

static inline void one_done(void)
{
	__atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
}

static inline void for_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static inline void has_begun(void)
{
	__atomic_fetch_add(&begun, 1, __ATOMIC_RELEASE);
}

/* So many that are to block are about to: for the creator, before it makes the task that lets them go. */
static inline void wait_for_begun(int tasks)
{
	while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < tasks)
		for_ms(1);
}

static inline void get_byte(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		fail("read");
}

static inline void put_byte(int fd)
{
	if (write(fd, "x", 1) != 1)
		fail("write");
}

#endif
