/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ULP 1 ends in different ways. The others learn how, and stay as they are. */
#include "promises.h"

#include <cox_ulp.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int variable;

/* Lets ULP 1 end, and checks how it has ended: exit code, or minus the number of a signal. */
static void ends_alone(void (*how)(void), int end)
{
	int status;
	variable = me;
	meet();
	for (int i = 0; i < 3; i++)
		step();
	if (me == 1) {
		how();
		CHECK(!"the end");
	}
	if (me == 0 && end == -SIGKILL)
		CHECK(kill(cox_ulp_pid(1), SIGKILL) == 0);
	CHECK(cox_ulp_wait(1, &status) == 0);
	CHECK(end < 0 ? WIFSIGNALED(status) && WTERMSIG(status) == -end : WIFEXITED(status) && WEXITSTATUS(status) == end);
	for (int i = 0; i < 3; i++)
		step();
	CHECK(variable == me && cox_ulp_number() == me && cox_ulp_pid(1) == -ESRCH);
}

static void last_handler(void)
{
	step();
	CHECK(variable == 102);
	say_ok();
}

static void first_handler(void)
{
	CHECK(variable == 1);
	step();
	variable = 102;
}

static void exit_with_handlers(void)
{
	/* The last one that is registered is called first. */
	CHECK(atexit(last_handler) == 0 && atexit(first_handler) == 0);
	below(20, exit, 200);
}

void exit_from_below(void)
{
	ends_alone(exit_with_handlers, 200);
}

static void exit_without_handlers(void)
{
	CHECK(atexit(abort) == 0);
	/* The half of the line in the buffer is lost. */
	dprintf(1, "1 ok\n");
	step();
	_exit(3);
}

void exit_at_once(void)
{
	ends_alone(exit_without_handlers, 3);
}

static void *exit_soon(void *code)
{
	usleep(2000);
	say_ok();
	exit((int)(long)code);
}

static void yield_on(void)
{
	for (;;)
		step();
}

static void yield_beside_exit(void)
{
	pthread_t other;
	CHECK(pthread_create(&other, NULL, exit_soon, (void *)6) == 0);
	yield_on();
}

void exit_in_thread(void)
{
	ends_alone(yield_beside_exit, 6);
}

static void leave_others_behind(void)
{
	pthread_t other;
	CHECK(pthread_create(&other, NULL, exit_soon, (void *)5) == 0);
	step();
	pthread_exit(NULL);
}

void main_thread_first(void)
{
	ends_alone(leave_others_behind, 5);
}

static void execute_shell(void)
{
	execl("/bin/sh", "sh", "-c", "echo $RANK ok; exit 9", (char *)NULL);
}

void execute(void)
{
	ends_alone(execute_shell, 9);
}

void abort_alone(void)
{
	ends_alone(abort, -SIGABRT);
}

static void fault(void)
{
	*(volatile int *)8 = 1;
}

void fault_alone(void)
{
	ends_alone(fault, -SIGSEGV);
}

void killed_alone(void)
{
	/* Another ULP kills it. */
	ends_alone(yield_on, -SIGKILL);
}
