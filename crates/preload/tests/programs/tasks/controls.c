/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Internal control variables: a task has its creator's values of the moment when it was made, and what it sets is its own. */
#include "promise.h"

/* omp_set_nested() is deprecated, and must work. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

typedef struct {
	int threads, dynamic, levels, chunk, device;
	omp_sched_t kind;
} controls;

static controls all_controls(void)
{
	controls all = { .threads = omp_get_max_threads(), .dynamic = omp_get_dynamic(), .levels = omp_get_max_active_levels() };
	omp_get_schedule(&all.kind, &all.chunk);
	all.device = omp_get_default_device();
	return all;
}

static bool same(controls a, controls b)
{
	return a.threads == b.threads && a.dynamic == b.dynamic && a.levels == b.levels && a.chunk == b.chunk && a.device == b.device && a.kind == b.kind;
}

/* Values that no other number gives. Odd ones let libgomp choose the size of teams. */
static controls of_number(int number)
{
	static const omp_sched_t kinds[] = { omp_sched_static, omp_sched_dynamic, omp_sched_guided };
	return (controls){ 100 + number, number & 1, 2 + number % 50, 1 + number, number % 7, kinds[number % 3] };
}

static void set_all(controls all)
{
	omp_set_num_threads(all.threads);
	omp_set_dynamic(all.dynamic);
	omp_set_max_active_levels(all.levels);
	omp_set_schedule(all.kind, all.chunk);
	omp_set_default_device(all.device);
}

/* Sets what an earlier check has set back to what it was. */
#define KEEPING(before) for (controls before = all_controls(), *once = &before; once; set_all(before), once = NULL)

/* An undeferred task's values are its own, and those that its parent makes later have the parent's. */
static void controls_of_undeferred(void)
{
	int wrong = 0, later = 0;
	KEEPING(before) {
		omp_set_num_threads(4);
#pragma omp parallel
#pragma omp single
		{
			controls mine = all_controls();
			if (mine.threads != 4)
				add(&wrong);
#pragma omp task if (0) shared(wrong) firstprivate(mine)
			{
				if (!same(all_controls(), mine))
					add(&wrong);
				set_all(of_number(5));
				if (!same(all_controls(), of_number(5)))
					add(&wrong);
#pragma omp task if (0) shared(wrong)
				{
					if (!same(all_controls(), of_number(5)))
						add(&wrong);
					omp_set_num_threads(77);
				}
				if (!same(all_controls(), of_number(5)))
					add(&wrong);
			}
			if (!same(all_controls(), mine))
				add(&wrong);
			for (int i = 0; i < 100; i++) {
#pragma omp task shared(later) firstprivate(mine)
				{
					if (!same(all_controls(), mine))
						add(&later);
				}
			}
#pragma omp task final(1) shared(wrong)
			{
				set_all(of_number(6));
				for (int i = 0; i < 3; i++) {
#pragma omp task shared(wrong)
					{
						if (!same(all_controls(), of_number(6)))
							add(&wrong);
						omp_set_num_threads(78);
					}
				}
				if (!same(all_controls(), of_number(6)))
					add(&wrong);
			}
			if (!same(all_controls(), mine))
				add(&wrong);
		}
	}
	expect(wrong == 0, "what an undeferred task sets is its own");
	expect(later == 0, "later tasks have their creator's values");
}

/* What the creator had when it made a task, not what it has when the task runs, nor what the thread that runs it had. */
static void controls_of_deferred(void)
{
	enum { N = 64 };
	int wrong = 0, after = 0;
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < N; i++) {
			set_all(of_number(i));
#pragma omp task shared(wrong) firstprivate(i)
			{
				if (!same(all_controls(), of_number(i)))
					add(&wrong);
				if (i % 8 == 0)
					for_a_moment();
				set_all(of_number(1000 + i));
#pragma omp task shared(wrong) firstprivate(i)
				{
					if (!same(all_controls(), of_number(1000 + i)))
						add(&wrong);
					set_all(of_number(2000 + i));
				}
#pragma omp taskyield
				if (!same(all_controls(), of_number(1000 + i)))
					add(&wrong);
				set_all(of_number(3000 + i));
#pragma omp taskwait
				if (!same(all_controls(), of_number(3000 + i)))
					add(&wrong);
			}
		}
#pragma omp taskwait
		if (!same(all_controls(), of_number(N - 1)))
			add(&after);
	}
	expect(wrong == 0, "a deferred task has its creator's values of when it was made");
	expect(after == 0, "tasks that run meanwhile leave their creator's values alone");
}

