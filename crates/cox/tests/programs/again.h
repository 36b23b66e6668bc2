/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Programs that run themselves many times: what goes wrong in a program's first region goes wrong once in a process, and rarely. All runs
 * are in one session of cox.
 */
#ifndef AGAIN_H
#define AGAIN_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A case: whether it went as OpenMP promises. */
struct check {
	const char *name;
	int (*holds)(void);
	/* Variables that are set for it. */
	char *variables[2];
};

/* A child, which is gone when this process is. */
static pid_t child(void)
{
	pid_t self = getpid(), pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(2);
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self)
			_exit(2);
	}
	return pid;
}

/* Ends with 0 if the case holds, 1 if not, 3 after 20 s. */
static void once(const struct check *check)
{
	pid_t pid = child();
	char *arguments[] = { "again", (char *)check->name, NULL };

	if (pid == 0) {
		for (int i = 0; i < 2 && check->variables[i]; i++)
			putenv(check->variables[i]);
		execv("/proc/self/exe", arguments);
		_exit(2);
	}
	int status;
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		printf("%s: %s %d\n", check->name, WIFEXITED(status) ? "exit" : "signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
		exit(1);
	}
}

/*
 * CASE: once, here. all TIMES LOAD: every case so many times, each in a process of its own, beside so many processes that compute. The
 * first that does not hold is named and ends it.
 */
static int run_checks(const struct check *checks, int argc, char **argv)
{
	if (argc == 2) {
		alarm(20);
		for (const struct check *check = checks; check->name; check++)
			if (!strcmp(check->name, argv[1]))
				return !check->holds();
	} else if (argc == 4 && !strcmp(argv[1], "all")) {
		int load = atoi(argv[3]);
		pid_t busy[64];

		for (int i = 0; i < load && i < 64; i++) {
			busy[i] = child();
			if (busy[i] == 0)
				for (;;)
					__asm__ volatile("");
		}
		for (const struct check *check = checks; check->name; check++)
			for (int i = 0; i < atoi(argv[2]); i++)
				once(check);
		for (int i = 0; i < load && i < 64; i++) {
			kill(busy[i], SIGKILL);
			waitpid(busy[i], NULL, 0);
		}
		return 0;
	}
	fprintf(stderr, "usage: CASE | all TIMES LOAD\n");
	return 2;
}

#endif
