/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What OpenMP promises about tasks, checked from inside a program: each check says its name when a promise is broken.
 *
 * Usage: tasks ROUNDS [NAME]
 *
 * It knows nothing of who runs the tasks, so it has to pass under plain libgomp too. Checks that something has *not*
 * begun yet give it a millisecond in which it could.
 *
 * One file by subject; all are one translation unit, so that one file name is enough to build it anywhere.
 */
#include "tasks/promise.h"

#include "tasks/clauses.c"
#include "tasks/events.c"
#include "tasks/loops.c"
#include "tasks/order.c"
#include "tasks/waiting.c"

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "recursion", recursion },
	{ "barriers", barriers },
	{ "waiting", waiting },
	{ "order", order },
	{ "wavefront", wavefront },
	{ "sets", sets },
	{ "all_memory", all_memory },
	{ "wait_later", wait_later },
	{ "at_once", at_once },
	{ "finals", finals },
	{ "arguments", arguments },
	{ "loops", loops },
	{ "reductions", reductions },
	{ "reducing_regions", reducing_regions },
	{ "nested_reducing_regions", nested_reducing_regions },
	{ "reducing_work_shares", reducing_work_shares },
	{ "reducing_scopes", reducing_scopes },
	{ "nested", nested },
	{ "many", many },
	{ "outside", outside },
	{ "events", events },
	{ "early_events", early_events },
	{ "events_by_tasks", events_by_tasks },
	{ "events_in_a_chain", events_in_a_chain },
};

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int round = 0; round < rounds; round++) {
		/* Who waits for ever ends as well. */
		alarm(120);
		for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
			if (argc < 3 || strcmp(argv[2], checks[i].name) == 0)
				checks[i].run();
	}
	printf("%s\n", failures ? "broken" : "kept");
	return failures != 0;
}
