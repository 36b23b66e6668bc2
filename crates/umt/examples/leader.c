/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small version of the paper's runtime. Tasks compute and block. A worker is bound to each CPU. The leader starts a spare worker on a CPU
 * that has no ready worker. A worker surrenders its CPU if another worker is ready there.
 *
 *   cc -O2 -pthread leader.c -lcox_umt -o leader
 *   ./leader [TASKS]                             backend perf
 *   cox run --overlap=bpf -- ./leader [TASKS]    backend bpf
 */
#define _GNU_SOURCE
#include <cox_umt.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST 64 /* largest number of workers on a CPU */

static atomic_int next_task, ended, spares, surrendered;
static atomic_int workers[1024]; /* number of workers, by CPU */
static int tasks = 200;
static int leader_bell[2]; /* a pipe that is written when the last task has ended */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* A task: some work, a sleep that only the kernel can see, some work. */
static void run_task(void)
{
	struct timespec wait = {.tv_nsec = 2000000};
	volatile unsigned work = 0;

	while (work < 300000)
		work++;
	nanosleep(&wait, NULL);
	while (work < 600000)
		work++;
}

static void *worker(void *argument)
{
	int cpu = (int)(long)argument;

	if (cox_umt_thread_ctrl(1))
		die("cox_umt_thread_ctrl");
	while (atomic_fetch_add(&next_task, 1) < tasks) {
		run_task();
		if (atomic_fetch_add(&ended, 1) + 1 == tasks && write(leader_bell[1], "", 1) != 1)
			die("write");
		/* A scheduling point. If another worker has come back to this CPU, surrender; the last worker stays. */
		if (cox_umt_ready(cpu) > 1) {
			int others = atomic_load(&workers[cpu]);

			while (others > 1 && !atomic_compare_exchange_weak(&workers[cpu], &others, others - 1))
				;
			if (others > 1) {
				atomic_fetch_add(&surrendered, 1);
				return NULL;
			}
		}
	}
	return NULL;
}

/* Starts a worker that is bound to this CPU. */
static void start(int cpu)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setaffinity_np(&attributes, sizeof(here), &here);
	atomic_fetch_add(&workers[cpu], 1);
	if (pthread_create(&thread, &attributes, worker, (void *)(long)cpu))
		die("pthread_create");
	pthread_attr_destroy(&attributes);
}

int main(int count, char **arguments)
{
	struct pollfd wanted[2] = {{.events = POLLIN}, {.events = POLLIN}};
	cpu_set_t allowed;
	int cpus = cox_umt_enable(COX_UMT_IDLE);

	if (cpus < 0)
		die("cox_umt_enable");
	if (count > 1)
		tasks = atoi(arguments[1]);
	if (tasks < 1 || pipe(leader_bell) || sched_getaffinity(0, sizeof(allowed), &allowed))
		die("leader");
	wanted[0].fd = cox_umt_fd(-1);
	wanted[1].fd = leader_bell[0];
	for (int cpu = 0; cpu < cpus; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			start(cpu);
	while (atomic_load(&ended) < tasks) {
		/* Like the paper's leader, look at least every millisecond: a worker that was just started is not ready anywhere yet. */
		poll(wanted, 2, 1);
		for (int cpu = 0; cpu < cpus; cpu++) {
			if (!CPU_ISSET(cpu, &allowed))
				continue;
			if (cox_umt_read(cpu, NULL) < 0)
				die("cox_umt_read");
			if (cox_umt_ready(cpu) == 0 && atomic_load(&next_task) < tasks && atomic_load(&workers[cpu]) < MOST) {
				atomic_fetch_add(&spares, 1);
				start(cpu);
			}
		}
	}
	printf("%s: %d tasks, %d spare workers, %d surrenders\n", cox_umt_backend(), atomic_load(&ended),
	       atomic_load(&spares), atomic_load(&surrendered));
	return 0;
}
