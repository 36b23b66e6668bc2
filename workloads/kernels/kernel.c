// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "kernel.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpus.h"

// OpenMP's variable counts for kernels of both kinds, so that one setting works for all of them.
// 0: it is not set, or is no valid number.
static uint64_t threads_in_environment(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    if (text == NULL)
        return 0;
    char *end;
    unsigned long threads = strtoul(text, &end, 10);
    bool valid = end != text && *end == '\0' && threads <= KERNEL_MAX_THREADS;
    return valid ? threads : 0;
}

void kernel_start(struct kernel *kernel, const struct program *program, int argc, char **argv)
{
    program_start(program, argc, argv, &kernel->truth);
    if (kernel->threads == 0)
        kernel->threads = threads_in_environment();
    if (kernel->threads != 0)
        return;
    static struct cpu_list allowed;
    cpu_list_allowed(&allowed);
    kernel->threads = allowed.count < KERNEL_MAX_THREADS ? allowed.count : KERNEL_MAX_THREADS;
}

static void write_truth(struct kernel *kernel, const struct program *program)
{
    truth_begin(&kernel->truth, program->name);
    truth_u64(&kernel->truth, "elapsed_ns", kernel->elapsed_ns);
    truth_u64(&kernel->truth, "phases", kernel->phases);
    truth_hex(&kernel->truth, "checksum", kernel->checksum);
    team_truth(&kernel->truth, &kernel->team);
    truth_end(&kernel->truth);
}

int kernel_end(struct kernel *kernel, const struct program *program, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s: %" PRIu64 " threads, ", program->name, kernel->threads);
    vprintf(format, arguments);
    printf(", %" PRIu64 " phases in %.4f s\nchecksum 0x%016" PRIx64 "\n", kernel->phases,
           (double)kernel->elapsed_ns / NS_PER_SECOND, kernel->checksum);
    va_end(arguments);
    write_truth(kernel, program);
    team_destroy(&kernel->team);
    return program_end();
}
