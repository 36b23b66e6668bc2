/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cases about descriptors, and about what is enabled. */
#include "probe.h"

#define ROUNDS 300
#define MANY 150

static atomic_long heard[2]; /* blocks that were heard of, by place */
static atomic_int busy;
static atomic_bool over;

static int place(int at)
{
	return at ? there : here;
}

/* Blocks, and then waits without blocking until somebody has heard of it who is woken by that alone. */
static void *told_work(void *at)
{
	long side = (long)at;

	stay_on(place((int)side));
	CHECK(!cox_umt_thread_ctrl(1));
	for (int round = 0; round < ROUNDS; round++) {
		long before = heard[side];

		nap();
		AWAIT(heard[side] != before);
	}
	busy--;
	return NULL;
}

static void hear(int side)
{
	struct cox_umt_counts counts;

	CHECK(cox_umt_read(place(side), &counts) >= 0);
	heard[side] += counts.blocked;
}

static void await(int fd)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};

	CHECK(fd >= 0, "%s", strerror(errno));
	while (poll(&wanted, 1, PATIENCE_S * 1000) != 1)
		CHECK(over, "nobody was woken");
}

static void *hears_work(void *at)
{
	long side = (long)at;

	while (!over) {
		await(cox_umt_fd(place((int)side)));
		hear((int)side);
	}
	return NULL;
}

/* A thread for each CPU that polls its descriptor, and hears of each block there. */
static void each(void)
{
	int sides = here == there ? 1 : 2;
	pthread_t hears[2], told[2];

	busy = sides;
	for (long at = 0; at < sides; at++) {
		hears[at] = start(hears_work, (void *)at);
		told[at] = start(told_work, (void *)at);
	}
	for (int at = 0; at < sides; at++)
		join(told[at]);
	CHECK(busy == 0);
	over = true;
	/* Ready for the last time. */
	for (long at = 0; at < sides; at++) {
		told[at] = start(told_work, (void *)at);
		join(hears[at]);
		heard[at]++;
	}
}

static void *leads_work(void *unused)
{
	while (!over) {
		await(cox_umt_fd(-1));
		for (int at = 0; at < 2; at++)
			hear(at);
	}
	return unused;
}

/* One thread that polls for all CPUs. */
static void any(void)
{
	pthread_t leader = start(leads_work, NULL), told[2];

	busy = 2;
	for (long at = 0; at < 2; at++)
		told[at] = start(told_work, (void *)at);
	for (int at = 0; at < 2; at++)
		join(told[at]);
	over = true;
	pthread_cancel(leader);
}

static bool is_readable(int fd)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};

	return poll(&wanted, 1, 0) == 1 && wanted.revents & POLLIN;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stays, gone;

static void *stays_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	do {
		stays = true;
		while (!gone)
			;
		nap();
		stays = false;
		while (gone)
			;
	} while (!over);
	return unused;
}

static void *naps_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	for (int at = 0; at < 5; at++)
		nap();
	return unused;
}

/* Who is told, and reads another CPU, leaves it to others to be told of this one. */
static void shares(void)
{
	int own = cox_umt_fd(here), other = cox_umt_fd(there);
	pthread_t thread = start(stays_work, NULL);

	AWAIT(stays);
	for (int round = 0; round < 50; round++) {
		read_all();
		gone = true;
		AWAIT(!stays);
		is_readable(other);
		CHECK(cox_umt_read(there, NULL) >= 0);
		CHECK(is_readable(own));
		read_all();
		if (round == 49)
			break;
		gone = false;
		AWAIT(stays);
	}
	over = true;
	gone = false;
	join(thread);
}

/* Rung only where nobody is left. */
static void idle(void)
{
	int fd = cox_umt_fd(here);
	pthread_t thread = start(stays_work, NULL);

	AWAIT(stays);
	read_all();
	join(start(naps_work, NULL));
	CHECK(!is_readable(fd), "another is ready there");
	read_all();
	CHECK(sums[here].blocked >= 5);
	gone = true;
	AWAIT(!stays);
	CHECK(is_readable(fd), "nobody was ready there");
	read_all();
	CHECK(!is_readable(fd), "read");
	over = true;
	gone = false;
	join(thread);
}

static void *locked_work(void *unused)
{
	CHECK(!cox_umt_thread_ctrl(1));
	busy++;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return unused;
}

