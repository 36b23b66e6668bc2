/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Mappings, the heap and faults of a ULP are its own. The break is nobody's. */
#include "promises.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ul
/* Every so many bytes of a block are written. */
#define STRIDE (1ul << 15)

static char *map(size_t bytes, int prot, int flags, int file)
{
	step();
	char *at = mmap(NULL, bytes, prot, flags, file, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

void own_mappings(void)
{
	static char *page;
	const int both = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
	page = map(8 * PAGE, both, own, -1);
	memset(page, me + 1, 8 * PAGE);
	give("page", &page);
	meet();
	/* Each has a place of its own, which others can read. */
	for (int other = 0; other < count; other++) {
		char *others = *(char **)of(other, "page");
		CHECK(others[5] == other + 1 && (other == me || others + 8 * PAGE <= page || page + 8 * PAGE <= others));
	}
	meet();
	step();
	char *grown = mremap(page, 8 * PAGE, 1024 * PAGE, MREMAP_MAYMOVE);
	CHECK(grown != MAP_FAILED && grown[8 * PAGE - 1] == me + 1 && grown[8 * PAGE] == 0);
	grown[1023 * PAGE] = 7;
	step();
	CHECK(mremap(grown, 1024 * PAGE, 4 * PAGE, 0) == grown && grown[4 * PAGE - 1] == me + 1);
	step();
	CHECK(mprotect(grown, PAGE, PROT_READ) == 0 && grown[0] == me + 1);
	step();
	CHECK(madvise(grown + PAGE, PAGE, MADV_DONTNEED) == 0 && grown[PAGE] == 0 && grown[2 * PAGE] == me + 1);
	/* msync() fails with ENOMEM where nothing is mapped. */
	step();
	CHECK(msync(grown, 4 * PAGE, MS_ASYNC) == 0 && munmap(grown, 4 * PAGE) == 0);
	CHECK(msync(grown, 4 * PAGE, MS_ASYNC) == -1 && errno == ENOMEM);
	/* A file that all map. */
	int file = open("shared", O_RDWR | O_CREAT, 0600);
	CHECK(file >= 0 && ftruncate(file, PAGE) == 0);
	char *shared = map(PAGE, both, MAP_SHARED, file);
	CHECK(close(file) == 0);
	shared[me] = 'a' + me;
	meet();
	for (int other = 0; other < count; other++)
		CHECK(shared[other] == 'a' + other);
	meet();
	CHECK(munmap(shared, PAGE) == 0);
	errno = 0;
	CHECK(mmap(NULL, 0, both, own, -1, 0) == MAP_FAILED && errno == EINVAL);
}

void own_heap(void)
{
	static const size_t sizes[] = {1, 24, 1000, 70000, 200000, 5 << 20};
	enum { SIZES = sizeof sizes / sizeof *sizes, TIMES = 7 };
	char *blocks[SIZES][TIMES];
	/* The break belongs to nobody. */
	void *end = sbrk(0);
	errno = 0;
	CHECK(sbrk(4096) == (void *)-1 && errno == ENOMEM);
	meet();
	CHECK(brk((char *)end + PAGE) == -1 && sbrk(0) == end);
	for (int round = 0; round < 2; round++) {
		for (int size = 0; size < SIZES; size++) {
			for (int i = 0; i < TIMES; i++) {
				blocks[size][i] = malloc(sizes[size]);
				CHECK(blocks[size][i]);
				for (size_t at = 0; at < sizes[size]; at += STRIDE)
					blocks[size][i][at] = me + i;
			}
			step();
		}
		meet();
		for (int size = 0; size < SIZES; size++) {
			for (int i = 0; i < TIMES; i++) {
				for (size_t at = 0; at < sizes[size]; at += STRIDE)
					CHECK(blocks[size][i][at] == me + i);
				if (i % 3 == 0) {
					blocks[size][i] = realloc(blocks[size][i], 2 * sizes[size]);
					CHECK(blocks[size][i] && blocks[size][i][0] == me + i);
				}
				free(blocks[size][i]);
			}
			step();
		}
	}
	void *aligned;
	CHECK(posix_memalign(&aligned, 1 << 16, 100000) == 0 && (uintptr_t)aligned % (1 << 16) == 0);
	free(aligned);
	volatile size_t most = PTRDIFF_MAX;
	CHECK(malloc(most) == NULL && errno == ENOMEM);
}

static char *guarded;
static volatile int faults;
static volatile uintptr_t fault_at;
static sigjmp_buf before;

/* A program that is told which pages it writes to. */
static void note_fault(int signal, siginfo_t *info, void *context)
{
	(void)context;
	fault_at = (uintptr_t)info->si_addr;
	faults++;
	if (signal == SIGBUS)
		siglongjmp(before, 1);
	mprotect((void *)(fault_at & -PAGE), PAGE, PROT_READ | PROT_WRITE);
}

void own_faults(void)
{
	struct sigaction action = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO};
	char name[32];
	/* The last one leaves SIGSEGV to the kernel, and has no fault. */
	int has_faults = me != count - 1;
	guarded = map(8 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (has_faults) {
		CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
	} else {
		CHECK(mprotect(guarded, 8 * PAGE, PROT_READ | PROT_WRITE) == 0);
	}
	meet();
	for (int i = 0; i < 8; i++) {
		step();
		guarded[i * PAGE + 7] = me + i;
		CHECK(guarded[i * PAGE + 7] == me + i);
		CHECK(!has_faults || (faults == i + 1 && fault_at == (uintptr_t)guarded + i * PAGE + 7));
	}
	/* Behind the end of a file. */
	snprintf(name, sizeof name, "short.%d", me);
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0 && ftruncate(file, PAGE) == 0);
	volatile char *behind = map(2 * PAGE, PROT_READ, MAP_SHARED, file);
	CHECK(close(file) == 0);
	step();
	if (has_faults && !sigsetjmp(before, 1)) {
		CHECK(behind[0] == 0);
		CHECK(behind[PAGE] != 0);
	}
	CHECK(faults == (has_faults ? 9 : 0));
	meet();
}
