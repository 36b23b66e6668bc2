/*
 * Processes of one session: some do work in tasks that block, others write nonsense over all that the session has given them.
 *
 *   hostile works                 tasks that sleep; says `right` if each has run once
 *   hostile scribbles MS          asks the session for its pages and writes nonsense for so long, wherever its descriptors reach
 *   hostile bequeaths MS          the same, by a child that has its parent's descriptors, which ends at once
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <linux/bpf.h>

#include "cox/umt.h"

#define TASKS 200
#define REGIONS 3
#define PAGE 4096
#define PLACES 20000 /* pages that a descriptor can reach, at most */

struct hello {
	uint64_t magic;
	uint32_t version, pad;
	uint8_t nonce[16];
};

struct welcome {
	uint64_t magic;
	uint32_t version, how;
};

static int works(void)
{
	static int ran[REGIONS][TASKS];

	for (int region = 0; region < REGIONS; region++) {
#pragma omp parallel
#pragma omp single
		for (int at = 0; at < TASKS; at++)
#pragma omp task firstprivate(region, at)
		{
			usleep(500);
#pragma omp atomic
			ran[region][at]++;
		}
	}
	for (int at = 0; at < REGIONS * TASKS; at++)
		if (ran[at / TASKS][at % TASKS] != 1)
			return printf("task %d ran %d times\n", at, ran[at / TASKS][at % TASKS]), 1;
	puts("right");
	return 0;
}

/* Asks as the preload library does; how many descriptors have come. */
static int ask(int *fds, int room, int *session)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct hello hello = { .magic = COX_UMT_MAGIC, .version = COX_UMT_VERSION };
	struct welcome welcome;
	char control[CMSG_SPACE(64 * sizeof(int))];
	struct iovec part = { &welcome, sizeof(welcome) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	const char *where = getenv("COX_OVERLAP"), *comma = where ? strrchr(where, ',') : NULL;
	struct cmsghdr *header;
	int count;

	if (!comma || strncmp(where, "on,", 3))
		return 0;
	/* A set-group-id program may not be traced, until it says that it may. */
	if (getgid() != getegid())
		prctl(PR_SET_DUMPABLE, 1);
	memcpy(address.sun_path, where + 3, comma - where - 3);
	for (int at = 0; at < 16; at++)
		sscanf(comma + 1 + 2 * at, "%2hhx", &hello.nonce[at]);
	*session = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (connect(*session, (struct sockaddr *)&address, sizeof(address)) || send(*session, &hello, sizeof(hello), 0) < 0 ||
	    recvmsg(*session, &message, 0) < (ssize_t)sizeof(welcome))
		return 0;
	header = CMSG_FIRSTHDR(&message);
	if (!header)
		return 0;
	count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	count = count < room ? count : room;
	memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	return count;
}

/* All pages that can be written by a descriptor, whatever it takes. */
static int reach(int fd, char **places, int room)
{
	struct stat status;
	off_t end;
	int count = 0;

	fstat(fd, &status);
	/* Where the kernel does not say how large it is, it refuses to map what is beyond. */
	end = status.st_size ? status.st_size : (off_t)room * PAGE;
	for (off_t at = 0; at < end && count < room; at += PAGE) {
		char *place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);

		if (place == MAP_FAILED) {
			place = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, at);
			if (place == MAP_FAILED)
				break;
			if (mprotect(place, PAGE, PROT_READ | PROT_WRITE)) {
				munmap(place, PAGE);
				continue;
			}
		}
		places[count++] = place;
	}
	return count;
}

/* The kernel's call for who has no mapping. */
static void overwrite_elements(int fd, const void *nonsense)
{
	for (uint32_t key = 0; key < COX_UMT_PROCESSES; key++) {
		union bpf_attr attributes = { .map_fd = fd, .key = (uintptr_t)&key, .value = (uintptr_t)nonsense };

		syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attributes, sizeof(attributes));
		syscall(SYS_bpf, BPF_MAP_DELETE_ELEM, &attributes, sizeof(attributes));
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* What cox reads at any time but during `kinds` 2 and 3 is impossible, and so is what is left behind. */
static void scribble(char **places, int count, const int *fds, int descriptors, int kinds, double until)
{
	static char nonsense[1 << 16];

	srandom(1);
	while (now() < until) {
		int kind = random() % kinds;

		for (size_t at = 0; at < sizeof(nonsense); at++)
			nonsense[at] = kind == 0 ? -1 : kind == 1 ? random() : kind == 2 ? 0 : at % 8 ? 0 : random() % 200;
		for (int at = 0; at < count; at++)
			memcpy(places[at], nonsense + (size_t)at * PAGE % sizeof(nonsense), PAGE);
		for (int at = 0; at < descriptors; at++)
			overwrite_elements(fds[at], nonsense);
	}
	for (int at = 0; at < count; at++) {
		memset(places[at], -1, PAGE);
		/* By this word alone it is a page like any other: what is impossible has to be seen in the numbers. */
		((struct cox_program_page *)places[at])->version = COX_UMT_VERSION;
	}
}

int main(int argc, char **argv)
{
	static char *places[PLACES];
	int fds[64], session = -1, descriptors, count = 0;
	double until;

	if (argc == 2 && !strcmp(argv[1], "works"))
		return works();
	if (argc != 3)
		return 2;
	until = now() + atof(argv[2]) / 1e3;
	descriptors = ask(fds, 64, &session);
	if (descriptors < 2)
		return fprintf(stderr, "nothing was given\n"), 1;
	for (int at = 0; at < descriptors; at++)
		count += reach(fds[at], places + count, PLACES - count);
	printf("%d pages\n", count);
	fflush(stdout);
	if (strcmp(argv[1], "bequeaths")) {
		scribble(places, count, fds, descriptors, 4, until);
		return 0;
	}
	scribble(places, count, fds, descriptors, 2, now());
	if (fork())
		return 0;
	close(session);
	scribble(places, count, fds, descriptors, 2, until);
	return 0;
}
