/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a task is given, and how it is to be done. */
#include "promise.h"

/* final: all below is done at once. */
static void finals(void)
{
	int finals = 0, order = 0, plain = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task final(1)
		{
			finals += omp_in_final();
			for (int i = 0; i < 5; i++) {
#pragma omp task
				{
					expect(order == i, "tasks below a final one are done in their order");
					order = i + 1;
					finals += omp_in_final();
				}
				expect(order == i + 1, "tasks below a final one are done at once");
			}
		}
#pragma omp task final(0)
		plain = omp_in_final();
	}
	expect(finals == 6, "omp_in_final in final tasks");
	expect(plain == 0, "omp_in_final in others");
}

struct wide {
	_Alignas(256) char bytes[700];
};

/* What a task is given is its own, of any size and alignment. */
static void arguments(void)
{
	int wrong = 0, crooked = 0, lengths = 0;
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 50; i++) {
		struct wide wide;
		memset(wide.bytes, i, sizeof wide.bytes);
		int length = i + 1;
		int vector[length];
		for (int k = 0; k < length; k++)
			vector[k] = i * k;
#pragma omp task firstprivate(wide, i)
		{
			if (wide.bytes[0] != i || wide.bytes[699] != i)
				add(&wrong);
			if ((uintptr_t)&wide % 256 != 0)
				add(&crooked);
		}
#pragma omp task firstprivate(vector, i, length)
		{
			for (int k = 0; k < length; k++)
				if (vector[k] != i * k)
					add(&wrong);
			add(&lengths);
		}
		memset(wide.bytes, 99, sizeof wide.bytes);
		memset(vector, 99, sizeof vector);
	}
	expect(wrong == 0, "firstprivate is copied when the task is made");
	expect(crooked == 0, "firstprivate is aligned");
	expect(lengths == 50, "tasks with arrays of variable length have run");
}

/* What Fortran programs call: these names, with arguments by reference. */
extern int32_t omp_in_final_(void);
extern int32_t omp_get_thread_num_(void);
extern int32_t omp_get_num_threads_(void);
extern int32_t omp_get_level_(void);
extern int32_t omp_get_active_level_(void);
extern int32_t omp_in_parallel_(void);
extern int32_t omp_get_team_size_(const int32_t *);
extern int32_t omp_get_team_size_8_(const int64_t *);
extern int32_t omp_get_ancestor_thread_num_(const int32_t *);
extern int32_t omp_get_ancestor_thread_num_8_(const int64_t *);

/* Both languages hear the same. */
static bool sound_alike(void)
{
	bool alike = omp_in_final_() == omp_in_final() && omp_get_thread_num_() == omp_get_thread_num() &&
		     omp_get_num_threads_() == omp_get_num_threads() && omp_get_level_() == omp_get_level() &&
		     omp_get_active_level_() == omp_get_active_level() && omp_in_parallel_() == omp_in_parallel();
	for (int level = -1; level < 4; level++) {
		int64_t wide = level;
		alike = alike && omp_get_team_size_(&level) == omp_get_team_size(level) &&
			omp_get_team_size_8_(&wide) == omp_get_team_size(level) &&
			omp_get_ancestor_thread_num_(&level) == omp_get_ancestor_thread_num(level) &&
			omp_get_ancestor_thread_num_8_(&wide) == omp_get_ancestor_thread_num(level);
	}
	return alike;
}

static void fortran_names(void)
{
	int other = 0, finals = 0;
	other += !sound_alike();
#pragma omp parallel
	{
		if (!sound_alike())
			add(&other);
		for (int i = 0; i < 10; i++) {
#pragma omp task final(i % 2)
			{
				if (!sound_alike())
					add(&other);
				if (omp_in_final_())
					add(&finals);
			}
		}
#pragma omp barrier
		expect(get(&finals) == 5 * omp_get_num_threads_(), "Fortran hears of final tasks");
	}
	expect(other == 0, "Fortran's names answer as C's do");
}

/* final holds for all below, at any depth, and for nothing beside. */
static void nested_finals(void)
{
	int finals = 0, others = 0, deep = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task
		{
#pragma omp task final(1)
			{
#pragma omp task final(0)
				{
					finals += omp_in_final();
#pragma omp task if (1)
					{
						finals += omp_in_final();
#pragma omp taskloop num_tasks(3)
						for (int i = 0; i < 3; i++)
							deep += omp_in_final();
					}
					expect(deep == 3, "loops below a final task are done at once");
				}
				expect(finals == 2, "no clause below a final task makes it another");
			}
#pragma omp task
			{
				if (omp_in_final())
					add(&others);
			}
#pragma omp taskwait
		}
	}
	expect(others == 0, "tasks beside a final one are not final");
}

/* Priorities are no order that is promised, whatever they are; untied and mergeable tasks are tasks. */
static void urgencies(void)
{
	static const int all[] = { 0, 1, 7, 1000000, 2147483647 };
	int done = 0, below = 0, a = 0;
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < 50; i++) {
#pragma omp task priority(all[i % 5]) untied
			{
				add(&done);
#pragma omp task priority(all[(i + 1) % 5]) mergeable
				{
#pragma omp taskyield
					add(&below);
				}
#pragma omp taskwait
			}
#pragma omp task priority(all[i % 5]) depend(inout : a) mergeable if (i % 3)
			{
				expect(a == i, "dependences come before priorities");
				a++;
			}
		}
#pragma omp taskwait
		expect(get(&done) == 50 && get(&below) == 50 && a == 50, "tasks of all priorities have run");
	}
}

enum { RANKS = 10 };

/* The order in which one thread begins tasks of rising priority, or of none, that are all there when it looks. */
static void begin_ranked(bool ranked, int order[RANKS])
{
	int held = 0, gate = 0, next = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
	if (omp_get_num_threads() == 2) {
#pragma omp task
		{
			set(&held, 1);
			while (!get(&gate))
				for_a_moment();
		}
		/* The other thread has that one, and this one comes to no scheduling point. */
		while (!get(&held))
			for_a_moment();
		for (int i = 0; i < RANKS; i++) {
#pragma omp task priority(ranked ? i : 0) shared(next)
			{
				order[__atomic_fetch_add(&next, 1, __ATOMIC_ACQ_REL)] = i;
			}
		}
		set(&gate, 1);
		while (get(&next) < RANKS)
			for_a_moment();
	}
}

/* A priority above the highest allowed (OMP_MAX_TASK_PRIORITY) is that one: with none allowed it says nothing. */
static void allowed_priorities(void)
{
	int ranked[RANKS] = { 0 }, plain[RANKS] = { 0 }, highest = omp_get_max_task_priority(), wrong = 0;
	if (omp_get_max_threads() < 2)
		return;
	begin_ranked(false, plain);
	begin_ranked(true, ranked);
	for (int k = 0; k < RANKS; k++)
		wrong += highest == 0 ? ranked[k] != plain[k] : highest >= RANKS && ranked[k] != RANKS - 1 - k;
	expect(wrong == 0, "priorities count as far as they are allowed");
}
