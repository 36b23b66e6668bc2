// SPDX-License-Identifier: Apache-2.0 OR MIT
// What all kernels share: the number of threads and the report at the end. How threads are started is
// in crew.h (pthreads) and region.h (OpenMP).
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
    struct team team;        // filled while the threads run, if a truth is wanted
    uint64_t threads;
    uint64_t elapsed_ns;     // from before the threads start until all are done
    uint64_t phases;         // times that all threads had met, the end among them
    uint64_t checksum;
};

// The row of --threads in the option table of every kernel.
#define KERNEL_THREADS(kernel)                                                                     \
    {                                                                                              \
        "threads", OPTION_COUNT, &(kernel)->threads, 1, KERNEL_MAX_THREADS, NULL, "N",             \
            "threads, the main thread among them (one per allowed CPU)", NULL                      \
    }

// program_start, and the number of threads when none was given.
void kernel_start(struct kernel *kernel, const struct program *program, int argc, char **argv);

// Prints the elapsed time with `format` saying what was done, then the checksum, and writes the
// truth: the last statement of every main.
int kernel_end(struct kernel *kernel, const struct program *program, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Zeroed and aligned to cache lines; ends the program when there is not enough memory.
static inline void *kernel_array(size_t count, size_t bytes_each)
{
    return zeroed_array(CACHE_LINE, count, bytes_each);
}

#endif
