/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Maps memory in many ways and leaves it there. Usage: memory MODE
 *
 * MODE: coupled, or decoupled (asks for a carrier before each step). Prints the number and "ok", or what is wrong. The last ULP waits until it is the only
 * one, and prints how many mappings, descriptors and tasks the host has.
 */
#include <cox_ulp.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEGA (1ul << 20)

static int decouples;

static void wrong(const char *what)
{
	printf("%d: wrong: %s\n", cox_ulp_number(), what);
	fflush(stdout);
	_exit(1);
}

static void step(void)
{
	if (decouples)
		cox_ulp_decouple();
	cox_ulp_yield();
}

static void check(const char *at, size_t bytes, char value, const char *what)
{
	for (size_t i = 0; i < bytes; i += 4096)
		if (at[i] != value)
			wrong(what);
}

static void *map(size_t bytes, int prot, int flags, int file)
{
	step();
	void *at = mmap(NULL, bytes, prot, flags | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
	if (at == MAP_FAILED)
		wrong("mmap");
	return at;
}

static void *thread(void *argument)
{
	/* An arena of its own. */
	char *own = malloc(1000);
	memset(own, 5, 1000);
	return argument;
}

static unsigned long entries(const char *path)
{
	unsigned long count = 0;
	DIR *folder = opendir(path);
	while (folder && readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Waits until the host has no other children. */
static void be_the_last(void)
{
	char path[64];
	for (int found = 2; found > 1;) {
		usleep(20000);
		snprintf(path, sizeof path, "/proc/%d/task/%d/children", getppid(), getppid());
		FILE *children = fopen(path, "r");
		char pid[16];
		for (found = 0; fscanf(children, "%15s", pid) == 1;)
			found++;
		fclose(children);
	}
	/* The host unmaps the memory of the others when it has learned of their end. */
	usleep(200000);
}

static void tell(void)
{
	char path[64];
	unsigned long mappings = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	for (int byte; (byte = getc(maps)) != EOF;)
		mappings += byte == '\n';
	fclose(maps);
	snprintf(path, sizeof path, "/proc/%d/fd", getppid());
	unsigned long files = entries(path);
	snprintf(path, sizeof path, "/proc/%d/task", getppid());
	printf("left: %lu %lu %lu\n", mappings, files, entries(path));
}

int main(int count, char **words)
{
	decouples = count > 1 && !strcmp(words[1], "decoupled");
	if (!decouples)
		cox_ulp_couple();
	int number = cox_ulp_number();
	if (number == cox_ulp_count() - 1) {
		be_the_last();
		tell();
		return 0;
	}
	/* Mappings that the kernel cannot join, near and far. */
	for (int i = 0; i < 16; i++) {
		int prot = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
		map(4096 * (1 + i), prot, MAP_PRIVATE, -1);
		char *far = map(5 * MEGA, prot | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, -1);
		far[MEGA] = number;
		step();
		if (far[MEGA] != (char)number)
			wrong("far");
	}
	int file = memfd_create("memory", 0);
	if (file < 0 || ftruncate(file, 8192))
		wrong("memfd");
	char *shared = map(8192, PROT_READ | PROT_WRITE, MAP_SHARED, file), *again = map(8192, PROT_READ, MAP_SHARED, file);
	shared[5000] = number;
	if (again[5000] != (char)number)
		wrong("shared");
	/* The mapping moves when it grows. */
	char *grows = malloc(MEGA);
	memset(grows, number, MEGA);
	for (size_t bytes = 2; bytes <= 32; bytes *= 2) {
		step();
		map(4096, PROT_NONE, MAP_PRIVATE, -1);
		grows = realloc(grows, bytes * MEGA);
		check(grows, MEGA, number, "realloc");
	}
	step();
	void *math = dlopen("libm.so.6", RTLD_NOW);
	double (*cosine)(double) = math ? (double (*)(double))dlsym(math, "cos") : NULL;
	if (!cosine || cosine(0) != 1)
		wrong("dlopen");
	pthread_t other;
	if (pthread_create(&other, NULL, thread, NULL) || pthread_join(other, NULL))
		wrong("thread");
	step();
	pid_t child = fork();
	if (!child) {
		char *own = malloc(10 * MEGA);
		memset(own, 9, 10 * MEGA);
		check(grows, MEGA, number, "child");
		_exit(own[MEGA] == 9 ? 3 : 4);
	}
	int status;
	if (waitpid(child, &status, 0) != child || status != 3 << 8)
		wrong("fork");
	/* An address that another mapping has is refused; the kernel's own choice is taken where one is asked for. */
	if (mmap(grows, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED)
		wrong("not refused");
	if (mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0) != MAP_FAILED)
		wrong("errors");
	check(grows, MEGA, number, "at the end");
	printf("%d ok\n", number);
	return 0;
}
