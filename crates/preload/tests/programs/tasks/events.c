/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* detach: a task has ended when its body has, and its event is fulfilled. */
#include "promise.h"

struct later {
	omp_event_handle_t event;
	int *fulfilled;
};

static int sent, through;

static void *fulfil(void *argument)
{
	struct later later = *(struct later *)argument;
	free(argument);
	for_a_moment();
	add(later.fulfilled);
	omp_fulfill_event(later.event);
	add(&through);
	return NULL;
}

/* libgomp's team has to be there until its lock is let go: its own tasks do not wait for that. */
static void wait_for_threads(void)
{
	while (get(&through) < get(&sent))
		for_a_moment();
}

/* By a thread that OpenMP knows nothing of, which counts first. */
static void fulfil_later(omp_event_handle_t event, int *fulfilled)
{
	struct later *later = malloc(sizeof *later);
	*later = (struct later){ event, fulfilled };
	pthread_t thread;
	add(&sent);
	if (pthread_create(&thread, NULL, fulfil, later) != 0)
		abort();
	pthread_detach(thread);
}

/*
 * Whatever waits for a task waits for its event. A barrier of libgomp's (12) sleeps on if the last that it waits for is an
 * event that a foreign thread fulfils, and a task with a false if does not wait for the events of what it depends on: so
 * there is a task behind each event at a barrier, and no false if behind an event. Nor does a region wait until such a
 * thread has let its team go: so none ends by an event. All three are checked in the engine's own tests.
 */
static void events(void)
{
	int fulfilled = 0, a = 0, after = -1, behind = 0;
#pragma omp parallel
	{
#pragma omp single
		{
			omp_event_handle_t event;
#pragma omp task detach(event)
			fulfil_later(event, &fulfilled);
#pragma omp taskwait
			expect(get(&fulfilled) == 1, "taskwait waits for events");
#pragma omp taskgroup
			{
#pragma omp task
				{
					omp_event_handle_t below;
#pragma omp task detach(below)
					fulfil_later(below, &fulfilled);
				}
			}
			expect(get(&fulfilled) == 2, "a taskgroup waits for events");
#pragma omp task detach(event) depend(out : a)
			{
				a = 1;
				fulfil_later(event, &fulfilled);
			}
#pragma omp task depend(inout : a)
			{
				expect(get(&fulfilled) == 3, "what depends on a task waits for its event");
				a++;
			}
#pragma omp taskwait
			expect(a == 2, "what comes behind an event goes on");
#pragma omp task detach(event) if (0)
			fulfil_later(event, &fulfilled);
			expect(get(&fulfilled) == 4, "a task with a false if is awaited with its event");
#pragma omp task final(1)
			{
				omp_event_handle_t below;
#pragma omp task detach(below)
				fulfil_later(below, &fulfilled);
				expect(get(&fulfilled) == 5, "a task below a final one is awaited with its event");
			}
#pragma omp taskwait
#pragma omp task detach(event) depend(out : a)
			fulfil_later(event, &fulfilled);
#pragma omp task depend(in : a)
			set(&behind, get(&fulfilled));
		}
		if (get(&fulfilled) != 6)
			set(&after, get(&fulfilled));
		wait_for_threads();
	}
	expect(after == -1, "a barrier waits for events");
	expect(behind == 6, "what depends on the last event has run");
}

/* An event that is fulfilled early ends no task. */
static void early_events(void)
{
	int bodies = 0, fulfilled = 0, a = 0;
	(void)a;
#pragma omp parallel
#pragma omp single
	{
		omp_event_handle_t event;
#pragma omp task detach(event) depend(out : a)
		{
			omp_fulfill_event(event);
			for_a_moment();
			add(&bodies);
		}
#pragma omp task depend(in : a)
		expect(get(&bodies) == 1, "what depends on a task waits for its body");
#pragma omp taskwait
		expect(get(&bodies) == 1, "taskwait waits for the body");
#pragma omp task detach(event)
		{
			fulfil_later(event, &fulfilled);
			while (!get(&fulfilled))
				for_a_moment();
			add(&bodies);
		}
#pragma omp taskwait
		expect(get(&bodies) == 2, "... also when another thread fulfils the event");
#pragma omp task detach(event) if (0)
		{
			omp_fulfill_event(event);
			add(&bodies);
		}
		expect(get(&bodies) == 3, "an event may be fulfilled before its task is waited for");
		wait_for_threads();
	}
}

/* Tasks fulfil each other's events, which their arguments may be copied with, and their children may outlive. */
static void events_by_tasks(void)
{
	enum { N = 20 };
	int a = 0, behind = 0, grandchildren = 0, wrong = 0;
	(void)a;
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < N; i++) {
			omp_event_handle_t event;
			int vector[i + 1];
			for (int k = 0; k <= i; k++)
				vector[k] = k;
			omp_event_handle_t copy = 0;
#pragma omp task detach(event) firstprivate(vector, i) shared(copy) depend(out : a)
			{
				for (int k = 0; k <= i; k++)
					wrong += vector[k] != k;
				copy = event;
#pragma omp task
				{
					for_a_moment();
					add(&grandchildren);
				}
			}
#pragma omp task depend(in : a)
			add(&behind);
			if (i % 8 == 0)
				for_a_moment();
			expect(get(&behind) == i, "nobody goes on before the event");
			if (i % 2) {
				omp_fulfill_event(event);
			} else {
#pragma omp task firstprivate(event)
				omp_fulfill_event(event);
			}
#pragma omp taskwait
			expect(event == copy, "a task and its creator hear of the same event");
			expect(get(&behind) == i + 1, "who depends on an event goes on");
		}
	}
	expect(wrong == 0, "a task with an event has its arguments");
	expect(grandchildren == N, "children of tasks with events have run");
}

/* A chain whose links are let go from outside. */
static void events_in_a_chain(void)
{
	enum { N = 12 };
	int chain = 0, fulfilled = 0;
#pragma omp parallel
#pragma omp single
	{
		for (int i = 0; i < N; i++) {
			omp_event_handle_t event;
#pragma omp task detach(event) depend(inout : chain)
			{
				expect(chain == i && get(&fulfilled) == i, "links go one by one");
				chain++;
				fulfil_later(event, &fulfilled);
			}
		}
#pragma omp taskwait
		expect(chain == N && get(&fulfilled) == N, "all links have gone");
		wait_for_threads();
	}
}
