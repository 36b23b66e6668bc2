// SPDX-License-Identifier: Apache-2.0 OR MIT
// Threads that lose time for several reasons at once, and measure each loss. See --help.
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../barriers/barrier.h"
#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "scratch.h"
#include "task.h"
#include "truth.h"
#include "work.h"

// The largest alignment that O_DIRECT requires of addresses and lengths.
enum { ALIGNMENT = 4096 };

// Iterations of each part of a step.
struct amounts {
    uint64_t serial;     // the first thread, alone
    uint64_t parallel;   // every thread
    uint64_t unequal;    // the last thread, in addition
    uint64_t locked;     // every thread, in the critical section
};

struct worker {
    _Alignas(64) struct run *run;
    size_t index;
    pid_t tid;
    struct thread_span span;
    uint64_t serial_ns;      // time in the serial part, or waiting for it
    uint64_t parallel_cpu_ns;
    uint64_t lock_ns;        // waiting for the critical section
    uint64_t disk_ns;        // in writes, not on a CPU
    uint64_t end_ns;         // waiting at the end of a step
};

struct run {
    struct barrier barrier;
    struct amounts amounts;
    pthread_mutex_t lock;
    uint64_t steps, writes, block_bytes;
    uint64_t locks;          // critical sections in a step, for each thread
    size_t threads;
    int fd;                  // -1: no writes
    unsigned char *block;
    // Protected by the lock.
    uint64_t locked_steps;
    struct worker *workers;
};

static const char *const wait_names[] = {"futex", "spin", "yield", NULL};

static void do_work(uint64_t seed, uint64_t iterations)
{
    struct working_set none = {0};
    if (calibrated_work(seed, iterations, &none) != work_answer(work_answer_for(iterations), seed))
        check_failed("work has a wrong result");
}

// A function of its own, with its own copy of the loop: an observer recognises serial code by the function.
__attribute__((noinline)) static void serial_part(uint64_t iterations)
{
    uint64_t value = 1;
    for (uint64_t i = 0; i < iterations; i++) {
        value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        __asm__ volatile("" : "+r"(value));
    }
}

static void meet(struct run *run)
{
    uint32_t generation;
    if (barrier_arrive(&run->barrier, &generation))
        barrier_release(&run->barrier);
    else
        barrier_wait(&run->barrier, generation);
}

static void serial_phase(struct worker *me)
{
    uint64_t begin_ns = monotonic_ns();
    if (me->index == 0)
        serial_part(me->run->amounts.serial);
    meet(me->run);
    me->serial_ns += monotonic_ns() - begin_ns;
}

static void write_blocks(struct worker *me)
{
    uint64_t begin_ns = monotonic_ns(), begin_cpu_ns = thread_cpu_ns();
    for (uint64_t i = 0; i < me->run->writes; i++)
        if (pwrite(me->run->fd, me->run->block, me->run->block_bytes, 0) != (ssize_t)me->run->block_bytes)
            system_failed("write a block");
    uint64_t wall_ns = monotonic_ns() - begin_ns, cpu_ns = thread_cpu_ns() - begin_cpu_ns;
    me->disk_ns += wall_ns > cpu_ns ? wall_ns - cpu_ns : 0;
}

static void locked_part(struct worker *me, uint64_t step)
{
    struct run *run = me->run;
    for (uint64_t i = 0; i < run->locks; i++) {
        uint64_t begin_ns = monotonic_ns();
        pthread_mutex_lock(&run->lock);
        me->lock_ns += monotonic_ns() - begin_ns;
        run->locked_steps++;
        do_work(work_seed(me->index, step), run->amounts.locked / run->locks);
        pthread_mutex_unlock(&run->lock);
        do_work(work_seed(step, me->index), run->amounts.parallel / run->locks);
    }
}

static void *worker_main(void *argument)
{
    struct worker *me = argument;
    struct run *run = me->run;
    const struct amounts *amounts = &run->amounts;
    struct thread_meter meter;
    me->tid = gettid();
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    for (uint64_t step = 0; step < run->steps; step++) {
        if (amounts->serial > 0)
            serial_phase(me);
        uint64_t begin_cpu_ns = thread_cpu_ns();
        if (run->fd >= 0 && me->index == 0)
            write_blocks(me);
        if (amounts->locked > 0)
            locked_part(me, step);
        else
            do_work(work_seed(me->index, step), amounts->parallel);
        if (amounts->unequal > 0 && me->index == run->threads - 1)
            do_work(work_seed(me->index, step + run->steps), amounts->unequal);
        me->parallel_cpu_ns += thread_cpu_ns() - begin_cpu_ns;
        uint64_t arrived_ns = monotonic_ns();
        meet(run);
        me->end_ns += monotonic_ns() - arrived_ns;
    }
    me->span = span_between(begin, thread_meter_read(&meter));
    thread_meter_close(&meter);
    return NULL;
}

// The calling thread is thread 0, as in an OpenMP team.
static void run_all(struct run *run)
{
    pthread_t *others = calloc(run->threads, sizeof *others);
    if (others == NULL)
        system_failed("allocate %zu threads", run->threads);
    for (size_t i = 1; i < run->threads; i++)
        others[i] = start_thread(worker_main, &run->workers[i], 0);
    worker_main(&run->workers[0]);
    for (size_t i = 1; i < run->threads; i++)
        join_thread(others[i]);
    free(others);
}

