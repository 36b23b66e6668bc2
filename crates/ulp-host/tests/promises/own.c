/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a program has of its own without the kernel: variables, buffers, words, libraries. */
#include "promises.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static int initialized = 7, zero;
static __thread int initialized_tls = 5, zero_tls;

void own_variables(void)
{
	CHECK(initialized == 7 && zero == 0 && initialized_tls == 5 && zero_tls == 0);
	int *heap = calloc(1, sizeof *heap), next = (me + 1) % count;
	give("zero", &zero);
	give("zero_tls", &zero_tls);
	srand(me);
	int first_random = rand();
	for (int round = 1; round <= 20; round++) {
		initialized += me + 1;
		zero -= me + 1;
		initialized_tls += me + 2;
		zero_tls -= me + 2;
		*heap += me + 3;
		errno = me + round;
		step();
		CHECK(errno == me + round);
		CHECK(initialized == 7 + round * (me + 1) && zero == -round * (me + 1));
		CHECK(initialized_tls == 5 + round * (me + 2) && zero_tls == -round * (me + 2));
		CHECK(*heap == round * (me + 3));
		rand();
	}
	meet();
	/* Others have the same variables elsewhere, and can be read. */
	int *others = of(next, "zero"), *others_tls = of(next, "zero_tls");
	CHECK(others != &zero && *others == -20 * (next + 1));
	CHECK(others_tls != &zero_tls && *others_tls == -20 * (next + 2));
	int random = rand();
	srand(me);
	CHECK(rand() == first_random);
	for (int round = 1; round <= 20; round++)
		rand();
	CHECK(rand() == random);
	meet();
}

void own_stdio(void)
{
	char name[32], line[32];
	struct stat status;
	snprintf(name, sizeof name, "text.%d", me);
	FILE *file = fopen(name, "w");
	CHECK(file);
	for (int i = 0; i < 5; i++) {
		fprintf(file, "%d\n", 10 * me + i);
		step();
	}
	meet();
	/* All is in the buffer. */
	CHECK(stat(name, &status) == 0 && status.st_size == 0);
	CHECK(fclose(file) == 0);
	file = fopen(name, "r");
	CHECK(file && getc(file) != EOF && ungetc('#', file) == '#');
	meet();
	CHECK(fgets(line, sizeof line, file) && line[0] == '#');
	for (int i = 1; i < 5; i++) {
		step();
		CHECK(fgets(line, sizeof line, file) && atoi(line) == 10 * me + i);
	}
	CHECK(getc(file) == EOF && feof(file) && fclose(file) == 0);
}

void own_words(void)
{
	char number[16], name[16], end[16];
	snprintf(number, sizeof number, "%d", me);
	CHECK(getenv("RANK") && !strcmp(getenv("RANK"), number));
	CHECK(setenv("OWN", number, 1) == 0 && setenv("HOME", number, 1) == 0);
	words[2][0] = '0' + me;
	program_invocation_short_name = number;
	meet();
	CHECK(!strcmp(getenv("RANK"), number) && !strcmp(getenv("OWN"), number) && !strcmp(getenv("HOME"), number));
	CHECK(words[2][0] == '0' + me && !strcmp(words[2] + 1, "wn_words") && words[3] == NULL);
	CHECK(!strcmp(program_invocation_short_name, number));
	/* The name that the kernel knows has the number, until the program changes it. */
	snprintf(end, sizeof end, ".%d", me);
	CHECK(prctl(PR_GET_NAME, name) == 0 && strlen(name) > strlen(end) && !strcmp(name + strlen(name) - strlen(end), end));
	CHECK(prctl(PR_SET_NAME, number) == 0);
	meet();
	CHECK(prctl(PR_GET_NAME, name) == 0 && !strcmp(name, number));
}

void own_program(void)
{
	char link[PATH_MAX], by_pid[64];
	char *right = realpath(words[0], NULL);
	CHECK(right && words[0][0] == '/');
	for (int i = 0; i < 3; i++) {
		step();
		char *path = realpath("/proc/self/exe", NULL);
		CHECK(path && !strcmp(path, right));
		free(path);
	}
	snprintf(by_pid, sizeof by_pid, "/proc/%d/exe", getpid());
	step();
	ssize_t length = readlink(by_pid, link, sizeof link);
	CHECK(length == (ssize_t)strlen(right) && !memcmp(link, right, length));
	free(right);
}

#ifndef STATIC
void own_library(void)
{
	char path[PATH_MAX];
	/* The library is beside the program. */
	snprintf(path, sizeof path, "%s.so", words[0]);
	step();
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	/* POSIX lets dlsym() return functions. */
	int (*add)(int) = (int (*)(int))dlsym(library, "add");
	int (*add_tls)(int) = (int (*)(int))dlsym(library, "add_tls");
	int *initialized_by = dlsym(library, "initialized_by");
	CHECK(add && add_tls && initialized_by && *initialized_by == getpid());
	for (int i = 1; i <= 10; i++) {
		step();
		CHECK(add(me + 1) == i * (me + 1) && add_tls(me + 2) == i * (me + 2));
	}
	give("add", (void *)add);
	meet();
	CHECK(of((me + 1) % count, "add") != (void *)add);
	meet();
	CHECK(dlclose(library) == 0);
	step();
	/* musl keeps libraries. */
#ifdef __GLIBC__
	CHECK(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL);
#endif
	CHECK(dlopen("/no/such/library.so", RTLD_NOW) == NULL && dlerror() != NULL);
}
#endif
