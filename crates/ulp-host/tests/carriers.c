/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a program does while cox moves it between its kernel task and a carrier. Usage: carriers MODE WHAT [COUNT]
 *
 * MODE: policy (cox decides), decoupled (asks for it at each yield), coupled (stays at home). Prints one line, or what is wrong.
 */
#include <cox_ulp.h>

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *mode;
static __thread int in_tls;
static int in_data;
static volatile sig_atomic_t arrived, sender;

static void yield(void)
{
	if (*mode == 'd')
		cox_ulp_decouple();
	cox_ulp_yield();
}

static void wrong(const char *what)
{
	printf("%d: wrong: %s\n", cox_ulp_number(), what);
	fflush(stdout);
	_exit(1);
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void note(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	sender = info->si_pid;
	arrived++;
}

static void *thread(void *argument)
{
	cox_ulp_yield();
	in_tls = -1;
	return argument;
}

static void check_memory(int i)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		wrong("mmap");
	page[4096] = i;
	yield();
	if (page[4096] != (char)i || mprotect(page, 4096, PROT_READ) || munmap(page, 8192))
		wrong("memory");
}

/* Everything that belongs to a process, between yields. */
static void mixed(int rounds)
{
	pid_t pid = getpid();
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &action, NULL);
	fesetround(cox_ulp_number() % 2 ? FE_UPWARD : FE_DOWNWARD);
	int rounding = fegetround();
	for (int i = 0; i < rounds; i++) {
		in_tls++;
		in_data++;
		errno = i;
		yield();
		if (errno != i)
			wrong("errno");
		if (getpid() != pid)
			wrong("getpid");
		yield();
		kill(pid, SIGUSR1);
		if (arrived != i + 1 || sender != pid)
			wrong("a signal to itself");
		double value = i * 1.5;
		char text[64];
		yield();
		snprintf(text, sizeof text, "%.1f", value);
		if (strtod(text, NULL) != value)
			wrong("floating point");
		if (fegetround() != rounding)
			wrong("rounding");
		check_memory(i);
		if (i % 50 == 0) {
			pid_t child = fork();
			if (!child) {
				cox_ulp_yield();
				_exit(getpid() == pid || cox_ulp_couple() != -EPERM || cox_ulp_number() != -ESRCH ||
				      cox_ulp_count() != 1);
			}
			yield();
			int status;
			if (waitpid(child, &status, 0) != child || status)
				wrong("fork");
			pthread_t other;
			void *result;
			pthread_create(&other, NULL, thread, (void *)5);
			yield();
			if (pthread_join(other, &result) || result != (void *)5)
				wrong("a thread");
		}
		if (in_tls != i + 1 || in_data != i + 1)
			wrong("variables");
	}
	printf("%d ok\n", cox_ulp_number());
}

static void overflow(int depth)
{
	volatile char page[4096];
	memset((char *)page, depth, sizeof page);
	if (depth >= 0)
		overflow(depth + 1);
	page[0] = 1;
}

/* A ULP of rank 1 ends badly on a carrier; the others yield on. */
static void crash(const char *how)
{
	cox_ulp_decouple();
	for (int i = 0; i < 2000; i++)
		cox_ulp_yield();
	if (cox_ulp_number() == 1) {
		if (!strcmp(how, "segv"))
			*(volatile int *)8 = 1;
		if (!strcmp(how, "overflow"))
			overflow(0);
		if (!strcmp(how, "abort"))
			abort();
		if (!strcmp(how, "exit"))
			exit(7);
		if (!strcmp(how, "trap"))
			__asm__ volatile("int3");
		if (!strcmp(how, "long trap"))
			__asm__ volatile(".byte 0xcd, 3");
		if (!strcmp(how, "divide")) {
			volatile int dividend = 7, divisor = 0;
			dividend = dividend / divisor;
		}
	}
	for (int i = 0; i < 2000; i++)
		cox_ulp_yield();
	printf("%d ok\n", cox_ulp_number());
}

