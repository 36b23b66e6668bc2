/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One promise of cox ulp at a time. Usage: promises MODE PROMISE; promises list
 *
 * MODE: decoupled (each step is on a carrier), or another word (as cox decides). Prints the number of the ULP and "ok", or what is wrong. `list` prints the
 * names of all promises, and how ULP 1 ends; the others end with 0.
 */
#include "promises.h"

#include <cox_ulp.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int me, count;
char **words;
static int decouples;
static pid_t host;
static struct cox_ulp_barrier barrier, *shared_barrier;

static const struct promise {
	const char *name;
	void (*keep)(void);
	/* How ULP 1 ends: exit code, or minus the number of a signal. */
	int end;
} promises[] = {
	{"own_variables", own_variables, 0},
	{"own_stdio", own_stdio, 0},
	{"own_words", own_words, 0},
	{"own_program", own_program, 0},
#ifndef STATIC
	{"own_library", own_library, 0},
#endif
	{"own_identity", own_identity, 0},
	{"own_descriptors", own_descriptors, 0},
	{"own_folder", own_folder, 0},
	{"own_handlers", own_handlers, 0},
	{"own_masks", own_masks, 0},
	{"own_timers", own_timers, 0},
	{"signals_reach_one", signals_reach_one, 0},
	{"signals_while_computing", signals_while_computing, 0},
	{"fork_and_wait", fork_and_wait, 0},
	{"commands", commands, 0},
	{"spawn_and_vfork", spawn_and_vfork, 0},
	{"exit_from_below", exit_from_below, 200},
	{"exit_at_once", exit_at_once, 3},
	{"exit_in_thread", exit_in_thread, 6},
	{"main_thread_first", main_thread_first, 5},
	{"execute", execute, 9},
	{"abort_alone", abort_alone, -SIGABRT},
	{"fault_alone", fault_alone, -SIGSEGV},
	{"killed_alone", killed_alone, -SIGKILL},
	{"threads_beside", threads_beside, 0},
	{"threads_are_cancelled", threads_are_cancelled, 0},
	{"threads_are_signalled", threads_are_signalled, 0},
	{"rounding", rounding, 0},
	{"long_computation", long_computation, 0},
	{"jumps", jumps, 0},
	{"jumps_from_handlers", jumps_from_handlers, 0},
#ifdef __GLIBC__
	/* musl has no swapcontext(). */
	{"stacks", stacks, 0},
#endif
	{"own_mappings", own_mappings, 0},
	{"own_heap", own_heap, 0},
	{"own_faults", own_faults, 0},
};

#define PROMISES (sizeof promises / sizeof *promises)

void fail(const char *file, int line, const char *what)
{
	dprintf(1, "%d: %s:%d: %s\n", me, file, line, what);
	/* The host passes it on to all. */
	kill(host, SIGTERM);
	_exit(1);
}

void step(void)
{
	if (decouples) {
		CHECK(cox_ulp_decouple() == 0);
		cox_ulp_yield();
		return;
	}
	/* Left to itself, cox moves those that yield several times without a system call. */
	for (int i = 0; i < 8; i++)
		cox_ulp_yield();
}

void meet(void)
{
	step();
	cox_ulp_barrier_wait(shared_barrier);
	step();
}

void give(const char *name, void *address)
{
	CHECK(cox_ulp_export(name, address) == 0);
}

void *of(int other, const char *name)
{
	void *address;
	CHECK(cox_ulp_import(other, name, &address) == 0);
	return address;
}

void below(int depth, void (*leaf)(int), int value)
{
	char frame[256];
	memset(frame, depth, sizeof frame);
	step();
	if (depth > 0)
		below(depth - 1, leaf, value);
	else
		leaf(value);
	CHECK(frame[0] == depth);
}

void say_ok(void)
{
	puts("ok");
}

double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int length, char **all)
{
	words = all;
	if (length == 2 && !strcmp(words[1], "list")) {
		for (size_t i = 0; i < PROMISES; i++)
			printf("%s %d\n", promises[i].name, promises[i].end);
		return 0;
	}
	/* What a ULP executes is an ordinary process. */
	if (length == 2 && !strcmp(words[1], "ordinary"))
		return cox_ulp_number() == -ESRCH && cox_ulp_count() == 1 ? 42 : 1;
	if (length != 3)
		return 2;
	decouples = !strcmp(words[1], "decoupled");
	host = getppid();
	me = cox_ulp_number();
	count = cox_ulp_count();
	barrier.count = count;
	give("barrier", &barrier);
	shared_barrier = of(0, "barrier");
	/* Half of the line: it stays in the buffer until the end. */
	printf("%d ", me);
	for (size_t i = 0; i < PROMISES; i++) {
		if (!strcmp(words[2], promises[i].name)) {
			promises[i].keep();
			say_ok();
			return 0;
		}
	}
	return 2;
}
