/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cases about what threads do. */
#include "probe.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

/* A thread's window: what was added up, and switches, at its beginning. */
struct window {
	struct sums begun;
	struct switches switches;
};

static struct window begin(void)
{
	/* An unblock that is counted late would otherwise fall into the window, without its block. */
	SETTLES(all_ready() == 1);
	return (struct window){sums[cpus], switches()};
}

/* As many blocks and unblocks as the calling thread, which alone is registered, has gone to sleep. */
static long check(struct window *window)
{
	struct switches now;
	long will;

	for (int tries = 0;; tries++) {
		now = switches();
		will = now.will - window->switches.will;
		read_all();
		CHECK(sums[cpus].lost == 0);
		CHECK(sums[cpus].blocked - window->begun.blocked == will, "%ld of %ld, and %ld others",
		      sums[cpus].blocked - window->begun.blocked, will, now.other - window->switches.other);
		/* See SETTLES. */
		if (sums[cpus].unblocked - window->begun.unblocked == will)
			return will;
		CHECK(!strcmp(cox_umt_backend(), "bpf") && tries < 20);
		CHECK(sums[cpus].unblocked - window->begun.unblocked == will - 1);
		nap();
	}
}

static int pipes[2][2];

static void *echo(void *unused)
{
	char byte;

	while (read(pipes[0][0], &byte, 1) == 1)
		CHECK(write(pipes[1][1], &byte, 1) == 1);
	return unused;
}

static void *blocks_work(void *unused)
{
	char byte = 0;

	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	CHECK(!cox_umt_thread_ctrl(1), "once more changes nothing");
	for (int round = 0; round < 30; round++) {
		struct window window = begin();

		for (int at = 0; at < 5; at++) {
			nap();
			CHECK(write(pipes[0][1], &byte, 1) == 1 && read(pipes[1][0], &byte, 1) == 1);
		}
		CHECK(check(&window) >= 5);
		SETTLES(all_ready() == 1 && ready_by_sums(here) == 1 && cox_umt_ready(here) == 1);
	}
	CHECK(!cox_umt_thread_ctrl(0));
	CHECK(all_ready() == 0 && cox_umt_ready(here) == 0);
	/* From here on nothing counts. */
	struct sums before = sums[cpus];

	nap();
	read_all();
	CHECK(!memcmp(&before, &sums[cpus], sizeof(before)));
	return unused;
}

static void blocks(void)
{
	CHECK(!pipe(pipes[0]) && !pipe(pipes[1]));
	pthread_t partner = start(echo, NULL);

	join(start(blocks_work, NULL));
	close(pipes[0][1]);
	join(partner);
}

static atomic_bool enough;

static void *rival_work(void *unused)
{
	stay_on(here);
	while (!enough)
		;
	return unused;
}

static void *preempted_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	pthread_t rival = start(rival_work, NULL);

	for (int round = 0; round < 5; round++) {
		struct window window = begin();

		while (switches().other < window.switches.other + 3)
			sched_yield();
		while (switches().other < window.switches.other + 6)
			;
		check(&window);
		SETTLES(all_ready() == 1 && ready_by_sums(here) == 1 && cox_umt_ready(here) == 1);
	}
	enough = true;
	join(rival);
	return unused;
}

static void preempted(void)
{
	join(start(preempted_work, NULL));
	SETTLES(all_ready() == 0, "who has ended");
}

static atomic_int moving;

static void *moved_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	for (int round = 0; round < 40; round++) {
		int at = round % 2 ? here : there, other = round % 2 ? there : here;
		struct switches before = switches();
		long blocked = sums[cpus].blocked;

		stay_on(at);
		nap();
		/* In one go: what is read last is behind the last sleep. */
		SETTLES(all_ready() == 1 && ready_by_sums(at) == 1 && ready_by_sums(other) == 0 && cox_umt_ready(at) == 1 &&
				cox_umt_ready(other) == 0,
			"%ld, %ld", ready_by_sums(at), ready_by_sums(other));
		/* Each sleep, and one for who was moved while ready. */
		long extra = sums[cpus].blocked - blocked - (switches().will - before.will);

		CHECK(extra == 0 || extra == 1, "%ld", extra);
	}
	moving = gettid();
	while (moving)
		;
	return unused;
}

static void moved(void)
{
	pthread_t thread = start(moved_work, NULL);
	cpu_set_t mask;

	AWAIT(moving);
	/* Back and forth while it runs, by somebody else. */
	for (int round = 0; round < 20; round++) {
		int at = round % 2 ? here : there, other = round % 2 ? there : here;

		CPU_ZERO(&mask);
		CPU_SET(at, &mask);
		CHECK(!sched_setaffinity(moving, sizeof(mask), &mask));
		AWAIT(cox_umt_ready(at) == 1 && cox_umt_ready(other) == 0);
		CHECK(all_ready() == 1 && ready_by_sums(at) == 1 && ready_by_sums(other) == 0);
	}
	moving = 0;
	join(thread);
	SETTLES(all_ready() == 0);
}

