// SPDX-License-Identifier: Apache-2.0 OR MIT
// Kinds munmap and membarrier: system calls of one thread that interrupt the CPUs on which other threads of the
// process run. An event is the call, which waits until those CPUs have answered.
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fail.h"
#include "inject.h"

enum { WARM_UPS = 10 };

static volatile unsigned char *mapped_and_touched_page(size_t bytes)
{
    volatile unsigned char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        system_failed("map a page");
    // Only a page that is present has to be removed from the TLBs.
    page[0] = 1;
    return page;
}

static void unmap(volatile unsigned char *page, size_t bytes)
{
    if (munmap((void *)page, bytes) != 0)
        system_failed("unmap a page");
}

static void prepare_munmap(struct worker *me)
{
    (void)me;
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < WARM_UPS; i++)
        unmap(mapped_and_touched_page(bytes), bytes);
}

static void run_munmap(struct worker *me)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t instant_ns;
    while (grid_take(&me->grid, &instant_ns)) {
        sleep_until_ns(instant_ns);
        volatile unsigned char *page = mapped_and_touched_page(bytes);
        uint64_t begin_ns = monotonic_ns();
        unmap(page, bytes);
        events_add(&me->log, begin_ns, monotonic_ns(), me->tid);
    }
}

static void barrier_of_memory(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        system_failed("call membarrier");
}

static void prepare_membarrier(struct worker *me)
{
    (void)me;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
        not_possible_here("this kernel has no expedited membarrier");
    for (int i = 0; i < WARM_UPS; i++)
        barrier_of_memory();
}

static void run_membarrier(struct worker *me)
{
    uint64_t instant_ns;
    while (grid_take(&me->grid, &instant_ns)) {
        sleep_until_ns(instant_ns);
        uint64_t begin_ns = monotonic_ns();
        barrier_of_memory();
        events_add(&me->log, begin_ns, monotonic_ns(), me->tid);
    }
}

const struct kind kind_munmap = {.name = "munmap", .thread_name = "inject-munmap", .needs_victim = true,
                                 .needs_other_cpu = true, .prepare = prepare_munmap, .run = run_munmap};
const struct kind kind_membarrier = {.name = "membarrier", .thread_name = "inject-membar", .needs_victim = true,
                                     .needs_other_cpu = true, .prepare = prepare_membarrier,
                                     .run = run_membarrier};
