// SPDX-License-Identifier: Apache-2.0 OR MIT
// Kind faults: the victim itself touches a page that is not there at each instant, between its loops. An event is
// the touch. When all pages of the region are used, the victim gives them back to the kernel (MADV_DONTNEED).
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"
#include "inject.h"

// 16 MiB with pages of 4 KiB.
enum { REGION_PAGES = 4096 };

static void prepare(struct worker *me)
{
    size_t bytes = REGION_PAGES * (size_t)sysconf(_SC_PAGESIZE);
    me->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (me->memory == MAP_FAILED)
        system_failed("map the pages");
    // A huge page would make one fault of many. Kernels without huge pages refuse this, and need not be asked.
    madvise(me->memory, bytes, MADV_NOHUGEPAGE);
}

static void touch(struct worker *me, size_t page_bytes)
{
    uint64_t page = me->log.count % REGION_PAGES;
    if (page == 0 && me->log.count > 0) {
        if (madvise(me->memory, REGION_PAGES * page_bytes, MADV_DONTNEED) != 0)
            system_failed("give the pages back");
        me->recycled++;
    }
    volatile unsigned char *byte = (unsigned char *)me->memory + page * page_bytes;
    uint64_t begin_ns = monotonic_ns();
    *byte = 1;
    events_add(&me->log, begin_ns, monotonic_ns(), me->tid);
}

static void run(struct worker *me)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct victim_work work = victim_begin(me);
    uint64_t faults = usage_now().minor_faults, instant_ns;
    while (grid_take(&me->grid, &instant_ns)) {
        while (victim_loop(&work) < instant_ns)
            continue;
        touch(me, page_bytes);
    }
    while (victim_loop(&work) < me->injection->end_ns)
        continue;
    faults = usage_now().minor_faults - faults;
    if (faults < me->log.count)
        check_failed("touching %zu new pages caused only %" PRIu64 " faults", me->log.count, faults);
    victim_end(me, &work);
}

static void finish(struct worker *me)
{
    munmap(me->memory, REGION_PAGES * (size_t)sysconf(_SC_PAGESIZE));
}

const struct kind kind_faults = {.name = "faults", .needs_victim = true, .victim_injects = true, .prepare = prepare,
                                 .run = run, .finish = finish};
const struct kind kind_none = {.name = "none", .needs_victim = true};
