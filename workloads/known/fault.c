// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that blocks in major page faults on a file mapping.
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "account.h"
#include "fail.h"
#include "options.h"
#include "scratch.h"
#include "task.h"

struct toucher {
    int fd;
    uint64_t pages;
    size_t page_bytes;
    uint64_t duration_ns;
    struct account account;
};

// Returns the first word of a page; the rest of the page is zero.
static uint64_t page_mark(uint64_t page)
{
    return (page + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void write_file(const struct toucher *me)
{
    unsigned char *page = calloc(1, me->page_bytes);
    if (page == NULL)
        system_failed("allocate a page");
    for (uint64_t i = 0; i < me->pages; i++) {
        uint64_t mark = page_mark(i);
        memcpy(page, &mark, sizeof mark);
        if (write(me->fd, page, me->page_bytes) != (ssize_t)me->page_bytes)
            system_failed("write the temporary file");
    }
    free(page);
    if (fsync(me->fd) != 0)
        system_failed("fsync the temporary file");
}

static uint64_t pages_present(const struct toucher *me, void *mapping)
{
    unsigned char *present = malloc(me->pages);
    if (present == NULL || mincore(mapping, me->pages * me->page_bytes, present) != 0)
        system_failed("find out which pages are in memory");
    uint64_t count = 0;
    for (uint64_t i = 0; i < me->pages; i++)
        count += present[i] & 1;
    free(present);
    return count;
}

// Makes a new mapping of which no page is in memory.
static unsigned char *map_absent(const struct toucher *me)
{
    size_t bytes = me->pages * me->page_bytes;
    if (posix_fadvise(me->fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        system_failed("drop the file from the page cache");
    void *mapping = mmap(NULL, bytes, PROT_READ, MAP_SHARED, me->fd, 0);
    if (mapping == MAP_FAILED)
        system_failed("map the temporary file");
    // Without this, the kernel reads neighbouring pages ahead, and most touches would not block.
    if (madvise(mapping, bytes, MADV_RANDOM) != 0)
        system_failed("switch read-ahead off");
    uint64_t present = pages_present(me, mapping);
    if (present != 0)
        check_failed("%" PRIu64 " of %" PRIu64 " pages were still in memory before the touch",
                     present, me->pages);
    return mapping;
}

static uint64_t major_faults(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        system_failed("read the thread's resource usage");
    return (uint64_t)usage.ru_majflt;
}

static void touch_pages(struct toucher *me, const struct thread_meter *meter)
{
    const volatile unsigned char *mapping = map_absent(me);
    uint64_t wrong = 0, faults = major_faults();
    struct thread_instant begin = thread_meter_read(meter);
    for (uint64_t i = 0; i < me->pages; i++)
        wrong += *(const volatile uint64_t *)(mapping + i * me->page_bytes) != page_mark(i);
    account_add(&me->account, begin, thread_meter_read(meter), me->pages);
    faults = major_faults() - faults;
    if (wrong != 0)
        check_failed("%" PRIu64 " pages do not hold what was written", wrong);
    if (faults < me->pages)
        check_failed("touching %" PRIu64 " absent pages caused only %" PRIu64 " major faults",
                     me->pages, faults);
    if (munmap((void *)mapping, me->pages * me->page_bytes) != 0)
        system_failed("unmap the temporary file");
}

static void *toucher_main(void *argument)
{
    struct toucher *me = argument;
    struct thread_meter meter;
    name_thread("toucher");
    account_open(&me->account, "page_fault");
    thread_meter_open(&meter);
    uint64_t begin_ns = monotonic_ns();
    do
        touch_pages(me, &meter);
    while (monotonic_ns() - begin_ns < me->duration_ns);
    thread_meter_close(&meter);
    return NULL;
}

int main(int argc, char **argv)
{
    struct toucher toucher = {.duration_ns = 600 * NS_PER_MS, .pages = 1024};
    const char *directory = scratch_default_directory();
    const struct option_spec options[] = {
        {"seconds", OPTION_SECONDS, &toucher.duration_ns, 0.001, 86400, NULL, "S",
         "touch all pages again until S seconds have passed (0.6)", NULL},
        {"pages", OPTION_COUNT, &toucher.pages, 1, 1e7, NULL, "N", "pages of the file (1024)",
         NULL},
        {"dir", OPTION_TEXT, &directory, 0, 0, NULL, "DIR",
         "directory of the temporary file ($TMPDIR, else .)", NULL},
    };
    const struct program program = {
        .name = "known-fault",
        .summary = "A thread 'toucher' touches the pages of a mapped file that is not in memory, one\n"
                   "by one without read-ahead, cause page_fault; main joins, cause futex.",
        .example = "known-fault --pages 4096 --dir /var/tmp --truth -",
        .checked = "No page was in memory before each pass (mincore); each touch was a major fault;\n"
                   "each page holds what was written.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    toucher.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    toucher.fd = scratch_open(directory);
    scratch_demand_disk(toucher.fd, directory);
    write_file(&toucher);

    struct thread_meter meter;
    struct account joining;
    thread_meter_open(&meter);
    account_open(&joining, "futex");
    pthread_t thread = start_thread(toucher_main, &toucher, 0);
    struct thread_instant begin = thread_meter_read(&meter);
    join_thread(thread);
    account_add(&joining, begin, thread_meter_read(&meter), 1);
    thread_meter_close(&meter);
    const struct account accounts[] = {toucher.account, joining};
    accounts_report(&truth, program.name, accounts, COUNT_OF(accounts));
    return program_end();
}
