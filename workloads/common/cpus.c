// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "cpus.h"

#include <ctype.h>
#include <sched.h>
#include <stdlib.h>

#include "fail.h"

// Reads a CPU number at `*text`, and moves `*text` past it.
static bool parse_cpu(const char **text, unsigned *cpu)
{
    if (!isdigit((unsigned char)**text))
        return false;
    char *end;
    unsigned long value = strtoul(*text, &end, 10);
    if (value >= MAX_CPUS)
        return false;
    *text = end;
    *cpu = (unsigned)value;
    return true;
}

bool cpu_list_parse(struct cpu_list *list, const char *text)
{
    list->count = 0;
    for (;;) {
        unsigned first, last;
        if (!parse_cpu(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!parse_cpu(&text, &last) || last < first)
                return false;
        }
        for (unsigned cpu = first; cpu <= last; cpu++) {
            if (cpu_list_contains(list, cpu))
                return false;
            list->cpus[list->count++] = cpu;
        }
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

void cpu_list_allowed(struct cpu_list *list)
{
    size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *allowed = CPU_ALLOC(MAX_CPUS);
    if (allowed == NULL || sched_getaffinity(0, bytes, allowed) != 0)
        system_failed("read the CPUs this process may use");
    list->count = 0;
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (CPU_ISSET_S(cpu, bytes, allowed))
            list->cpus[list->count++] = cpu;
    CPU_FREE(allowed);
}

bool cpu_list_contains(const struct cpu_list *list, unsigned cpu)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->cpus[i] == cpu)
            return true;
    return false;
}

void pin_to_cpu(unsigned cpu)
{
    size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *only = CPU_ALLOC(MAX_CPUS);
    if (only == NULL)
        system_failed("allocate a CPU set");
    CPU_ZERO_S(bytes, only);
    CPU_SET_S(cpu, bytes, only);
    if (sched_setaffinity(0, bytes, only) != 0)
        system_failed("pin to CPU %u", cpu);
    CPU_FREE(only);
}