/* Rank 0 computes without yielding. The others, which share a carrier with it, still end. */
static void hog(void)
{
	cox_ulp_decouple();
	if (cox_ulp_number() == 0)
		for (volatile int i = 0;; i++)
			;
	double end = seconds() + 0.3;
	while (seconds() < end)
		cox_ulp_yield();
	printf("%d ok\n", cox_ulp_number());
}

/* Waits on a carrier for a signal from outside, without a system call. */
static void await_signal(void)
{
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &action, NULL);
	printf("%d ready\n", getpid());
	fflush(stdout);
	cox_ulp_decouple();
	while (!arrived)
		cox_ulp_yield();
	printf("%d from %d\n", getpid(), sender);
}

static void yields(int rounds)
{
	for (int i = 0; i < rounds; i++)
		cox_ulp_yield();
	printf("%d ok\n", cox_ulp_number());
}

static struct cox_ulp_barrier barrier;

/* Returns the barrier of rank 0, which all share. */
static struct cox_ulp_barrier *shared_barrier(void)
{
	void *address;
	barrier.count = cox_ulp_count();
	if (cox_ulp_export("barrier", &barrier) || cox_ulp_import(0, "barrier", &address))
		wrong("the barrier");
	return (struct cox_ulp_barrier *)address;
}

static int done;

/* On one CPU, all are on one carrier, and continue each other directly: each of them this often, while all are there. */
static void ring(int rounds)
{
	int number = cox_ulp_number(), count = cox_ulp_count(), direct = 0;
	void *address;
	if (cox_ulp_export("done", &done) || cox_ulp_import(0, "done", &address))
		wrong("the counter");
	double end = seconds() + 10;
	while (__atomic_load_n((int *)address, __ATOMIC_RELAXED) < count && seconds() < end)
		if (cox_ulp_yield_to((number + 1) % count) == 0 && ++direct == rounds)
			__atomic_add_fetch((int *)address, 1, __ATOMIC_RELAXED);
	if (cox_ulp_yield_to(count) != -EINVAL || cox_ulp_yield_to(-1) != -EINVAL)
		wrong("a number that does not exist");
	if (direct < rounds)
		wrong("yields to the next one");
	cox_ulp_barrier_wait(shared_barrier());
	printf("%d ok\n", number);
}

static volatile sig_atomic_t values[8];

static void keep_value(int signal, siginfo_t *info, void *context)
{
	(void)context;
	values[arrived++] = 1000 * signal + info->si_value.sival_int;
}

/* Sends signals to the process while its main thread is on a carrier. The first one is blocked there, and this thread waits for it. */
static void *send_signals(void *argument)
{
	pid_t pid = getpid();
	sigset_t set;
	int signal;
	usleep(20000);
	kill(pid, SIGUSR2);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	if (sigwait(&set, &signal) || signal != SIGUSR2)
		wrong("sigwait");
	for (int i = 0; i < 3; i++)
		sigqueue(pid, SIGRTMIN + 1, (union sigval){.sival_int = i});
	sigqueue(pid, SIGRTMAX, (union sigval){.sival_int = 9});
	return argument;
}

