/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What OpenMP promises about tasks, checked from inside a program: each check says its name when a promise is broken.
 *
 * Usage: tasks ROUNDS [NAME]
 *
 * It knows nothing of who runs the tasks, so it has to pass under plain libgomp too. Checks that something has *not*
 * begun yet give it a millisecond in which it could.
 */
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failures;

static void expect(bool kept, const char *what)
{
	if (!kept) {
#pragma omp atomic
		failures++;
		fprintf(stderr, "broken: %s\n", what);
	}
}

static void for_a_moment(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static int get(int *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void add(int *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

/* Tasks in tasks: each waits for its own. */
static long fib(int n)
{
	long a, b;
	if (n < 2)
		return n;
#pragma omp task shared(a)
	a = fib(n - 1);
#pragma omp task shared(b)
	b = fib(n - 2);
#pragma omp taskwait
	return a + b;
}

static void recursion(void)
{
	long result = 0;
#pragma omp parallel
#pragma omp single
	result = fib(16);
	expect(result == 987, "fib(16)");
}

/* Every kind of barrier waits for all tasks, whoever made them. */
static void barriers(void)
{
	int threads = 0, done = 0, after_loop = -1, after_sections = -1, after_single = -1, after_barrier = -1;
#pragma omp parallel
	{
#pragma omp single
		threads = omp_get_num_threads();
#pragma omp for schedule(dynamic)
		for (int i = 0; i < 20; i++) {
#pragma omp task
			add(&done);
		}
		if (get(&done) != 20)
			set(&after_loop, get(&done));
#pragma omp barrier
#pragma omp sections
		{
#pragma omp section
			{
#pragma omp task
				add(&done);
			}
#pragma omp section
			{
#pragma omp task
				{
					for_a_moment();
					add(&done);
				}
			}
		}
		if (get(&done) != 22)
			set(&after_sections, get(&done));
#pragma omp barrier
#pragma omp single
		for (int i = 0; i < 20; i++) {
#pragma omp task
			add(&done);
		}
		if (get(&done) != 42)
			set(&after_single, get(&done));
#pragma omp barrier
#pragma omp task
		{
			/* A task made by a task counts too. */
#pragma omp task
			{
				for_a_moment();
				add(&done);
			}
		}
#pragma omp barrier
		if (get(&done) != 42 + threads)
			set(&after_barrier, get(&done));
#pragma omp barrier
#pragma omp task
		add(&done);
	}
	expect(after_loop == -1, "the end of a loop waits for tasks");
	expect(after_sections == -1, "the end of sections waits for tasks");
	expect(after_single == -1, "the end of a single waits for tasks");
	expect(after_barrier == -1, "a barrier waits for tasks of tasks");
	expect(done == 42 + 2 * threads, "the end of a region waits for tasks");
}

/* taskwait waits for children only; a taskgroup for all below. */
static void waiting(void)
{
	int child = 0, grandchild = 0, gate = 0, in_group = 0, by = -1;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task
		{
#pragma omp task
			{
				set(&by, omp_get_thread_num());
				for (int i = 0; i < 50 && !get(&gate); i++)
					for_a_moment();
				add(&grandchild);
			}
			add(&child);
		}
#pragma omp taskwait
		expect(get(&child) == 1, "taskwait waits for children");
		/* The thread that waits may run it itself; then it has to wait for it. */
		expect(get(&grandchild) == 0 || get(&by) == omp_get_thread_num(),
		       "taskwait does not wait for grandchildren");
		set(&gate, 1);
#pragma omp taskgroup
		{
#pragma omp task
			{
#pragma omp task
				{
#pragma omp task
					{
						for_a_moment();
						add(&in_group);
					}
					add(&in_group);
				}
				add(&in_group);
			}
		}
		expect(get(&in_group) == 3, "a taskgroup waits for all below");
#pragma omp taskgroup
		{
#pragma omp task
			{
				/* A group in a task of a group is its own. */
#pragma omp taskgroup
				{
#pragma omp task
					add(&in_group);
				}
				expect(get(&in_group) == 4, "a group within a group's task is waited for there");
			}
#pragma omp taskgroup
			{
			}
		}
	}
	expect(grandchild == 1, "the grandchild has run by the region's end");
}

/* in, out, inout: order, and nothing but the order that is asked for. */
static void order(void)
{
	int a = 0, b = 0, gate = 0, early = 0, readers = 0, chain = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(out : a)
		{
			while (!get(&gate))
				for_a_moment();
			a = 7;
		}
		for (int i = 0; i < 40; i++) {
#pragma omp task depend(in : a)
			{
				if (a != 7)
					add(&early);
				add(&readers);
			}
		}
#pragma omp task depend(inout : a)
		{
			expect(get(&readers) == 40, "a writer waits for all readers");
			a = 8;
		}
#pragma omp task depend(out : b)
		b = 1;
		for_a_moment();
		expect(get(&readers) == 0 && get(&early) == 0, "nobody reads before the writer has ended");
		set(&gate, 1);
#pragma omp taskwait
		expect(a == 8 && b == 1, "taskwait waits for tasks with dependences");
		for (int i = 0; i < 1000; i++) {
#pragma omp task depend(inout : chain)
			{
				expect(chain == i, "a chain keeps its order");
				chain = i + 1;
			}
		}
	}
	expect(early == 0, "no reader was early");
	expect(chain == 1000, "all links of a chain have run");
}

/* Blocks of a matrix, each after its left and its upper neighbour. */
static void wavefront(void)
{
	enum { N = 24 };
	static int block[N + 1][N + 1];
	memset(block, 0, sizeof block);
	for (int i = 0; i <= N; i++)
		block[0][i] = block[i][0] = 1;
#pragma omp parallel
#pragma omp single
	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++) {
#pragma omp task depend(in : block[i - 1][j], block[i][j - 1]) depend(out : block[i][j]) firstprivate(i, j)
			block[i][j] = (block[i - 1][j] + block[i][j - 1]) % 1000003;
		}
	int expected[N + 1][N + 1];
	memcpy(expected, block, sizeof block);
	for (int i = 1; i <= N; i++)
		for (int j = 1; j <= N; j++)
			expected[i][j] = (expected[i - 1][j] + expected[i][j - 1]) % 1000003;
	expect(memcmp(expected, block, sizeof block) == 0, "a wavefront's blocks wait for their neighbours");
}

