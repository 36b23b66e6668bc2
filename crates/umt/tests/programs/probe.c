/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compares the library's counts with the kernel's own counts of the same threads. `probe CASE BACKEND` exits with 0 if they agree.
 */
#include "probe.h"

int cpus, here, there;
struct sums sums[1025];

void read_all(void)
{
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct cox_umt_counts counts;
		int got = cox_umt_read(cpu, &counts);

		CHECK(got >= 0, "%s", strerror(errno));
		CHECK((got == 1) == (counts.blocked || counts.unblocked));
		for (int at = cpu; at <= cpus; at += cpus - cpu) {
			sums[at].blocked += counts.blocked;
			sums[at].unblocked += counts.unblocked;
			sums[at].lost += counts.lost;
			if (at == cpus)
				break;
		}
	}
}

long ready_by_sums(int cpu)
{
	return sums[cpu].unblocked - sums[cpu].blocked;
}

long all_ready(void)
{
	read_all();
	return ready_by_sums(cpus);
}

struct switches switches(void)
{
	struct rusage usage;

	CHECK(!getrusage(RUSAGE_THREAD, &usage));
	return (struct switches){usage.ru_nvcsw, usage.ru_nivcsw};
}

void stay_on(int cpu)
{
	cpu_set_t mask;

	CPU_ZERO(&mask);
	CPU_SET(cpu, &mask);
	CHECK(!sched_setaffinity(0, sizeof(mask), &mask));
}

void nap(void)
{
	struct timespec instant = {.tv_nsec = 1000};
	long will = switches().will;

	/* The time may be over before it has gone to sleep. */
	while (switches().will == will)
		nanosleep(&instant, NULL);
}

pthread_t start(void *(*work)(void *), void *argument)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, work, argument));
	return thread;
}

void join(pthread_t thread)
{
	CHECK(!pthread_join(thread, NULL));
}

static void choose_cpus(void)
{
	cpu_set_t allowed;

	CHECK(!sched_getaffinity(0, sizeof(allowed), &allowed));
	for (here = 0; !CPU_ISSET(here, &allowed);)
		here++;
	there = here;
	for (int cpu = here + 1; cpu < CPU_SETSIZE && there == here; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			there = cpu;
}

static bool run(const struct cases *all, const char *name)
{
	for (; all->name; all++)
		if (!strcmp(all->name, name)) {
			all->run();
			return true;
		}
	return false;
}

int main(int count, char **arguments)
{
	CHECK(count == 3);
	choose_cpus();
	/* Its flags are its own. */
	cpus = strcmp(arguments[1], "idle") ? cox_umt_enable(0) : cox_umt_enable(COX_UMT_IDLE);
	CHECK(cpus > there, "%d: %s", cpus, strerror(errno));
	CHECK(!strcmp(cox_umt_backend(), arguments[2]), "%s", cox_umt_backend());
	CHECK(run(threads_cases, arguments[1]) || run(descriptor_cases, arguments[1]), "no case %s", arguments[1]);
	return 0;
}
