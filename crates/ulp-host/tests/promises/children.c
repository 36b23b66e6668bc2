/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A ULP's children are its own, and ordinary processes. */
#include "promises.h"

#include <cox_ulp.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static volatile sig_atomic_t ended;
static int forks;

static void note_end(int signal)
{
	(void)signal;
	ended++;
}

static void count_fork(void)
{
	forks++;
}

/* Waits for a child. Returns how it ended. */
static int status_of(pid_t child)
{
	int status = -1;
	step();
	CHECK(child > 0);
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static int ended_with(pid_t child, int code)
{
	int status = status_of(child);
	return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

void fork_and_wait(void)
{
	static int variable;
	pid_t pid = getpid();
	struct sigaction action = {.sa_handler = note_end, .sa_flags = SA_RESTART};
	sigaction(SIGCHLD, &action, NULL);
	CHECK(pthread_atfork(count_fork, count_fork, NULL) == 0);
	char *heap = malloc(1 << 20);
	memset(heap, me + 1, 1 << 20);
	variable = me;
	meet();
	for (int i = 1; i <= 3; i++) {
		step();
		pid_t child = fork();
		if (!child) {
			int right = variable == me && heap[99999] == me + 1 && getppid() == pid && getpid() != pid && getenv("RANK");
			variable = heap[99999] = -1;
			/* It has its memory to itself, and is no ULP. */
			cox_ulp_yield();
			right &= cox_ulp_number() == -ESRCH && cox_ulp_decouple() == -EPERM && malloc(5 << 20) != NULL;
			_exit(right ? 10 + me : 1);
		}
		CHECK(ended_with(child, 10 + me) && variable == me && heap[99999] == me + 1);
		while (ended < i)
			step();
		CHECK(ended == i && forks == 2 * i);
	}
	step();
	pid_t child = fork();
	if (!child) {
		pause();
		_exit(1);
	}
	step();
	CHECK(kill(child, SIGTERM) == 0 && status_of(child) == SIGTERM);
	/* A child's child. */
	step();
	child = fork();
	if (!child) {
		int status;
		pid_t grandchild = fork();
		if (!grandchild)
			_exit(7);
		_exit(waitpid(grandchild, &status, 0) == grandchild && WEXITSTATUS(status) == 7 ? 8 : 1);
	}
	CHECK(ended_with(child, 8));
	/* Others may have children now, which are not this one's. */
	step();
	CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
	free(heap);
}

void commands(void)
{
	char number[16], command[64], line[64], right[64];
	snprintf(number, sizeof number, "%d", me);
	CHECK(setenv("OWN", number, 1) == 0);
	meet();
	CHECK(WEXITSTATUS(system("exit $((OWN + 3))")) == me + 3);
	step();
	FILE *from = popen("echo $OWN $PPID", "r");
	CHECK(from);
	step();
	snprintf(right, sizeof right, "%d %d\n", me, getpid());
	CHECK(fgets(line, sizeof line, from) && !strcmp(line, right));
	step();
	CHECK(pclose(from) == 0);
	snprintf(command, sizeof command, "read word; [ $word = %d ]", me);
	FILE *to = popen(command, "w");
	CHECK(to);
	step();
	fprintf(to, "%d\n", me);
	step();
	CHECK(pclose(to) == 0);
	step();
	CHECK(WTERMSIG(system("kill -9 $$")) == SIGKILL);
}

void spawn_and_vfork(void)
{
	char out[32], line[64], right[64];
	pid_t child;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t set;
	snprintf(out, sizeof out, "out.%d", me);
	meet();
	/* Arguments, environment, descriptors and the signal mask. A shell would change the mask. */
	char *const arguments[] = {"env", "grep", "SigBlk", "/proc/self/status", NULL};
	char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
	CHECK(posix_spawn_file_actions_init(&actions) == 0);
	CHECK(posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600) == 0);
	CHECK(posix_spawnattr_init(&attributes) == 0 && posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGHUP + me);
	CHECK(posix_spawnattr_setsigmask(&attributes, &set) == 0);
	step();
	CHECK(posix_spawnp(&child, "env", &actions, &attributes, arguments, environment) == 0 && ended_with(child, 0));
	FILE *file = fopen(out, "r");
	snprintf(right, sizeof right, "SigBlk:\t%016x\n", 1u << me);
	CHECK(file && fgets(line, sizeof line, file) && !strcmp(line, right) && fclose(file) == 0);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	step();
	char *const none[] = {"none", NULL};
	CHECK(posix_spawn(&child, "/no/such/program", NULL, NULL, none, environ) == ENOENT);
	/* The child of vfork() shares memory until it executes a program. */
	for (int i = 0; i < 3; i++) {
		step();
		child = vfork();
		if (!child) {
			execl(words[0], words[0], "ordinary", (char *)NULL);
			_exit(1);
		}
		CHECK(ended_with(child, 42));
	}
	step();
	child = vfork();
	if (!child)
		_exit(20 + me);
	CHECK(ended_with(child, 20 + me));
}