/* Implicit tasks have values of their own, and run tasks of others while they wait at a barrier. */
static void controls_of_implicit(void)
{
	int wrong = 0, wrong_here = 0, inherited = 0, threads = omp_get_max_threads();
	KEEPING(before) {
		set_all(of_number(8));
#pragma omp parallel num_threads(threads)
		{
			controls mine = of_number(20 + omp_get_thread_num());
			if (!same(all_controls(), of_number(8)))
				add(&inherited);
			for (int i = 0; i < 10; i++) {
#pragma omp task shared(wrong)
				{
					if (!same(all_controls(), of_number(8)))
						add(&wrong);
					if (i % 5 == 0)
						for_a_moment();
					set_all(of_number(500));
				}
			}
			set_all(mine);
			for (int i = 0; i < 10; i++) {
#pragma omp task shared(wrong) firstprivate(mine)
				{
					if (!same(all_controls(), mine))
						add(&wrong);
					if (i % 5 == 0)
						for_a_moment();
				}
			}
#pragma omp barrier
			if (!same(all_controls(), mine))
				add(&wrong_here);
		}
		if (!same(all_controls(), of_number(8)))
			add(&inherited);
		/* Behind the region nothing of it is left. */
#pragma omp parallel num_threads(threads)
		{
			if (!same(all_controls(), of_number(8)))
				add(&inherited);
#pragma omp for
			for (int i = 0; i < 20; i++) {
#pragma omp task shared(wrong)
				{
					if (i % 4 == 0)
						for_a_moment();
					if (!same(all_controls(), of_number(8)))
						add(&wrong);
				}
			}
		}
	}
	expect(inherited == 0, "implicit tasks have the values of the region's creator, and take none with them");
	expect(wrong == 0, "tasks of implicit tasks with values of their own have those");
	expect(wrong_here == 0, "an implicit task's values are there behind a barrier");
}

/* Parts of loops, tasks with dependences, with events, untied ones. */
static void controls_of_kinds(void)
{
	int wrong = 0, slot = 0;
#pragma omp parallel
#pragma omp single
	{
		set_all(of_number(11));
#pragma omp taskloop nogroup grainsize(1) shared(wrong)
		for (int i = 0; i < 40; i++) {
			if (!same(all_controls(), of_number(11)))
				add(&wrong);
			set_all(of_number(600 + i));
			if (i % 8 == 0)
				for_a_moment();
			if (!same(all_controls(), of_number(600 + i)))
				add(&wrong);
		}
		if (!same(all_controls(), of_number(11)))
			add(&wrong);
		set_all(of_number(12));
#pragma omp taskloop num_tasks(4) if (0) shared(wrong)
		for (int i = 0; i < 40; i++) {
			if (omp_get_max_threads() != (i % 10 == 0 ? 112 : 113))
				add(&wrong);
			omp_set_num_threads(113);
		}
		if (!same(all_controls(), of_number(12)))
			add(&wrong);
		for (int i = 0; i < 10; i++) {
			set_all(of_number(30 + i));
#pragma omp task depend(inout : slot) shared(wrong, slot) firstprivate(i)
			{
				if (!same(all_controls(), of_number(30 + i)))
					add(&wrong);
				slot++;
				for_a_moment();
				set_all(of_number(700 + i));
			}
		}
#pragma omp task depend(inout : slot) if (0) shared(wrong, slot)
		{
			if (slot != 10 || !same(all_controls(), of_number(39)))
				add(&wrong);
		}
		for (int i = 0; i < 4; i++) {
			omp_event_handle_t event;
			set_all(of_number(50 + i));
#pragma omp task detach(event) untied shared(wrong) firstprivate(i)
			{
				if (!same(all_controls(), of_number(50 + i)))
					add(&wrong);
				set_all(of_number(800 + i));
				omp_fulfill_event(event);
			}
		}
#pragma omp taskgroup
		{
			set_all(of_number(60));
#pragma omp task mergeable shared(wrong)
			{
				if (!same(all_controls(), of_number(60)))
					add(&wrong);
			}
			set_all(of_number(61));
		}
		if (!same(all_controls(), of_number(61)))
			add(&wrong);
	}
	expect(wrong == 0, "tasks of every kind have their creator's values");
}

