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

#include "tasks/cancelling.c"
#include "tasks/clauses.c"
#include "tasks/controls.c"
#include "tasks/events.c"
#include "tasks/locks.c"
#include "tasks/loops.c"
#include "tasks/order.c"
#include "tasks/parts.c"
#include "tasks/sharing.c"
#include "tasks/targets.c"
#include "tasks/waiting.c"

static const struct {
	const char *name;
	void (*run)(void);
	bool only_by_name;
} checks[] = {
	{ "recursion", recursion, false },
	{ "barriers", barriers, false },
	{ "waiting", waiting, false },
	{ "order", order, false },
	{ "wavefront", wavefront, false },
	{ "sets", sets, false },
	{ "all_memory", all_memory, false },
	{ "wait_later", wait_later, false },
	{ "at_once", at_once, false },
	{ "finals", finals, false },
	{ "arguments", arguments, false },
	{ "fortran_names", fortran_names, false },
	{ "nested_finals", nested_finals, false },
	{ "urgencies", urgencies, false },
	{ "allowed_priorities", allowed_priorities, true },
	{ "sharing", sharing, false },
	{ "copied_results", copied_results, false },
	{ "nobody_passes", nobody_passes, false },
	{ "own_words", own_words, false },
	{ "loops", loops, false },
	{ "reductions", reductions, false },
	{ "reducing_regions", reducing_regions, false },
	{ "nested_reducing_regions", nested_reducing_regions, false },
	{ "reducing_work_shares", reducing_work_shares, false },
	{ "reducing_scopes", reducing_scopes, false },
	{ "parts", parts, false },
	{ "parts_and_children", parts_and_children, false },
	{ "parts_reduced", parts_reduced, false },
	{ "parts_cancelled", parts_cancelled, true },
	{ "nested", nested, false },
	{ "many", many, false },
	{ "outside", outside, false },
	{ "cancelled_groups", cancelled_groups, false },
	{ "cancelled_regions", cancelled_regions, false },
	{ "cancelled_work_shares", cancelled_work_shares, false },
	{ "cancelled_static_loops", cancelled_static_loops, false },
	{ "cancelled_copies", cancelled_copies, false },
	{ "cancelled_reductions", cancelled_reductions, true },
	{ "events", events, false },
	{ "early_events", early_events, false },
	{ "events_by_tasks", events_by_tasks, false },
	{ "events_in_a_chain", events_in_a_chain, false },
	{ "targets_in_order", targets_in_order, false },
	{ "targets_later", targets_later, false },
	{ "targets_inside", targets_inside, false },
	{ "target_copies", target_copies, true },
	{ "controls_of_undeferred", controls_of_undeferred, false },
	{ "controls_of_deferred", controls_of_deferred, false },
	{ "controls_of_implicit", controls_of_implicit, false },
	{ "controls_of_kinds", controls_of_kinds, false },
	{ "controls_one_by_one", controls_one_by_one, false },
	{ "controls_of_regions", controls_of_regions, false },
	{ "controls_from_before", controls_from_before, false },
	{ "controls_by_fortran", controls_by_fortran, false },
	{ "default_allocators", default_allocators, false },
	{ "locks_of_children", locks_of_children, false },
	{ "locks_exclude", locks_exclude, false },
	{ "locks_of_regions", locks_of_regions, false },
	{ "locks_by_fortran", locks_by_fortran, false },
};

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int round = 0; round < rounds; round++) {
		/* Who waits for ever ends as well. */
		alarm(120);
		for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
			if (argc < 3 ? !checks[i].only_by_name : strcmp(argv[2], checks[i].name) == 0)
				checks[i].run();
	}
	printf("%s\n", failures ? "broken" : "kept");
	return failures != 0;
}
