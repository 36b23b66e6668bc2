/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Signal handlers, masks, stacks for handlers and timers are a ULP's own; a signal reaches only the one that it is for. */
#include "promises.h"

#include <cox_ulp.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t arrived, arrived_of[65], sender, value, other_handler, in_stack;
static char *stack;
static size_t stack_bytes;

static void note(int signal, siginfo_t *info, void *context)
{
	(void)context;
	char here;
	sender = info->si_pid;
	value = info->si_value.sival_int;
	in_stack = &here >= stack && &here < stack + stack_bytes;
	arrived_of[signal]++;
	arrived++;
}

static void note_other(int signal)
{
	(void)signal;
	other_handler++;
}

static void handle(int signal, int flags)
{
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | flags};
	CHECK(sigaction(signal, &action, NULL) == 0);
}

/* Makes a stack for handlers. */
static void take_stack(void)
{
	stack_bytes = 65536 + 4096 * me;
	stack = malloc(stack_bytes);
	stack_t own = {.ss_sp = stack, .ss_size = stack_bytes};
	CHECK(stack && sigaltstack(&own, NULL) == 0);
}

void own_handlers(void)
{
	struct sigaction action;
	stack_t set;
	pid_t pid = getpid();
	/* Three ways to treat the same signal. */
	if (me % 3 == 0)
		handle(SIGUSR1, SA_ONSTACK);
	else
		signal(SIGUSR1, me % 3 == 1 ? note_other : SIG_IGN);
	take_stack();
	meet();
	for (int i = 1; i <= 10; i++) {
		step();
		CHECK(kill(pid, SIGUSR1) == 0);
		CHECK(arrived == (me % 3 == 0 ? i : 0) && other_handler == (me % 3 == 1 ? i : 0));
		CHECK(me % 3 != 0 || (sender == pid && in_stack));
	}
	meet();
	CHECK(sigaction(SIGUSR1, NULL, &action) == 0);
	if (me % 3 == 0)
		CHECK(action.sa_sigaction == note && action.sa_flags & SA_ONSTACK);
	else
		CHECK(action.sa_handler == (me % 3 == 1 ? note_other : SIG_IGN));
	step();
	CHECK(sigaltstack(NULL, &set) == 0 && set.ss_sp == stack && set.ss_size == stack_bytes && set.ss_flags == 0);
	/* A handler for one signal. */
	action.sa_handler = note_other;
	action.sa_flags = SA_RESETHAND;
	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
	int before = other_handler;
	step();
	CHECK(raise(SIGUSR2) == 0 && other_handler == before + 1);
	CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
}

void own_masks(void)
{
	sigset_t set, now, before;
	pid_t pid = getpid();
	int blocked = me % 2 ? SIGUSR1 : SIGUSR2, open = me % 2 ? SIGUSR2 : SIGUSR1;
	handle(SIGUSR1, 0);
	handle(SIGUSR2, 0);
	sigemptyset(&set);
	sigaddset(&set, blocked);
	CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, blocked));
	meet();
	for (int i = 1; i <= 5; i++) {
		step();
		CHECK(kill(pid, blocked) == 0);
		step();
		CHECK(arrived == i - 1 && kill(pid, open) == 0 && arrived == i);
	}
	/* Several became one, which waits. */
	CHECK(sigpending(&now) == 0 && sigismember(&now, blocked) && !sigismember(&now, open));
	step();
	CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, blocked) && !sigismember(&now, open));
	/* It is taken without its handler. */
	siginfo_t info;
	step();
	CHECK(sigwaitinfo(&set, &info) == blocked && info.si_pid == pid && arrived == 5);
	CHECK(kill(pid, blocked) == 0);
	step();
	CHECK(arrived == 5 && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && arrived == 6);
	/* Another ULP sends both while this one only yields: the open one must not let the blocked one in. */
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	int before_open = arrived_of[open], before_blocked = arrived_of[blocked];
	meet();
	pid_t next = cox_ulp_pid((me + 1) % count);
	CHECK(kill(next, SIGUSR1) == 0 && kill(next, SIGUSR2) == 0);
	while (arrived_of[open] == before_open)
		step();
	meet();
	CHECK(arrived_of[open] == before_open + 1 && arrived_of[blocked] == before_blocked);
	CHECK(sigwaitinfo(&set, &info) == blocked && info.si_pid == cox_ulp_pid((me + count - 1) % count));
	struct timespec soon = {.tv_nsec = 1000000};
	step();
	CHECK(sigtimedwait(&set, &info, &soon) == -1 && errno == EAGAIN);
	meet();
}

void own_timers(void)
{
	struct itimerval interval = {{0, 2000}, {0, 1000 + 1000 * me}}, none = {{0, 0}, {0, 0}}, now;
	/* Only one in two has an alarm. */
	alarm(me % 2 ? 60 + me : 0);
	meet();
	int left = alarm(0);
	CHECK(me % 2 ? left > 30 && left <= 60 + me : left == 0);
	handle(SIGALRM, SA_RESTART);
	handle(SIGRTMIN, SA_RESTART);
	/* ULP 0 has no timer: its signals are nobody else's. */
	if (me)
		CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
	meet();
	while (me && arrived < 4)
		step();
	step();
	CHECK(getitimer(ITIMER_REAL, &now) == 0 && now.it_interval.tv_usec == (me ? 2000 : 0));
	CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
	meet();
	CHECK(me || arrived == 0);
	arrived = 0;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 100 + me};
	struct itimerspec once = {{0, 0}, {0, 2000000}};
	timer_t timer;
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &once, NULL) == 0);
	while (!arrived)
		step();
	CHECK(arrived == 1 && value == 100 + me && timer_delete(timer) == 0);
	/* A timer interrupts a call that waits. It comes again, for the first time may be too early. */
	struct timespec minute = {60, 0}, rest;
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &interval, NULL) == 0);
	step();
	CHECK(nanosleep(&minute, &rest) == -1 && errno == EINTR && rest.tv_sec > 30 && arrived >= 2);
	CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
}

void signals_reach_one(void)
{
	int before = (me + count - 1) % count, next = (me + 1) % count;
	handle(SIGRTMIN + 1, 0);
	meet();
	/* Each sends the next one as many as its number says. They are queued, so that none is lost. */
	for (int i = 0; i <= me; i++) {
		step();
		CHECK(sigqueue(cox_ulp_pid(next), SIGRTMIN + 1, (union sigval){.sival_int = me}) == 0);
	}
	while (arrived <= before)
		step();
	meet();
	CHECK(arrived == before + 1 && value == before && sender == cox_ulp_pid(before));
	meet();
}

void signals_while_computing(void)
{
	static volatile int ready;
	give("ready", (void *)&ready);
	volatile int *is_ready = of(1, "ready");
	handle(SIGUSR1, SA_ONSTACK);
	take_stack();
	meet();
	if (me == 0) {
		while (!*is_ready)
			step();
		CHECK(kill(cox_ulp_pid(1), SIGUSR1) == 0);
	}
	if (me == 1) {
		step();
		ready = 1;
		/* Neither a yield nor a system call. */
		while (!arrived)
			;
		CHECK(in_stack && arrived == 1);
	}
	meet();
	CHECK(arrived == (me == 1));
}
