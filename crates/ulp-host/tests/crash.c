/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Crashes in functions with names. Usage: crash MODE HOW. MODE: decoupled (goes to a carrier before it crashes), or coupled. */
#include <cox_ulp.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Functions stay as they are written: none is inlined, and no call is a jump. */
#define PLAIN __attribute__((noipa, optimize("no-optimize-sibling-calls")))

extern char **environ;
static volatile int *volatile nowhere = (volatile int *)0x10;
static void (*volatile no_function)(void);
static volatile int zero;
static const char *how;

PLAIN static void write_nowhere(void)
{
	*nowhere = 1;
}

PLAIN static void call_nowhere(void)
{
	no_function();
}

PLAIN static int divide(int number)
{
	return number / zero;
}

PLAIN static void give_up(void)
{
	abort();
}

PLAIN static int recurse(volatile char *before)
{
	volatile char here[256];
	here[0] = *before;
	return how ? recurse(here) + here[0] : 0;
}

PLAIN static void *in_thread(void *argument)
{
	write_nowhere();
	return argument;
}

PLAIN static void on_signal(int signal)
{
	(void)signal;
	write_nowhere();
}

PLAIN static void on_fault(int signal)
{
	(void)signal;
	write(1, "handled\n", 8);
	_exit(3);
}

/* Its frame begins at an address that only a register and the stack know (DW_CFA_def_cfa_expression). */
PLAIN static void realigned(void)
{
	volatile char aligned[64] __attribute__((aligned(64))) = {0};
	write_nowhere();
	zero = aligned[0];
}

PLAIN static void wait_for_signal(void)
{
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		pause();
}

PLAIN static void yield_for_ever(void)
{
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;) {
		/* The output was written at home. */
		cox_ulp_decouple();
		if (!strcmp(how, "suspended"))
			cox_ulp_suspend();
		cox_ulp_yield();
	}
}

/* Most of the time, it is in code that the kernel maps into each process. */
PLAIN static void look_at_clock(void)
{
	struct timespec now;
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

static int status_of(pid_t child)
{
	int status = 0;
	waitpid(child, &status, 0);
	return WTERMSIG(status);
}

PLAIN static void crash(void)
{
	if (!strcmp(how, "null"))
		write_nowhere();
	if (!strcmp(how, "call"))
		call_nowhere();
	if (!strcmp(how, "divide"))
		zero = divide(7);
	if (!strcmp(how, "abort"))
		give_up();
	if (!strcmp(how, "overflow"))
		zero = recurse((volatile char *)how);
	if (!strcmp(how, "realigned"))
		realigned();
	if (!strcmp(how, "raise"))
		raise(SIGSEGV);
	if (!strcmp(how, "wait"))
		wait_for_signal();
	if (!strcmp(how, "clock"))
		look_at_clock();
	if (!strcmp(how, "yield") || !strcmp(how, "suspended"))
		yield_for_ever();
	if (!strcmp(how, "handler")) {
		signal(SIGUSR1, on_signal);
		raise(SIGUSR1);
	}
	if (!strcmp(how, "own")) {
		signal(SIGSEGV, on_fault);
		write_nowhere();
	}
	if (!strcmp(how, "blocked")) {
		sigset_t aborts;
		sigemptyset(&aborts);
		sigaddset(&aborts, SIGABRT);
		sigprocmask(SIG_BLOCK, &aborts, NULL);
		raise(SIGABRT);
		sigemptyset(&aborts);
		sigsuspend(&aborts);
	}
	if (!strcmp(how, "ignored"))
		raise(SIGABRT);
	if (!strcmp(how, "thread")) {
		pthread_t thread;
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	}
	if (!strcmp(how, "fork")) {
		pid_t child = fork();
		if (child == 0)
			write_nowhere();
		printf("%d\n", status_of(child));
	}
	if (!strcmp(how, "vfork")) {
		pid_t child = vfork();
		if (child == 0)
			write_nowhere();
		printf("%d\n", status_of(child));
		fflush(stdout);
		/* The crash of a child is not that of its parent. */
		give_up();
	}
	if (!strcmp(how, "execute"))
		execl("/bin/sh", "sh", "-c", "kill -SEGV $$", (char *)NULL);
	if (!strcmp(how, "spawn")) {
		char *const words[] = {"crash", "coupled", "null", NULL};
		int status = 0, number = cox_ulp_spawn(getenv("PROGRAM"), words, environ);
		cox_ulp_wait(number, &status);
		printf("%d\n", WTERMSIG(status));
	}
}

int main(int count, char **words)
{
	if (count < 3)
		return 2;
	how = words[2];
	if (!strcmp(words[1], "decoupled")) {
		cox_ulp_decouple();
		cox_ulp_yield();
	}
	crash();
	return 0;
}
