/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program looks at what the preload library inside it says. */
#ifndef LOOK_H
#define LOOK_H

#include <cox/preload.h>
#include <stdio.h>
#include <string.h>

/* Where the library's memory is mapped; NULL: there is none. */
static inline const struct cox_preload *look(void)
{
	char line[512];
	unsigned long start, offset;
	const struct cox_preload *found = NULL;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
		if (strstr(line, "/memfd:" COX_PRELOAD_NAME " ") != NULL &&
		    sscanf(line, "%lx-%*x %*s %lx", &start, &offset) == 2 && offset == 0)
			found = (const struct cox_preload *)start;
	if (maps != NULL)
		fclose(maps);
	return found;
}

static inline const struct cox_preload_slot *slots(const struct cox_preload *page)
{
	return (const struct cox_preload_slot *)((const char *)page + 2 * COX_PRELOAD_PAGE);
}

/* One line for the header and one for each thread, in the order in which they came. */
static inline void tell(void)
{
	const struct cox_preload *page = look();
	if (page == NULL) {
		puts("nobody");
		return;
	}
	printf("page pid %u given %u seen %u team_threads %u\n", page->pid, page->given, page->seen,
	       page->team_threads);
	for (unsigned i = 0; i < page->given && i < COX_PRELOAD_SLOTS; i++) {
		const struct cox_preload_slot *slot = slots(page) + i;
		printf("thread %u in_barrier %u phases %llu role %u ended %u\n", slot->tid, slot->in_barrier,
		       (unsigned long long)slot->phases, slot->role, slot->ended);
	}
}

#endif