/* Each variable by itself, as libgomp rounds it; automatic schedules leave the size of chunks alone. */
static void controls_one_by_one(void)
{
	int wrong = 0;
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < 20; i++) {
#pragma omp task shared(wrong) firstprivate(i)
			{
				omp_sched_t kind;
				int chunk;
				omp_set_schedule(omp_sched_dynamic, 5 + i);
				omp_set_schedule(omp_sched_auto, 999);
#pragma omp task shared(wrong)
				{
					if (i % 5 == 0)
						for_a_moment();
					omp_sched_t theirs;
					int size;
					omp_get_schedule(&theirs, &size);
					if (theirs != omp_sched_auto || size != 5 + i)
						add(&wrong);
					omp_set_schedule(omp_sched_static, 0);
					omp_set_nested(0);
					omp_set_num_threads(-3);
					omp_set_dynamic(42);
					if (omp_get_max_threads() != 1 || omp_get_nested() || omp_get_max_active_levels() > 1 || !omp_get_dynamic())
						add(&wrong);
				}
				omp_set_nested(1);
				omp_set_max_active_levels(-1);
#pragma omp taskwait
				omp_get_schedule(&kind, &chunk);
				if (kind != omp_sched_auto || chunk != 5 + i || !omp_get_nested() || omp_get_max_active_levels() != omp_get_supported_active_levels())
					add(&wrong);
				omp_set_schedule((omp_sched_t)(omp_sched_guided | omp_sched_monotonic), 0);
				omp_get_schedule(&kind, &chunk);
				if (kind != (omp_sched_t)(omp_sched_guided | omp_sched_monotonic) || chunk != 1)
					add(&wrong);
			}
		}
	}
	expect(wrong == 0, "each control variable by itself");
}

/* Regions that a task makes have its values. */
static void controls_of_regions(void)
{
	int wrong = 0, sizes = 0, iterations = 0, own = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
	{
		for (int i = 0; i < 6; i++) {
#pragma omp task shared(wrong, sizes, iterations, own) firstprivate(i)
			{
				int size = 2 + i % 3, here = 0;
				omp_set_dynamic(0);
				omp_set_max_active_levels(3);
				omp_set_num_threads(size);
				omp_set_schedule(omp_sched_dynamic, 2 + i);
				for_a_moment();
#pragma omp parallel shared(wrong, sizes, iterations, own, here) firstprivate(size, i)
				{
					omp_sched_t kind;
					int chunk;
					omp_get_schedule(&kind, &chunk);
					if (omp_get_max_threads() != size || kind != omp_sched_dynamic || chunk != 2 + i)
						add(&wrong);
					add(&here);
					omp_set_num_threads(50);
#pragma omp for schedule(runtime)
					for (int j = 0; j < 20; j++)
						add(&iterations);
#pragma omp single
					{
#pragma omp task shared(own)
						{
							if (omp_get_max_threads() != 50)
								add(&own);
							omp_set_num_threads(51);
						}
					}
					if (omp_get_max_threads() != 50)
						add(&own);
				}
				if (here != size)
					add(&sizes);
				if (omp_get_max_threads() != size)
					add(&wrong);
			}
		}
	}
	expect(wrong == 0, "a region has the values of the task that makes it");
	expect(sizes == 0, "a region in a task has as many threads as the task has said");
	expect(iterations == 6 * 20, "loops whose schedule a task has set");
	expect(own == 0, "what is set in a region is its own");
}

/* What the program says before the region is what tasks find. */
static void controls_from_before(void)
{
	int wrong = 0;
	KEEPING(before) {
		for (int i = 0; i < 2; i++) {
			controls outer = of_number(90 + 2 * i);
			set_all(outer);
#pragma omp parallel num_threads(1 + i % 2)
#pragma omp single
			{
				for (int j = 0; j < 8; j++) {
#pragma omp task shared(wrong) firstprivate(outer)
					{
						if (!same(all_controls(), outer))
							add(&wrong);
						for_a_moment();
						if (!same(all_controls(), outer))
							add(&wrong);
					}
				}
			}
		}
	}
	expect(wrong == 0, "tasks have what was set before the region");
}

void omp_set_num_threads_(const int32_t *count);
void omp_set_num_threads_8_(const int64_t *count);
void omp_set_dynamic_(const int32_t *wanted);
void omp_set_dynamic_8_(const int64_t *wanted);
void omp_set_nested_(const int32_t *wanted);
void omp_set_nested_8_(const int64_t *wanted);
void omp_set_max_active_levels_(const int32_t *levels);
void omp_set_max_active_levels_8_(const int64_t *levels);
void omp_set_schedule_(const int32_t *kind, const int32_t *chunk);
void omp_set_schedule_8_(const int32_t *kind, const int64_t *chunk);
void omp_set_default_device_(const int32_t *device);
void omp_set_default_device_8_(const int64_t *device);
int32_t omp_get_nested_(void);

