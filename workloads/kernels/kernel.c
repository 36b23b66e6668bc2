// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "kernel.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "fail.h"

enum { LINE_BYTES = 64 };

void kernel_start(struct kernel *kernel, const struct program *program, int argc, char **argv)
{
    program_start(program, argc, argv, &kernel->truth);
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

void *kernel_array(size_t count, size_t bytes_each)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes) || bytes > PTRDIFF_MAX - LINE_BYTES)
        not_possible_here("%zu items of %zu bytes do not fit into the address space", count,
                          bytes_each);
    size_t whole_lines = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    void *array = aligned_alloc(LINE_BYTES, whole_lines > 0 ? whole_lines : LINE_BYTES);
    if (array == NULL)
        system_failed("allocate %zu bytes", bytes);
    return memset(array, 0, bytes);
}

uint64_t digest_doubles(uint64_t digest, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        digest = digest_u64(digest, bits);
    }
    return digest;
}
