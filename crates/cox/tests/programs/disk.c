/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How much is done while a disk has every thread of the team wait.
 *
 * Usage: disk HOW FILE PROCS
 *
 * HOW: `reads` are direct, `faults` are of a mapping whose pages are not in memory. FILE lies on a disk that is slow for the control group
 * with the list of processes PROCS.
 *
 * Writes a number: tasks that ran while as many were in the disk as the team has threads. Where blocked threads go unnoticed
 * that is 0, however slow or fast anything is: who runs a task is not in the disk.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <omp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "blocked.h"

#define BLOCK_BYTES 4096
#define SMALL_TASKS 50

static int in_disk, meanwhile;

/* For whoever is not in the disk. */
static void small_tasks(int team)
{
	for (int i = 0; i < SMALL_TASKS; i++) {
#pragma omp task
		if (__atomic_load_n(&in_disk, __ATOMIC_ACQUIRE) >= team)
			__atomic_fetch_add(&meanwhile, 1, __ATOMIC_RELAXED);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	bool maps = !strcmp(argv[1], "faults");
	size_t bytes = BLOCKED * 64 * BLOCK_BYTES;
	char *much = malloc(bytes);
	int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);

	end_after(60);
	memset(much, 'x', bytes);
	if (fd < 0 || write(fd, much, bytes) != (ssize_t)bytes || fsync(fd))
		fail(argv[2]);
	/* What was written is no longer in memory. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	volatile char *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED || madvise((void *)mapped, bytes, MADV_RANDOM))
		fail("mmap");
	int direct = open(argv[2], O_RDONLY | O_DIRECT);
	FILE *procs = fopen(argv[3], "w");
	if (direct < 0 || !procs || fprintf(procs, "%d\n", getpid()) < 0 || fclose(procs))
		fail(argv[3]);
#pragma omp parallel
#pragma omp single
	{
		int team = omp_get_num_threads();

		for (int i = 0; i < BLOCKED; i++) {
#pragma omp task firstprivate(i)
			{
				off_t at = (off_t)i * 64 * BLOCK_BYTES;
				char *block = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);

				small_tasks(team);
				__atomic_fetch_add(&in_disk, 1, __ATOMIC_ACQ_REL);
				if (maps ? mapped[at] != 'x' : pread(direct, block, BLOCK_BYTES, at) != BLOCK_BYTES)
					fail("reading");
				__atomic_fetch_sub(&in_disk, 1, __ATOMIC_ACQ_REL);
				free(block);
			}
		}
	}
	printf("%d\n", meanwhile);
	return 0;
}
