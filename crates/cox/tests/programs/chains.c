// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tasks that sleep and then compute, in chains. Exit code 0: all was as promised; 1: it was not, and is printed; 3: no standby ran a task.
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { CHAINS = 24, LINKS = 40 };

static void sleep_us(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void compute_us(double us)
{
    for (double end = cpu_us() + us; cpu_us() < end;)
        ;
}

char mark[CHAINS];
static atomic_int begun, first_end_at = -1, by_standbys;

// When the first chain is at its end, all chains have begun.
static int chains(void)
{
#pragma omp parallel
#pragma omp single
    for (int link = 0; link < LINKS; link++)
        for (int chain = 0; chain < CHAINS; chain++) {
#pragma omp task depend(inout : mark[chain]) firstprivate(link)
            {
                if (link == 0)
                    begun++;
                sleep_us(1000);
                compute_us(300);
                int none = -1;
                if (link == LINKS - 1)
                    atomic_compare_exchange_strong(&first_end_at, &none, begun);
            }
        }
    if (first_end_at == CHAINS)
        return 0;
    printf("a chain was at its end when %d of %d had begun\n", first_end_at, CHAINS);
    return 1;
}

// Standbys are batch threads; the program's own are scheduled as they were.
static int scheduling(void)
{
    atomic_int wrong = 0;
#pragma omp parallel
#pragma omp single
    for (int task = 0; task < 200; task++) {
#pragma omp task
        {
            char name[16];
            prctl(PR_GET_NAME, name);
            int is_standby = strcmp(name, "cox-standby") == 0, policy = sched_getscheduler(0);
            by_standbys += is_standby;
            if (policy != (is_standby ? SCHED_BATCH : SCHED_OTHER)) {
                printf("%s has policy %d\n", name, policy);
                wrong = 1;
            }
            sleep_us(1000);
        }
    }
    return wrong ? 1 : by_standbys > 0 ? 0 : 3;
}

int main(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "scheduling") == 0 ? scheduling() : chains();
}