/* inoutset: together; mutexinoutset: one at a time, in any order; depend objects; iterators. */
static void sets(void)
{
	int a = 0, together = 0, inside = 0, crowded = 0, counted = 0, plain = 0, gate = 0;
	int cells[8] = { 0 };
	omp_depend_t object;
	/* gcc 12 knows no inoutset. */
	(void)a;
#if __GNUC__ >= 13
#pragma omp depobj(object) depend(inoutset : a)
#else
#pragma omp depobj(object) depend(in : a)
#endif
#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(out : a)
		{
			while (!get(&gate))
				for_a_moment();
			add(&together);
		}
		for (int i = 0; i < 8; i++) {
#pragma omp task depend(depobj : object)
			{
				expect(get(&together) >= 1, "an inoutset waits for the writer before it");
				add(&together);
			}
		}
#pragma omp task depend(inout : a)
		expect(get(&together) == 9, "a writer waits for the whole inoutset");
		for_a_moment();
		expect(get(&together) == 0, "an inoutset has not begun before the writer");
		set(&gate, 1);
#pragma omp taskwait
		for (int i = 0; i < 50; i++) {
#pragma omp task depend(mutexinoutset : plain)
			{
				add(&inside);
				if (get(&inside) != 1)
					add(&crowded);
				plain++;
#pragma omp atomic
				inside--;
				add(&counted);
			}
		}
#pragma omp task depend(in : plain)
		expect(plain == 50 && get(&counted) == 50, "a reader waits for the whole mutexinoutset");
#pragma omp task depend(iterator(i = 0 : 8), out : cells[i])
		for (int i = 0; i < 8; i++)
			cells[i] = i + 1;
		for (int i = 0; i < 8; i++) {
#pragma omp task depend(in : cells[i])
			expect(cells[i] == i + 1, "an iterator names every cell");
		}
	}
	expect(crowded == 0, "a mutexinoutset's tasks exclude each other");
	expect(plain == 50, "all of a mutexinoutset have run");