/* Nobody who is forked, or is told wrong numbers, does harm. */
static void forked(void)
{
	int fd = cox_umt_fd(-1), status;

	pthread_mutex_lock(&lock);
	pthread_t thread = start(locked_work, NULL);

	AWAIT(busy && all_ready() == 0);
	pid_t child = fork();

	if (!child) {
		CHECK(!strcmp(cox_umt_backend(), "off"));
		CHECK(cox_umt_thread_ctrl(1) == -1 && errno == ENOTCONN);
		CHECK(cox_umt_fd(-1) == -1 && errno == ENOTCONN && !is_readable(fd));
		CHECK(cox_umt_read(0, NULL) == -1 && errno == ENOTCONN && cox_umt_ready(0) == -1 && errno == ENOTCONN);
		CHECK(cox_umt_enable(0) == cpus, "%s", strerror(errno));
		memset(sums, 0, sizeof(sums));
		CHECK(!cox_umt_thread_ctrl(1) && all_ready() == 1);
		nap();
		CHECK(!cox_umt_thread_ctrl(0) && all_ready() == 0);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0, "%x", status);
	CHECK(all_ready() == 0);
	pthread_mutex_unlock(&lock);
	join(thread);
	CHECK(is_readable(fd));
	CHECK(all_ready() == 0);
}

static void wrong(void)
{
	char backend[8];

	strcpy(backend, cox_umt_backend());
	CHECK(cox_umt_enable(0) == -1 && errno == EBUSY);
	CHECK(cox_umt_fd(cpus) == -1 && errno == EINVAL && cox_umt_fd(-2) == -1 && errno == EINVAL);
	CHECK(cox_umt_read(-1, NULL) == -1 && errno == EINVAL && cox_umt_read(cpus, NULL) == -1 && errno == EINVAL);
	CHECK(cox_umt_ready(-1) == -1 && errno == EINVAL);
	CHECK(!cox_umt_thread_ctrl(0), "who is not registered");
	for (int round = 0; round < 3; round++) {
		int fd = cox_umt_fd(here);

		CHECK(fd >= 0 && cox_umt_fd(here) == fd && cox_umt_fd(-1) >= 0 && cox_umt_fd(-1) != fd);
		CHECK(!cox_umt_thread_ctrl(1));
		CHECK(all_ready() == 1);
		cox_umt_disable();
		CHECK(!strcmp(cox_umt_backend(), "off"));
		CHECK(cox_umt_enable(8) == -1 && errno == EINVAL);
		nap();
		CHECK(cox_umt_enable(COX_UMT_BLOCKS | COX_UMT_UNBLOCKS) == cpus && !strcmp(cox_umt_backend(), backend));
		memset(sums, 0, sizeof(sums));
		nap();
		CHECK(all_ready() == 0, "who was registered is no more");
	}
}

/* The session ends, and it goes on without. */
static void abandoned(void)
{
	CHECK(!cox_umt_thread_ctrl(1));
	await(cox_umt_fd(-1));
	read_all();
	CHECK(!is_readable(cox_umt_fd(-1)));
	CHECK(!kill(getppid(), SIGKILL));
	await(cox_umt_fd(-1));
	while (cox_umt_read(here, NULL) != -1)
		;
	CHECK(errno == ECONNRESET);
	cox_umt_disable();
	CHECK(cox_umt_enable(0) == cpus && !strcmp(cox_umt_backend(), "perf"));
	memset(sums, 0, sizeof(sums));
	CHECK(!cox_umt_thread_ctrl(1) && all_ready() == 1);
	await(cox_umt_fd(-1));
	puts("went on");
}

/* As many as are ready, or blocked, on one CPU. */
static void many(void)
{
	pthread_t all[MANY];

	for (int round = 0; round < 3; round++) {
		pthread_mutex_lock(&lock);
		busy = 0;
		for (int at = 0; at < MANY; at++)
			all[at] = start(locked_work, NULL);
		AWAIT(busy == MANY && all_ready() == 0);
		for (int cpu = 0; cpu < cpus; cpu++)
			CHECK(cox_umt_ready(cpu) == 0 && ready_by_sums(cpu) == 0);
		pthread_mutex_unlock(&lock);
		for (int at = 0; at < MANY; at++)
			join(all[at]);
		CHECK(all_ready() == 0);
	}
}

const struct cases descriptor_cases[] = {
	{"abandoned", abandoned}, {"each", each}, {"any", any}, {"shares", shares}, {"idle", idle}, {"forked", forked}, {"wrong", wrong}, {"many", many}, {NULL, NULL},
};