static void *ends_work(void *wanted)
{
	CHECK(!cox_umt_thread_ctrl(1));
	if (wanted)
		pthread_exit(NULL);
	return NULL;
}

static void ends(void)
{
	/* More than there are places, one after the other: they are given back. */
	for (long round = 0; round < 600; round++)
		join(start(ends_work, (void *)(round % 2)));
	SETTLES(all_ready() == 0);
	for (int cpu = 0; cpu < cpus; cpu++)
		CHECK(ready_by_sums(cpu) == 0 && cox_umt_ready(cpu) == 0);
}

static atomic_long interrupted;

static void handler(int signal)
{
	(void)signal;
	interrupted++;
}

static void take_signals(void)
{
	struct sigaction action = {.sa_handler = handler};

	CHECK(!sigaction(SIGUSR1, &action, NULL));
}

static void *signalled_work(void *unused)
{
	char byte;

	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	for (int round = 0; round < 50; round++) {
		struct window window = begin();
		long before = interrupted;

		moving = 1;
		while (interrupted == before)
			CHECK(read(pipes[0][0], &byte, 1) == -1 && errno == EINTR);
		check(&window);
	}
	moving = 2;
	return unused;
}

static void signalled(void)
{
	CHECK(!pipe(pipes[0]));
	take_signals();
	pthread_t thread = start(signalled_work, NULL);

	while (moving != 2)
		/* Once it sleeps, and not before: see `phantoms`. */
		if (moving == 1 && cox_umt_ready(here) == 0) {
			moving = 0;
			CHECK(!pthread_kill(thread, SIGUSR1));
		} else {
			sched_yield();
		}
	join(thread);
}

static void *phantom_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	struct window window = begin();

	/* On a busy machine, each signal may come before the thread sleeps: then it has not gone to sleep at all, and there is nothing to compare. */
	while (interrupted < 20000 || switches().will < window.switches.will + 100) {
		nap();
		read_all();
	}
	/* Who finds a signal on the way to sleep is switched out or not, and counts as going to sleep by will, but it does not block. */
	long will = switches().will - window.switches.will;

	read_all();
	long blocked = sums[cpus].blocked - window.begun.blocked, unblocked = sums[cpus].unblocked - window.begun.unblocked;

	CHECK(blocked > 0 && blocked <= will, "%ld of %ld", blocked, will);
	CHECK(blocked - unblocked == 0 || (blocked - unblocked == 1 && !strcmp(cox_umt_backend(), "bpf")), "%ld", blocked - unblocked);
	SETTLES(all_ready() == 1 && ready_by_sums(here) == 1 && cox_umt_ready(here) == 1);
	enough = true;
	return unused;
}

static void phantoms(void)
{
	take_signals();
	pthread_t rival = start(rival_work, NULL);
	pthread_t thread = start(phantom_work, NULL);

	while (!enough)
		CHECK(!pthread_kill(thread, SIGUSR1));
	join(thread);
	join(rival);
	SETTLES(all_ready() == 0);
}

static void *stopped_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	struct window window = begin();

	for (int round = 0; round < 20; round++) {
		long before = interrupted;

		CHECK(!kill(getppid(), SIGUSR1));
		while (interrupted == before)
			if (round % 2)
				nap();
		check(&window);
		window = begin();
	}
	return unused;
}

/* The child stops and goes on, by hand of its parent, which it asks for it. */
static void stopped(void)
{
	sigset_t mask;
	int status;

	cox_umt_disable();
	take_signals();
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigaddset(&mask, SIGCHLD);
	CHECK(!sigprocmask(SIG_BLOCK, &mask, NULL));
	pid_t child = fork();

	if (!child) {
		CHECK(!sigprocmask(SIG_UNBLOCK, &mask, NULL));
		CHECK(cox_umt_enable(0) == cpus, "%s", strerror(errno));
		join(start(stopped_work, NULL));
		SETTLES(all_ready() == 0);
		_exit(0);
	}
	for (;;) {
		int signal = sigwaitinfo(&mask, NULL);

		if (signal == SIGUSR1) {
			CHECK(!kill(child, SIGSTOP));
			CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status), "%x", status);
			CHECK(!kill(child, SIGCONT) && !kill(child, SIGUSR1));
		} else if (waitpid(child, &status, WNOHANG) == child) {
			CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);
			return;
		}
	}
}

#define PAGES 20
static char *faulty;

static void *faults_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	for (int page = 0; page < PAGES; page++) {
		struct window window = begin();

		CHECK(((volatile char *)faulty)[page * 4096] == 7);
		CHECK(check(&window) >= 1);
	}
	return unused;
}