#pragma omp depobj(object) destroy
}

#if __GNUC__ >= 13
/* omp_all_memory: after all before, before all after. */
static void all_memory(void)
{
	int a = 0, b = 0, before = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp task depend(out : a)
		{
			for_a_moment();
			add(&before);
		}
#pragma omp task depend(in : b)
		add(&before);
#pragma omp task depend(out : omp_all_memory)
		{
			expect(get(&before) == 2, "omp_all_memory waits for everything");
			add(&before);
		}
#pragma omp task depend(in : b)
		expect(get(&before) == 3, "everything waits for omp_all_memory");
	}
}
#else
static void all_memory(void)
{
}
#endif

/* A false if: at once, by the same thread, after what it depends on. */
static void at_once(void)
{
	int a = 0, here = 0, gate = 0;
#pragma omp parallel
#pragma omp single
	{
		int thread = omp_get_thread_num();
#pragma omp task if (0) shared(here)
		here = thread == omp_get_thread_num() ? 1 : -1;
		expect(here == 1, "a task with a false if is done at once by its creator");
#pragma omp task depend(out : a) shared(a)
		{
			for_a_moment();
			a = 5;
		}
#pragma omp task if (0) depend(in : a)
		expect(a == 5, "a task with a false if waits for what it depends on");
		expect(a == 5, "... and so does its creator");
#pragma omp task depend(out : a)
		a = 6;
#pragma omp task
		/* The thread that waits may run it itself. */
		for (int i = 0; i < 20 && !get(&gate); i++)
			for_a_moment();
#pragma omp taskwait depend(in : a)
		expect(a == 6, "taskwait with depend waits for the named");
		set(&gate, 1);
	}
}

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

/* Each iteration once, however a loop is divided, and the construct waits unless told not to. */
static void loops(void)
{
	enum { N = 1000 };
	static int seen[N];
	memset(seen, 0, sizeof seen);
	int tasks = 0, outside = 0, small = 0;
#pragma omp parallel
#pragma omp single
	{
#pragma omp taskloop
		for (int i = 0; i < N; i++)
			add(&seen[i]);
		for (int i = 0; i < N; i++)
			outside += get(&seen[i]) != 1;
#pragma omp taskloop num_tasks(7)
		for (int i = N - 1; i >= 0; i -= 3)
			add(&seen[i]);
#pragma omp taskloop grainsize(50)
		for (unsigned long long i = 0; i < N; i += 3)
			add(&seen[i]);
#pragma omp taskloop grainsize(strict : 64) nogroup
		for (unsigned long long i = N; i > 0; i--)
			add(&seen[i - 1]);
#pragma omp taskwait
		for (int i = 0; i < N; i++)
			outside += get(&seen[i]) != 2 + (i % 3 == 0) * 2;
#pragma omp taskloop collapse(2) num_tasks(5)
		for (int i = 0; i < 10; i++)
			for (int j = 0; j < 10; j++)
				add(&tasks);
#pragma omp taskloop if (0)
		for (int i = 0; i < 3; i++)
			small += i;
#pragma omp taskloop
		for (int i = 3; i < 3; i++)
			small += 100;
	}
	expect(outside == 0, "a taskloop runs each iteration once, and waits");
	expect(tasks == 100, "collapsed loops");
	expect(small == 3, "a taskloop with a false if, and an empty one");
}

