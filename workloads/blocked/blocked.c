// SPDX-License-Identifier: Apache-2.0 OR MIT
// OpenMP tasks that are blocked most of the time, in the program's first and only parallel region. See
// --help.
//
// The measured time begins before that region and ends after it, so it includes the start of the runtime.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "array.h"
#include "clocks.h"
#include "fail.h"
#include "numbers.h"
#include "options.h"
#include "scratch.h"
#include "squeeze.h"
#include "task.h"
#include "truth.h"
#include "work.h"

enum { ALIGNMENT = 4096, MESSAGE = 512, SLOT = SQUEEZE_MAX + ALIGNMENT };

struct blocked {
    uint64_t lanes, items, buffers;    // items are assigned to lanes in turn
    uint64_t sleep_ns, work_ns, pace_ns;
    double iterations_per_us;
    uint64_t iterations;
    const char *folder;
    uint64_t *results;                 // result of each item
    uint64_t *values;                  // content of each buffer
    char *marks;                       // one per buffer, for depend clauses
};

static struct blocked blocked = {.lanes = 16, .items = 4000, .buffers = 2, .pace_ns = 2400 * NS_PER_US,
                                 .sleep_ns = 1500 * NS_PER_US, .work_ns = 400 * NS_PER_US};

static uint64_t seed_of(uint64_t item)
{
    return work_seed(item, 1);
}

static uint64_t work_on(uint64_t seed)
{
    struct working_set none = {0};
    return calibrated_work(seed, blocked.iterations, &none);
}

// Returns the index of an item's buffer. Each lane has several buffers of its own.
static uint64_t buffer_of(uint64_t item)
{
    uint64_t lane = item % blocked.lanes, turn = item / blocked.lanes;
    return lane * blocked.buffers + turn % blocked.buffers;
}

static void expect_results(void)
{
    struct work_answer answer = work_answer_for(blocked.iterations);
    for (uint64_t item = 0; item < blocked.items; item++)
        if (blocked.results[item] != work_answer(answer, seed_of(item)))
            check_failed("item %" PRIu64 " has another result", item);
}

// pipeline: three tasks per item; the first and the last sleep.

static void nothing(void)
{
}

static void make_pipeline(void)
{
    for (uint64_t item = 0; item < blocked.items; item++) {
        uint64_t at = buffer_of(item);
#pragma omp task depend(out : blocked.marks[at]) firstprivate(item, at)
        {
            sleep_for_ns(blocked.sleep_ns);
            blocked.values[at] = seed_of(item);
        }
#pragma omp task depend(inout : blocked.marks[at]) firstprivate(at)
        blocked.values[at] = work_on(blocked.values[at]);
#pragma omp task depend(inout : blocked.marks[at]) firstprivate(item, at)
        {
            sleep_for_ns(blocked.sleep_ns);
            blocked.results[item] = blocked.values[at];
        }
    }
}

// sleepers: one task per item, which sleeps and then computes.

static void make_sleepers(void)
{
    for (uint64_t item = 0; item < blocked.items; item++) {
#pragma omp task firstprivate(item)
        {
            if (blocked.sleep_ns > 0)
                sleep_for_ns(blocked.sleep_ns);
            blocked.results[item] = work_on(seed_of(item));
        }
    }
}

// fifos: two tasks per item: one reads a message from its lane's pipe, the other computes.

static int (*pipes)[2];
static pid_t feeder;

// Runs in another process: writes a message to each pipe, pauses, and repeats.
static _Noreturn void feed(int begins)
{
    char message[MESSAGE] = {0}, first;
    for (uint64_t lane = 0; lane < blocked.lanes; lane++)
        close(pipes[lane][0]);
    if (read(begins, &first, 1) != 1)
        _exit(EXIT_CHECK_FAILED);
    for (uint64_t item = 0; item < blocked.items; item++) {
        if (item % blocked.lanes == 0)
            sleep_for_ns(blocked.pace_ns);
        uint64_t seed = seed_of(item);
        memcpy(message, &seed, sizeof seed);
        if (write(pipes[item % blocked.lanes][1], message, MESSAGE) != MESSAGE)
            _exit(EXIT_CHECK_FAILED);
    }
    _exit(EXIT_SUCCESS);
}