static void faults(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API};
	char page[4096];

	if (fd < 0) {
		printf("skipped: userfaultfd: %s\n", strerror(errno));
		return;
	}
	memset(page, 7, sizeof(page));
	faulty = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {{(unsigned long)faulty, PAGES * 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};

	CHECK(faulty != MAP_FAILED && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &range));
	pthread_t thread = start(faults_work, NULL);

	for (int at = 0; at < PAGES; at++) {
		struct uffd_msg message;

		CHECK(read(fd, &message, sizeof(message)) == sizeof(message));
		/* It sleeps for as long as the page is not there. */
		AWAIT(cox_umt_ready(here) == 0);
		struct uffdio_copy copy = {message.arg.pagefault.address & ~4095ul, (unsigned long)page, 4096, 0, 0};

		CHECK(!ioctl(fd, UFFDIO_COPY, &copy));
	}
	join(thread);
}

static atomic_bool has_run;

static void *queued_work(void *unused)
{
	char byte;

	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	moving = 1;
	CHECK(read(pipes[0][0], &byte, 1) == 1);
	has_run = true;
	return unused;
}

static void *first_work(void *unused)
{
	struct sched_param first = {.sched_priority = 1};

	stay_on(here);
	CHECK(!pthread_setschedparam(pthread_self(), SCHED_FIFO, &first));
	moving = 2;
	while (!enough)
		;
	return unused;
}

/* With bpf who is woken is ready before it runs: behind a thread that is always first. */
static void queued(void)
{
	char byte = 0;

	if (here == there) {
		puts("skipped: needs two CPUs");
		return;
	}
	CHECK(!pipe(pipes[0]));
	stay_on(there);
	pthread_t thread = start(queued_work, NULL);

	AWAIT(moving == 1 && cox_umt_ready(here) == 0);
	pthread_t first = start(first_work, NULL);

	AWAIT(moving == 2);
	CHECK(write(pipes[0][1], &byte, 1) == 1);
	AWAIT(cox_umt_ready(here) == 1);
	CHECK(!has_run);
	enough = true;
	join(first);
	join(thread);
}

static atomic_long will_of_both, ready_to_go;

static void *pong_work(void *side)
{
	int at = (int)(long)side;
	char byte = 0;

	stay_on(at ? there : here);
	CHECK(!cox_umt_thread_ctrl(1));
	ready_to_go++;
	while (ready_to_go != 3)
		;
	long before = switches().will;

	for (int round = 0; round < 2000; round++)
		CHECK(at ? read(pipes[0][0], &byte, 1) == 1 && write(pipes[1][1], &byte, 1) == 1
			 : write(pipes[0][1], &byte, 1) == 1 && read(pipes[1][0], &byte, 1) == 1);
	will_of_both += switches().will - before;
	ready_to_go++;
	while (ready_to_go != 6)
		;
	return NULL;
}

static void pong(void)
{
	CHECK(!pipe(pipes[0]) && !pipe(pipes[1]));
	pthread_t both[2] = {start(pong_work, (void *)0), start(pong_work, (void *)1)};

	AWAIT(ready_to_go == 2);
	read_all();
	struct sums before = sums[cpus];

	/* Who spins is ready. */
	CHECK(ready_by_sums(cpus) == 2 && cox_umt_ready(here) + (here == there ? 0 : cox_umt_ready(there)) == 2);
	ready_to_go++;
	AWAIT((read_all(), ready_to_go == 5));
	read_all();
	if (sums[cpus].lost == before.lost)
		CHECK(sums[cpus].blocked - before.blocked == will_of_both && sums[cpus].unblocked - before.unblocked == will_of_both,
		      "%ld and %ld of %ld", sums[cpus].blocked - before.blocked, sums[cpus].unblocked - before.unblocked,
		      (long)will_of_both);
	CHECK(ready_by_sums(here) + (here == there ? 0 : ready_by_sums(there)) == 2);
	ready_to_go++;
	join(both[0]);
	join(both[1]);
	SETTLES(all_ready() == 0);
}

static void executes(void)
{
	CHECK(!cox_umt_thread_ctrl(1));
	execl("/proc/self/exe", "probe", "blocks", cox_umt_backend(), NULL);
	CHECK(false, "%s", strerror(errno));
}

static void *lost_work(void *unused)
{
	stay_on(here);
	CHECK(!cox_umt_thread_ctrl(1));
	read_all();
	for (int at = 0; at < 1000; at++)
		nap();
	SETTLES(all_ready() == 1 && ready_by_sums(here) == 1);
	CHECK((sums[cpus].lost > 0) == !strcmp(cox_umt_backend(), "perf"));
	struct window window = begin();

	sums[cpus].lost = 0;
	nap();
	check(&window);
	return unused;
}

static void lost(void)
{
	join(start(lost_work, NULL));
	SETTLES(all_ready() == 0);
}

const struct cases threads_cases[] = {
	{"blocks", blocks}, {"preempted", preempted}, {"moved", moved}, {"ends", ends}, {"signalled", signalled},
	{"phantoms", phantoms}, {"stopped", stopped}, {"faults", faults}, {"queued", queued}, {"pong", pong}, {"executes", executes},
	{"lost", lost}, {NULL, NULL},
};
