// SPDX-License-Identifier: Apache-2.0 OR MIT
// What all kernels share: the number of threads and the report at the end. crew.h (pthreads) and region.h
// (OpenMP) start the threads.
#ifndef COX_WORKLOADS_KERNEL_H
#define COX_WORKLOADS_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "array.h"
#include "members.h"
#include "numbers.h"
#include "options.h"
#include "truth.h"

enum { KERNEL_MAX_THREADS = 64 };

struct kernel {
    struct truth truth;
    struct team team;        // filled by the threads, if a truth is wanted
    uint64_t threads;
    uint64_t elapsed_ns;     // from before the threads start until all have ended
    uint64_t phases;         // number of times that all threads had synchronised, including the end
    uint64_t checksum;
};

// The option table row of --threads.
#define KERNEL_THREADS(kernel)                                                                     \
    {                                                                                              \
        "threads", OPTION_COUNT, &(kernel)->threads, 1, KERNEL_MAX_THREADS, NULL, "N",             \
            "threads, the main thread among them (OMP_NUM_THREADS, else all CPUs)", NULL           \
    }

// Calls program_start, and sets the number of threads if it was not given.
void kernel_start(struct kernel *kernel, const struct program *program, int argc, char **argv);

// The last statement of every main: prints what `format` says was done, the elapsed time and the checksum,
// and writes the truth.
int kernel_end(struct kernel *kernel, const struct program *program, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Zeroed, and aligned to cache lines. Ends the program if there is not enough memory.
static inline void *kernel_array(size_t count, size_t bytes_each)
{
    return zeroed_array(CACHE_LINE, count, bytes_each);
}

#endif