// Thread time that was lost for each reason. The parts of a step are apart, so no time has two reasons, except that the
// other threads can wait at the end of a step for a writer or for the last thread.
static void write_truth(struct truth *truth, const struct run *run)
{
    uint64_t serial_ns = 0, lock_ns = 0, disk_ns = 0, end_ns = 0, largest_ns = 0, parallel_ns = 0;
    truth_begin(truth, "losses");
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < run->threads; i++) {
        const struct worker *worker = &run->workers[i];
        truth_object_begin(truth);
        truth_thread_span(truth, worker->tid, worker->span);
        truth_object_end(truth);
        serial_ns += i > 0 ? worker->serial_ns : 0;
        lock_ns += worker->lock_ns;
        disk_ns += worker->disk_ns;
        end_ns += worker->end_ns;
        parallel_ns += worker->parallel_cpu_ns;
        largest_ns = worker->parallel_cpu_ns > largest_ns ? worker->parallel_cpu_ns : largest_ns;
    }
    truth_array_end(truth);
    truth_u64(truth, "serial_ns", serial_ns);
    truth_u64(truth, "unequal_ns", largest_ns * run->threads - parallel_ns);
    truth_u64(truth, "lock_ns", lock_ns);
    truth_u64(truth, "disk_ns", disk_ns);
    truth_u64(truth, "end_ns", end_ns);
    truth_end(truth);
}

int main(int argc, char **argv)
{
    uint64_t threads = 2, steps = 200, work_ns = 5 * NS_PER_MS, serial_ns = 0, unequal_ns = 0, locked_ns = 0;
    unsigned wait_mode = WAIT_FUTEX;
    double iterations_per_us = 0;
    const char *directory = scratch_default_directory();
    struct run run = {.lock = PTHREAD_MUTEX_INITIALIZER, .locks = 20, .block_bytes = 1024 * 1024, .fd = -1};
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 2, 4096, NULL, "N", "threads, the main thread among them (2)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e9, NULL, "S", "number of steps (200)", NULL},
        {"work-us", OPTION_MICROS, &work_ns, 0, 1e7, NULL, "U",
         "CPU work of each thread in a step, us (5000)", NULL},
        {"serial-us", OPTION_MICROS, &serial_ns, 0, 1e7, NULL, "U",
         "work of the first thread alone, before the others begin the step, us (0)", NULL},
        {"unequal-us", OPTION_MICROS, &unequal_ns, 0, 1e7, NULL, "U",
         "work of the last thread beyond that of the others, us (0)", NULL},
        {"locked-us", OPTION_MICROS, &locked_ns, 0, 1e7, NULL, "U",
         "work of each thread in a critical section, us (0)", NULL},
        {"locks", OPTION_COUNT, &run.locks, 1, 1e6, NULL, "L",
         "critical sections of each thread in a step (20)", NULL},
        {"writes", OPTION_COUNT, &run.writes, 0, 1e6, NULL, "W",
         "blocks that the first thread writes in a step, with O_DIRECT (0)", NULL},
        {"block", OPTION_BYTES, &run.block_bytes, ALIGNMENT, 1073741824.0, NULL, "BYTES",
         "size of a block, a multiple of 4096 (1M)", NULL},
        {"dir", OPTION_TEXT, &directory, 0, 0, NULL, "DIR",
         "directory of the file ($TMPDIR, or the working directory)", NULL},
        {"wait", OPTION_CHOICE, &wait_mode, 0, 0, wait_names, "HOW", "futex, spin or yield (futex)", NULL},
        {"iterations-per-us", OPTION_NUMBER, &iterations_per_us, 0.001, 1e6, NULL, "K",
         "skip the calibration: K loop iterations are 1 us", NULL},
    };
    const struct program program = {
        .name = "losses",
        .summary = "N threads work in steps and lose time for the reasons that are chosen: serial\n"
                   "parts, unequal work, a critical section, writes. Each loss is measured. More\n"
                   "threads than CPUs, an affinity mask and a quota are chosen from outside.",
        .example = "losses --serial-us 3000 --unequal-us 1000 --truth -",
        .checked = "All work has the right result; the critical section was entered as often as\n"
                   "it should.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    struct working_set none = {0};
    if (iterations_per_us == 0)
        iterations_per_us = work_calibrate(&none);
    run.steps = steps;
    run.threads = threads;
    run.amounts = (struct amounts){
        .serial = work_iterations(serial_ns, iterations_per_us),
        .parallel = work_iterations(work_ns, iterations_per_us),
        .unequal = work_iterations(unequal_ns, iterations_per_us),
        .locked = work_iterations(locked_ns, iterations_per_us),
    };
    run.barrier.threads = (uint32_t)threads;
    run.barrier.mode = (enum barrier_wait_mode)wait_mode;
    run.barrier.pause = true;
    if (run.block_bytes % ALIGNMENT != 0)
        bad_input("--block is not a multiple of %d", ALIGNMENT);
    if (run.writes > 0) {
        int fd = scratch_open(directory);
        scratch_demand_disk(fd, directory);
        run.fd = scratch_reopen(fd, O_WRONLY | O_DIRECT);
        close(fd);
        run.block = aligned_alloc(ALIGNMENT, run.block_bytes);
        if (run.block == NULL)
            system_failed("allocate a block");
        memset(run.block, 1, run.block_bytes);
    }
    run.workers = aligned_alloc(_Alignof(struct worker), threads * sizeof *run.workers);
    if (run.workers == NULL)
        system_failed("allocate %" PRIu64 " threads", threads);
    for (size_t i = 0; i < threads; i++)
        run.workers[i] = (struct worker){.run = &run, .index = i};

    uint64_t begin_ns = monotonic_ns();
    run_all(&run);
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    if (run.amounts.locked > 0 && run.locked_steps != steps * threads * run.locks)
        check_failed("the critical section was entered %" PRIu64 " times", run.locked_steps);
    printf("losses: %" PRIu64 " threads, %" PRIu64 " steps: %.4f s\n", threads, steps, (double)elapsed_ns / NS_PER_SECOND);
    write_truth(&truth, &run);
    free(run.workers);
    free(run.block);
    return program_end();
}