static int feeder_begins;

static void prepare_fifos(void)
{
    int begins[2];
    pipes = zeroed_array(CACHE_LINE, blocked.lanes, sizeof *pipes);
    if (pipe2(begins, O_CLOEXEC) != 0)
        system_failed("make a pipe");
    for (uint64_t lane = 0; lane < blocked.lanes; lane++)
        if (pipe2(pipes[lane], O_CLOEXEC) != 0)
            system_failed("make a pipe");
    feeder = start_process();
    if (feeder == 0) {
        close(begins[1]);
        feed(begins[0]);
    }
    close(begins[0]);
    feeder_begins = begins[1];
    for (uint64_t lane = 0; lane < blocked.lanes; lane++)
        close(pipes[lane][1]);
}

static uint64_t read_message(int fd)
{
    char message[MESSAGE];
    uint64_t seed;
    for (size_t have = 0; have < MESSAGE;) {
        ssize_t count = read(fd, message + have, MESSAGE - have);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            system_failed("read a pipe");
        if (count == 0)
            check_failed("a pipe has ended early");
        have += (size_t)count;
    }
    memcpy(&seed, message, sizeof seed);
    return seed;
}

static void make_fifos(void)
{
    if (write(feeder_begins, "", 1) != 1)
        system_failed("start the feeder");
    for (uint64_t item = 0; item < blocked.items; item++) {
        uint64_t lane = item % blocked.lanes, at = buffer_of(item);
#pragma omp task depend(inout : pipes[lane]) depend(out : blocked.marks[at]) firstprivate(lane, at)
        blocked.values[at] = read_message(pipes[lane][0]);
#pragma omp task depend(in : blocked.marks[at]) firstprivate(item, at)
        blocked.results[item] = work_on(blocked.values[at]);
    }
}

static void end_fifos(void)
{
    reap_process(feeder, EXIT_SUCCESS);
    close(feeder_begins);
    for (uint64_t lane = 0; lane < blocked.lanes; lane++)
        close(pipes[lane][0]);
    free(pipes);
}

// compress: three tasks per item: read a block with O_DIRECT, compress it, write it with O_DIRECT.

static int input, output;
static uint8_t *raw, *squeezed;
static size_t *lengths;

static uint8_t *raw_in(uint64_t at)
{
    return raw + at * SQUEEZE_MAX;
}

static uint8_t *squeezed_in(uint64_t at)
{
    return squeezed + at * SLOT;
}

// Text-like data: words of a small vocabulary in a pseudorandom order that depends on the item.
static void fill(uint8_t *block, uint64_t item)
{
    struct random_sequence sequence = random_numbered(item);
    for (size_t at = 0; at < SQUEEZE_MAX; at += 8) {
        uint64_t word = mix_bits(random_bits(&sequence) % 512);
        memcpy(block + at, &word, 8);
    }
}

static int direct_file(void)
{
    int fd = scratch_open(blocked.folder);
    int direct = scratch_reopen(fd, O_RDWR | O_DIRECT);
    if (direct < 0 && errno == EINVAL)
        not_possible_here("the file system of '%s' has no O_DIRECT; give another --folder", blocked.folder);
    if (direct < 0)
        system_failed("open a file in '%s' for O_DIRECT", blocked.folder);
    close(fd);
    return direct;
}

static void write_block(int fd, const uint8_t *from, size_t bytes, uint64_t place)
{
    ssize_t count = pwrite(fd, from, bytes, (off_t)place);
    if (count < 0)
        system_failed("write %zu bytes", bytes);
    if ((size_t)count != bytes)
        check_failed("%zd of %zu bytes were written", count, bytes);
}