static void queued(void)
{
	struct sigaction action = {.sa_sigaction = keep_value, .sa_flags = SA_SIGINFO};
	sigset_t all, second, before;
	pthread_t other;
	sigfillset(&action.sa_mask);
	sigaction(SIGRTMIN + 1, &action, NULL);
	sigaction(SIGRTMAX, &action, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_create(&other, NULL, send_signals, NULL);
	sigemptyset(&second);
	sigaddset(&second, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &second, NULL);
	while (arrived < 4)
		yield();
	pthread_join(other, NULL);
	int first = 1000 * (SIGRTMIN + 1);
	if (values[0] != first || values[1] != first + 1 || values[2] != first + 2 || values[3] != 1000 * SIGRTMAX + 9)
		wrong("the order of signals");
	printf("%d ok\n", cox_ulp_number());
}

static int steps;

/* All take steps together: whoever is a step ahead, or behind, is wrong. Rank 0 has the barrier; signals come between. */
static void together(int rounds)
{
	struct cox_ulp_barrier *shared = shared_barrier();
	void *address;
	int number = cox_ulp_number(), count = cox_ulp_count(), *others[64], last = 0;
	struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &action, NULL);
	if (cox_ulp_export("steps", &steps) || cox_ulp_export("steps", 0) != -EEXIST)
		wrong("export");
	if (cox_ulp_import(count, "steps", &address) != -EINVAL)
		wrong("import");
	for (int i = 0; i < count; i++) {
		if (cox_ulp_import(i, "steps", &address))
			wrong("import");
		others[i] = address;
	}
	for (int i = 1; i <= rounds; i++) {
		if (i % 10 == number)
			kill(getpid(), SIGUSR1);
		__atomic_store_n(&steps, i, __ATOMIC_RELAXED);
		if (*mode == 'd')
			cox_ulp_decouple();
		last += cox_ulp_barrier_wait(shared);
		for (int other = 0; other < count; other++)
			if (__atomic_load_n(others[other], __ATOMIC_RELAXED) != i)
				wrong("a step");
		last += cox_ulp_barrier_wait(shared);
	}
	address = &last;
	static int all;
	if (cox_ulp_export("all", &all) || cox_ulp_import(0, "all", &address))
		wrong("all");
	__atomic_add_fetch((int *)address, last, __ATOMIC_RELAXED);
	cox_ulp_barrier_wait(shared);
	if (*(int *)address != 2 * rounds)
		wrong("the last ones");
	/* What the others read is this ULP's memory. */
	cox_ulp_barrier_wait(shared);
	printf("%d ok\n", number);
}

static struct shared {
	struct cox_ulp_mutex mutex;
	/* Who holds it; 0: nobody. */
	int holder;
	long sum;
} shared;

/* Whoever finds another one inside is wrong, and so is the sum if a step was lost. */
static void exclusive(int rounds)
{
	void *address;
	int number = cox_ulp_number(), count = cox_ulp_count(), failed = 0;
	if (cox_ulp_export("shared", &shared) || cox_ulp_import(0, "shared", &address))
		wrong("the mutex");
	struct shared *all = (struct shared *)address;
	struct cox_ulp_barrier *end = shared_barrier();
	for (int i = 0; i < rounds; i++) {
		if (cox_ulp_mutex_trylock(&all->mutex)) {
			failed++;
			cox_ulp_mutex_lock(&all->mutex);
		}
		if (all->holder)
			wrong("two at once");
		all->holder = number + 1;
		long sum = all->sum;
		/* Sometimes at home, sometimes on a carrier; and so that others come meanwhile. */
		if (i % 3)
			yield();
		if (i % 50 == number)
			usleep(10);
		all->sum = sum + 1;
		all->holder = 0;
		cox_ulp_mutex_unlock(&all->mutex);
	}
	cox_ulp_barrier_wait(end);
	if (all->sum != (long)rounds * count)
		wrong("the sum");
	if (!failed)
		wrong("nobody had to wait");
	cox_ulp_barrier_wait(end);
	printf("%d ok\n", number);
}

/* Computes on a carrier, for ever. */
static void endless(void)
{
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		yield();
}

int main(int count, char **arguments)
{
	if (count < 3)
		return 2;
	mode = arguments[1];
	const char *what = arguments[2];
	int rounds = count > 3 ? atoi(arguments[3]) : 200;
	if (*mode == 'c')
		cox_ulp_couple();
	if (!strcmp(what, "mixed"))
		mixed(rounds);
	else if (!strcmp(what, "hog"))
		hog();
	else if (!strcmp(what, "endless"))
		endless();
	else if (!strcmp(what, "signal"))
		await_signal();
	else if (!strcmp(what, "together"))
		together(rounds);
	else if (!strcmp(what, "yields"))
		yields(rounds);
	else if (!strcmp(what, "queued"))
		queued();
	else if (!strcmp(what, "exclusive"))
		exclusive(rounds);
	else if (!strcmp(what, "ring"))
		ring(rounds);
	else
		crash(what);
	return 0;
}