/* Each thread adds up for itself, and all is there at the end. */
static void reductions(void)
{
	long sum = 5, inner = 1, most = 0;
	double product = 2;
#pragma omp parallel
#pragma omp single
	{
#pragma omp taskgroup task_reduction(+ : sum) task_reduction(max : most)
		{
			for (int i = 1; i <= 200; i++) {
#pragma omp task in_reduction(+ : sum) in_reduction(max : most) firstprivate(i)
				{
					sum += i;
					most = most > i ? most : i;
					/* A group within sees its own and those around it. */
					long own = 0;
#pragma omp taskgroup task_reduction(+ : own)
					{
#pragma omp task in_reduction(+ : own, sum)
						{
							own += 1;
							sum += 1;
						}
					}
#pragma omp atomic
					inner += own;
				}
			}
		}
		expect(sum == 5 + 200 * 201 / 2 + 200 && most == 200, "a task reduction is there at its group's end");
#pragma omp taskloop reduction(* : product) num_tasks(10)
		for (int i = 0; i < 20; i++)
			product *= 2;
		expect(product == 2097152, "a taskloop's reduction is there at its end");
#pragma omp taskloop reduction(+ : sum)
		for (int i = 7; i < 7; i++)
			sum += 1000;
	}
	expect(sum == 5 + 200 * 201 / 2 + 200, "an empty taskloop's reduction changes nothing");
	expect(inner == 201, "reductions of groups within tasks");
}

/* Regions in regions, and in tasks: each has its own tasks. */
static void nested(void)
{
	int done = 0, inner = 0, alone = 0;
	omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
	{
#pragma omp task
		{
#pragma omp parallel num_threads(3)
			{
#pragma omp task
				add(&inner);
#pragma omp barrier
				if (get(&inner) < omp_get_num_threads())
					add(&failures);
			}
			add(&done);
		}
#pragma omp parallel num_threads(2)
#pragma omp single
		{
			for (int i = 0; i < 10; i++) {
#pragma omp task
				add(&done);
			}
		}
#pragma omp parallel num_threads(1)
		{
#pragma omp task
			add(&alone);
#pragma omp taskwait
		}
	}
	omp_set_max_active_levels(1);
	expect(done == 22, "tasks of nested regions have run");
	expect(alone == 2, "tasks of regions of one thread have run");
}

/* Clauses that only ask, and a lot of everything. */
static void many(void)
{
	int done = 0, sum = 0;
	double weights[16] = { 0 };
#pragma omp parallel
	{
#pragma omp for
		for (int i = 0; i < 3000; i++) {
#pragma omp task untied mergeable priority(i % 5)
			add(&done);
		}
#pragma omp single
		for (int i = 0; i < 3000; i++) {
#pragma omp task depend(inout : weights[i % 16]) firstprivate(i)
			{
				weights[i % 16] += i;
#pragma omp taskyield
#pragma omp critical
				sum++;
			}
		}
	}
	double total = 0;
	for (int i = 0; i < 16; i++)
		total += weights[i];
	expect(done == 3000, "3,000 tasks by all threads");
	expect(sum == 3000 && total == 2999.0 * 3000 / 2, "3,000 tasks with dependences");
}

/* Tasks outside of regions are done at once. */
static void outside(void)
{
	int done = 0;
#pragma omp task shared(done)
	done = 1;
	expect(done == 1, "a task outside of regions is done at once");
#pragma omp taskgroup
	{
#pragma omp taskloop shared(done)
		for (int i = 0; i < 4; i++)
			add(&done);
	}
#pragma omp taskwait
	expect(done == 5, "a taskloop outside of regions");
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	{ "recursion", recursion }, { "barriers", barriers }, { "waiting", waiting },	{ "order", order },
	{ "wavefront", wavefront }, { "sets", sets },	      { "all_memory", all_memory }, { "at_once", at_once },
	{ "finals", finals },	    { "arguments", arguments }, { "loops", loops },	{ "reductions", reductions }, { "nested", nested },
	{ "many", many },	    { "outside", outside },
};

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int round = 0; round < rounds; round++)
		for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
			if (argc < 3 || strcmp(argv[2], checks[i].name) == 0)
				checks[i].run();
	printf("%s\n", failures ? "broken" : "kept");
	return failures != 0;
}
