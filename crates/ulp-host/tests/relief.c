/*
 * ULP 0 has page faults that take long, on a carrier; the others count their turns meanwhile. Prints in how many of the faults they had turns.
 * Usage: relief FAULTS [FILE]. With FILE, pages of it are read; it has as many. Otherwise, a thread provides each page after some time.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cox_ulp.h>

enum { PAGE = 4096, DELAY_US = 60 * 1000, TURNS_BEFORE = 50, MANY_TURNS = 1000 };

static struct {
	_Atomic uint64_t turns;
	_Atomic int is_done;
	_Atomic int left;
} shared;

static void failed(const char *what)
{
	perror(what);
	exit(1);
}

/* Provides the page of each fault after some time. */
static void *provide(void *argument)
{
	int faults = *(int *)argument;
	static char page[PAGE];
	struct uffd_msg message;
	while (read(faults, &message, sizeof message) == sizeof message) {
		usleep(DELAY_US);
		uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = PAGE};
		struct uffdio_range range = {.start = at, .len = PAGE};
		/* The page is there already if the same access has faulted twice. */
		if (ioctl(faults, UFFDIO_COPY, &copy) != 0)
			ioctl(faults, UFFDIO_WAKE, &range);
	}
	return NULL;
}

static volatile char *pages_of_thread(size_t count)
{
	static int faults;
	static pthread_t thread;
	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (faults < 0) {
		puts("no userfaultfd");
		exit(0);
	}
	char *pages = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register all = {.range = {(uintptr_t)pages, count * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (pages == MAP_FAILED || ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &all) != 0)
		failed("userfaultfd");
	if (pthread_create(&thread, NULL, provide, &faults) != 0)
		failed("pthread_create");
	return pages;
}

static volatile char *pages_of_file(const char *path, size_t count)
{
	int file = open(path, O_RDONLY);
	char *pages = mmap(NULL, count * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	if (file < 0 || pages == MAP_FAILED || madvise(pages, count * PAGE, MADV_RANDOM) != 0)
		failed(path);
	return pages;
}

int main(int count, char **words)
{
	if (count < 2)
		return 2;
	size_t faults = strtoul(words[1], NULL, 10);
	if (cox_ulp_number() != 0) {
		void *address;
		if (cox_ulp_import(0, "shared", &address) != 0)
			return 1;
		__typeof__(shared) *of_first = address;
		while (!of_first->is_done) {
			of_first->turns++;
			cox_ulp_yield();
		}
		of_first->left++;
		return 0;
	}
	volatile char *pages = count > 2 ? pages_of_file(words[2], faults) : pages_of_thread(faults);
	cox_ulp_export("shared", &shared);
	size_t with_turns = 0;
	for (size_t fault = 0; fault < faults; fault++) {
		cox_ulp_decouple();
		for (int turn = 0; turn < TURNS_BEFORE; turn++)
			cox_ulp_yield();
		uint64_t before = shared.turns;
		(void)pages[fault * PAGE];
		with_turns += shared.turns - before > MANY_TURNS;
	}
	shared.is_done = 1;
	/* The memory of an ULP that has ended is gone. */
	while (shared.left < cox_ulp_count() - 1)
		cox_ulp_yield();
	printf("%zu of %zu\n", with_turns, faults);
	return 0;
}