static void read_block(int fd, uint8_t *to, size_t bytes, uint64_t place)
{
    ssize_t count = pread(fd, to, bytes, (off_t)place);
    if (count < 0)
        system_failed("read %zu bytes", bytes);
    if ((size_t)count != bytes)
        check_failed("%zd of %zu bytes were read", count, bytes);
}

static size_t whole(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void prepare_compress(void)
{
    input = direct_file();
    output = direct_file();
    raw = zeroed_array(ALIGNMENT, blocked.lanes * blocked.buffers, SQUEEZE_MAX);
    squeezed = zeroed_array(ALIGNMENT, blocked.lanes * blocked.buffers, SLOT);
    lengths = zeroed_array(CACHE_LINE, blocked.items, sizeof *lengths);
    for (uint64_t item = 0; item < blocked.items; item++) {
        fill(raw, item);
        write_block(input, raw, SQUEEZE_MAX, item * SQUEEZE_MAX);
        // Write the output now, so that the file system has allocated its blocks before the measurement.
        write_block(output, squeezed, SLOT, item * SLOT);
    }
    if (fsync(input) != 0 || fsync(output) != 0)
        system_failed("write the files out");
}

static void make_compress(void)
{
    for (uint64_t item = 0; item < blocked.items; item++) {
        uint64_t at = buffer_of(item);
#pragma omp task depend(out : blocked.marks[at]) firstprivate(item, at)
        read_block(input, raw_in(at), SQUEEZE_MAX, item * SQUEEZE_MAX);
#pragma omp task depend(inout : blocked.marks[at]) firstprivate(item, at)
        lengths[item] = squeeze(raw_in(at), SQUEEZE_MAX, squeezed_in(at));
#pragma omp task depend(inout : blocked.marks[at]) firstprivate(item, at)
        write_block(output, squeezed_in(at), whole(lengths[item]), item * SLOT);
    }
}

static void end_compress(void)
{
    uint8_t *expected = zeroed_array(ALIGNMENT, 1, SQUEEZE_MAX);
    for (uint64_t item = 0; item < blocked.items; item++) {
        fill(expected, item);
        read_block(output, squeezed, whole(lengths[item]), item * SLOT);
        size_t bytes = unsqueeze(squeezed, lengths[item], raw, SQUEEZE_MAX);
        if (bytes != SQUEEZE_MAX || memcmp(raw, expected, bytes) != 0)
            check_failed("block %" PRIu64 " is not what was compressed", item);
    }
    free(expected);
    free(raw);
    free(squeezed);
    free(lengths);
    close(input);
    close(output);
}

static const char *const names[] = {"pipeline", "sleepers", "fifos", "compress", NULL};
static const struct kind {
    void (*prepare)(void), (*make)(void), (*check)(void);
} kinds[] = {{nothing, make_pipeline, expect_results},
             {nothing, make_sleepers, expect_results},
             {prepare_fifos, make_fifos, expect_results},
             {prepare_compress, make_compress, end_compress}};
enum { FIFOS = 2, COMPRESS = 3 };

static uint64_t process_cpu_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
        system_failed("read the CPU clock of the process");
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    unsigned kind = 0;
    uint64_t threads = 0;
    const struct option_spec options[] = {
        {"kind", OPTION_CHOICE, &kind, 0, 0, names, "NAME", "what the tasks do (pipeline)", NULL},
        {"threads", OPTION_COUNT, &threads, 1, 4096, NULL, "N", "threads of the team (OMP_NUM_THREADS, else all CPUs)",
         NULL},
        {"items", OPTION_COUNT, &blocked.items, 1, 1e6, NULL, "N", "items in all (4000)", NULL},
        {"lanes", OPTION_COUNT, &blocked.lanes, 1, 512, NULL, "N", "lanes, to which items are assigned in turn (16)", NULL},
        {"buffers", OPTION_COUNT, &blocked.buffers, 1, 64, NULL, "N", "items of a lane that may be in flight (2)", NULL},
        {"sleep-us", OPTION_MICROS, &blocked.sleep_ns, 0, 1e6, NULL, "T", "how long a task sleeps, us (1500)", NULL},
        {"work-us", OPTION_MICROS, &blocked.work_ns, 0, 1e6, NULL, "T", "how long a task computes, us (400)", NULL},
        {"pace-us", OPTION_MICROS, &blocked.pace_ns, 1, 1e6, NULL, "T", "fifos: time between two messages on a pipe, us (2400)",
         NULL},
        {"iterations-per-us", OPTION_NUMBER, &blocked.iterations_per_us, 0.001, 1e6, NULL, "N",
         "skip the calibration: N loop iterations are 1 us", NULL},
        {"folder", OPTION_TEXT, &blocked.folder, 0, 0, NULL, "DIR", "compress: directory of its temporary files ($TMPDIR, else .)",
         NULL},
    };
    const struct program program = {
        .name = "blocked",
        .summary = "OpenMP tasks that are blocked most of the time. pipeline: for each item a task that sleeps,\n"
                   "one that computes, one that sleeps; sleepers: one that sleeps and computes; fifos: one that\n"
                   "reads a pipe, one that computes; compress: one that reads a block of a file, one that\n"
                   "compresses it, one that writes it. Timed from before the first region to after it.",
        .example = "blocked --kind pipeline --threads 32\n"
                   "cox run --overlap -- blocked --kind compress --items 500",
        .checked = "Each item's result is recomputed; what was compressed is read back.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    omp_set_dynamic(0);
    if (threads != 0)
        omp_set_num_threads((int)threads);
    if (blocked.folder == NULL)
        blocked.folder = scratch_default_directory();
    uint64_t places = blocked.lanes * blocked.buffers;
    blocked.marks = zeroed_array(CACHE_LINE, places, sizeof *blocked.marks);
    blocked.values = zeroed_array(CACHE_LINE, places, sizeof *blocked.values);
    blocked.results = zeroed_array(CACHE_LINE, blocked.items, sizeof *blocked.results);
    if (kind != COMPRESS) {
        struct working_set none = {0};
        if (blocked.iterations_per_us == 0)
            blocked.iterations_per_us = work_calibrate(&none);
        blocked.iterations = work_iterations(blocked.work_ns, blocked.iterations_per_us);
    }
    kinds[kind].prepare();

    int team = 0;
    uint64_t begin_cpu_ns = process_cpu_ns(), begin_ns = monotonic_ns();
#pragma omp parallel
#pragma omp single
    {
        team = omp_get_num_threads();
        kinds[kind].make();
    }
    uint64_t elapsed_ns = monotonic_ns() - begin_ns, cpu_ns = process_cpu_ns() - begin_cpu_ns;

    kinds[kind].check();
    if (kind == FIFOS)
        end_fifos();
    printf("blocked: %s, %d threads, %.4f s, %.4f s of CPU\n", names[kind], team, (double)elapsed_ns / NS_PER_SECOND,
           (double)cpu_ns / NS_PER_SECOND);
    truth_begin(&truth, "blocked");
    truth_string(&truth, "kind", names[kind]);
    truth_u64(&truth, "team", (uint64_t)team);
    truth_u64(&truth, "items", blocked.items);
    truth_u64(&truth, "begin_ns", begin_ns);
    truth_u64(&truth, "elapsed_ns", elapsed_ns);
    truth_u64(&truth, "cpu_ns", cpu_ns);
    truth_double(&truth, "iterations_per_us", blocked.iterations_per_us);
    truth_end(&truth);
    free(blocked.marks);
    free(blocked.values);
    free(blocked.results);
    return program_end();
}