/* By Fortran's names, arguments are passed by reference. */
static void controls_by_fortran(void)
{
	int wrong = 0;
#pragma omp parallel
#pragma omp single
	{
		controls mine = all_controls();
#pragma omp task if (0)
		{
			omp_set_num_threads_(&(int32_t){ 61 });
			omp_set_dynamic_(&(int32_t){ 1 });
			omp_set_max_active_levels_(&(int32_t){ 7 });
			omp_set_schedule_(&(int32_t){ omp_sched_guided }, &(int32_t){ 13 });
			omp_set_default_device_(&(int32_t){ 3 });
			if (!same(all_controls(), (controls){ 61, 1, 7, 13, 3, omp_sched_guided }))
				add(&wrong);
		}
		if (!same(all_controls(), mine))
			add(&wrong);
#pragma omp task if (0)
		{
			omp_set_num_threads_8_(&(int64_t){ 62 });
			omp_set_dynamic_8_(&(int64_t){ 1 });
			omp_set_max_active_levels_8_(&(int64_t){ 8 });
			omp_set_schedule_8_(&(int32_t){ omp_sched_dynamic }, &(int64_t){ 14 });
			omp_set_default_device_8_(&(int64_t){ 4 });
			if (!same(all_controls(), (controls){ 62, 1, 8, 14, 4, omp_sched_dynamic }))
				add(&wrong);
		}
		if (!same(all_controls(), mine))
			add(&wrong);
#pragma omp task if (0)
		{
			omp_set_nested_(&(int32_t){ 1 });
			if (!omp_get_nested() || !omp_get_nested_())
				add(&wrong);
			omp_set_nested_8_(&(int64_t){ 0 });
			if (omp_get_nested() || omp_get_nested_())
				add(&wrong);
		}
		if (!same(all_controls(), mine))
			add(&wrong);
	}
	expect(wrong == 0, "control variables by Fortran's names");
}

static bool is_aligned(const void *place, uintptr_t bytes)
{
	return (uintptr_t)place % bytes == 0;
}

static omp_allocator_handle_t aligned_allocator(uintptr_t bytes)
{
	omp_alloctrait_t trait = { omp_atk_alignment, bytes };
	return omp_init_allocator(omp_default_mem_space, 1, &trait);
}

/* Whether memory comes from an allocator with this alignment, by name and by nobody's. */
static bool allocates_by(omp_allocator_handle_t allocator, uintptr_t bytes)
{
	bool is_right = omp_get_default_allocator() == allocator;
	void *blocks[4];
	for (int i = 0; i < 4; i++) {
		blocks[i] = omp_alloc(24, omp_null_allocator);
		is_right = is_right && is_aligned(blocks[i], bytes);
	}
	for (int i = 0; i < 4; i++)
		omp_free(blocks[i], omp_null_allocator);
	return is_right;
}

void omp_set_default_allocator_(const intptr_t *allocator);
intptr_t omp_get_default_allocator_(void);

/* The default allocator is a thread's: what was set before the region, what all members have set, what a task sets for its thread. */
static void default_allocators(void)
{
	omp_allocator_handle_t before = omp_get_default_allocator();
	omp_allocator_handle_t large = aligned_allocator(1024), larger = aligned_allocator(4096);
	int wrong = 0, set_by_all = 0, set_by_task = 0, left = 0;
	omp_set_default_allocator(large);
#pragma omp parallel
#pragma omp single
	for (int i = 0; i < 20; i++) {
		int copied = i;
#pragma omp task shared(wrong) firstprivate(copied) allocate(copied)
		{
			int *volatile place = &copied;
			if (!is_aligned(place, 1024) || *place != i || !allocates_by(large, 1024))
				add(&wrong);
			if (i % 5 == 0)
				for_a_moment();
			if (!allocates_by(large, 1024))
				add(&wrong);
		}
	}
#pragma omp parallel
	{
		omp_set_default_allocator(larger);
#pragma omp barrier
		for (int i = 0; i < 10; i++) {
#pragma omp task shared(set_by_all)
			{
				if (i % 5 == 0)
					for_a_moment();
				if (!allocates_by(larger, 4096))
					add(&set_by_all);
			}
		}
	}
	if (!allocates_by(large, 1024))
		add(&left);
#pragma omp parallel
	{
#pragma omp for
		for (int i = 0; i < 20; i++) {
#pragma omp task shared(set_by_task)
			{
				if (i % 5 == 0)
					for_a_moment();
#pragma omp task if (0) shared(set_by_task)
				{
					omp_set_num_threads(19);
					if (i % 2)
						omp_set_default_allocator(larger);
					else
						omp_set_default_allocator_(&(intptr_t){ (intptr_t)larger });
					if (!allocates_by(larger, 4096))
						add(&set_by_task);
				}
				if (!allocates_by(larger, 4096) || omp_get_default_allocator_() != (intptr_t)larger || omp_get_max_threads() == 19)
					add(&set_by_task);
				omp_set_default_allocator(large);
			}
		}
	}
	if (!allocates_by(large, 1024))
		add(&left);
	omp_set_default_allocator(before);
	omp_destroy_allocator(large);
	omp_destroy_allocator(larger);
	expect(wrong == 0, "tasks have the default allocator from before the region");
	expect(set_by_all == 0, "tasks have the default allocator that all threads have set");
	expect(set_by_task == 0, "an undeferred task sets its thread's default allocator");
	expect(left == 0, "a region leaves no default allocator behind");
}

#pragma GCC diagnostic pop
