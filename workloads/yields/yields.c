// SPDX-License-Identifier: Apache-2.0 OR MIT
// Processes, threads or user-level processes (ULPs) that give up the CPU to each other, and hardly anything else. See --help.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cox_ulp.h>

#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "task.h"
#include "truth.h"

enum { MAX_MEMBERS = 10000 };

// What all members share. A new file has zeros.
struct board {
    _Atomic uint32_t arrived, done, ended;
    _Atomic uint32_t turn[MAX_MEMBERS];     // of a member, with --by futex
};

enum way { PROCESSES, THREADS, ULPS };
enum by { YIELD, FUTEX };

struct run {
    struct board *board;
    uint64_t count, rounds, calls;
    uint64_t forks;         // if not 0, member 0 forks so often, and the others sleep
    uint64_t sleep_ns;      // the upper half of the members sleeps so long again and again, and takes no turns
    enum by by;
};

struct member {
    const struct run *run;
    uint32_t number;
    uint64_t elapsed_ns;    // of member 0: from when all are there until all are done
};

static __thread uint64_t in_tls;
static _Atomic uint64_t in_data;

static void sleep_on(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

// Waits for this member's turn, and gives the next one its turn.
static void pass_on(const struct run *run, uint32_t number, uint32_t round)
{
    _Atomic uint32_t *mine = &run->board->turn[number];
    while (atomic_load(mine) <= round)
        sleep_on(mine, round);
    _Atomic uint32_t *next = &run->board->turn[(number + 1) % run->count];
    atomic_fetch_add(next, 1);
    wake(next);
}

static bool only_sleeps(const struct member *me)
{
    return me->run->sleep_ns != 0 && me->number >= (me->run->count + 1) / 2;
}

static uint64_t with_turns(const struct run *run)
{
    return run->sleep_ns != 0 ? (run->count + 1) / 2 : run->count;
}

static void wait_until(_Atomic uint32_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) < value)
        cox_ulp_yield();
}

// Children that end at once: what a fork costs while the others exist.
static void fork_children(struct member *me)
{
    struct board *board = me->run->board;
    if (me->number != 0) {
        while (atomic_load(&board->ended) == 0)
            sleep_on(&board->ended, 0);
        return;
    }
    // The others need a moment to fall asleep.
    sleep_for_ns(50 * 1000 * 1000);
    uint64_t begin_ns = monotonic_ns();
    for (uint64_t i = 0; i < me->run->forks; i++) {
        pid_t child = start_process();
        if (child == 0)
            _exit(0);
        reap_process(child, 0);
    }
    me->elapsed_ns = monotonic_ns() - begin_ns;
    atomic_store(&board->ended, 1);
    syscall(SYS_futex, &board->ended, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void take_part(struct member *me)
{
    const struct run *run = me->run;
    struct board *board = run->board;
    if (me->number == 0)
        atomic_fetch_add(&board->turn[0], 1);
    atomic_fetch_add(&board->arrived, 1);
    wait_until(&board->arrived, run->count);
    if (run->forks != 0) {
        fork_children(me);
        return;
    }
    if (only_sleeps(me)) {
        while (atomic_load(&board->ended) == 0)
            sleep_for_ns(run->sleep_ns);
        return;
    }
    uint64_t begin_ns = monotonic_ns();
    for (uint64_t round = 0; round < run->rounds; round++) {
        if (run->by == FUTEX)
            pass_on(run, me->number, (uint32_t)round);
        else
            cox_ulp_yield();
        in_tls++;
        // A plain load and store: threads may lose counts, and nobody minds.
        atomic_store_explicit(&in_data, atomic_load_explicit(&in_data, memory_order_relaxed) + 1, memory_order_relaxed);
        for (uint64_t call = 0; call < run->calls; call++)
            syscall(SYS_getppid);
    }
    if (in_tls != run->rounds)
        check_failed("member %u counted %" PRIu64 " rounds in its thread-local variable", me->number, in_tls);
    atomic_fetch_add(&board->done, 1);
    if (me->number == 0) {
        wait_until(&board->done, with_turns(run));
        me->elapsed_ns = monotonic_ns() - begin_ns;
        atomic_store_explicit(&board->ended, 1, memory_order_release);
    }
    // The end of a process takes CPU time, which is not to be measured.
    wait_until(&board->ended, 1);
}

static void *take_part_as_thread(void *argument)
{
    take_part(argument);
    return NULL;
}

// Maps the file that separate processes share.
static struct board *map_board(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        bad_input("--board: cannot open '%s': %s", path, strerror(errno));
    if (ftruncate(fd, sizeof(struct board)) != 0)
        system_failed("make room in '%s'", path);
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        system_failed("map '%s'", path);
    close(fd);
    return board;
}

static void run_processes(struct member *members, uint64_t count)
{
    static pid_t others[MAX_MEMBERS];
    for (uint64_t i = 1; i < count; i++) {
        others[i] = start_process();
        if (others[i] == 0) {
            take_part(&members[i]);
            _exit(0);
        }
    }
    take_part(&members[0]);
    for (uint64_t i = 1; i < count; i++)
        reap_process(others[i], 0);
}

static void run_threads(struct member *members, uint64_t count)
{
    static pthread_t others[MAX_MEMBERS];
    for (uint64_t i = 1; i < count; i++)
        others[i] = start_thread(take_part_as_thread, &members[i], 64 << 10);
    take_part(&members[0]);
    for (uint64_t i = 1; i < count; i++)
        join_thread(others[i]);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"processes", "threads", "ulps", NULL};
    static const char *const means[] = {"yield", "futex", NULL};
    unsigned way = PROCESSES, by = YIELD;
    struct run run = {.count = 2, .rounds = 1000, .calls = 0};
    const char *board_path = NULL;
    uint64_t sleep_us = 0;
    bool count_given = false;
    const struct option_spec options[] = {
        {"as", OPTION_CHOICE, &way, 0, 0, ways, "WHAT", "processes, threads or ulps (processes)", NULL},
        {"by", OPTION_CHOICE, &by, 0, 0, means, "MEANS",
         "yield, or futex: each wakes the next one and sleeps (yield)", NULL},
        {"count", OPTION_COUNT, &run.count, 1, MAX_MEMBERS, NULL, "N", "number of members (2); ulps: as many as there are",
         &count_given},
        {"rounds", OPTION_COUNT, &run.rounds, 1, 1e9, NULL, "R", "times that each one gives up the CPU (1000)", NULL},
        {"calls", OPTION_COUNT, &run.calls, 0, 1e6, NULL, "C", "system calls of each one after each time (0)", NULL},
        {"forks", OPTION_COUNT, &run.forks, 1, 1e6, NULL, "F",
         "member 0 forks F times instead, one child after another, and the others sleep; not as threads", NULL},
        {"sleep-us", OPTION_COUNT, &sleep_us, 1, 1e9, NULL, "US",
         "the upper half of the members only sleeps, US at a time; not with --by futex", NULL},
        {"board", OPTION_TEXT, &board_path, 0, 0, NULL, "FILE", "ulps: a new file that all of them map", NULL},
    };
    const struct program program = {
        .name = "yields",
        .summary = "N members give up the CPU to each other R times, and count in a thread-local and a global\n"
                   "variable. Prints ns per time. With --as ulps, start it with cox ulp.",
        .example = "taskset -c 1 yields --as threads --count 100\n"
                   "taskset -c 1 cox ulp -n 100 -- yields --as ulps --board /dev/shm/board",
        .checked = "Each member's thread-local variable has counted its rounds; with --forks, each child has ended with 0.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if ((way == ULPS) != (board_path != NULL))
        bad_input("--board goes with --as ulps");
    if (way == ULPS && (cox_ulp_number() < 0 || count_given))
        bad_input("--as ulps: start it with cox ulp, which sets the number");
    if (way == ULPS && cox_ulp_count() > MAX_MEMBERS)
        bad_input("at most %d ULPs", MAX_MEMBERS);
    if (way == ULPS)
        run.count = (uint64_t)cox_ulp_count();
    if (sleep_us != 0 && by == FUTEX)
        bad_input("--sleep-us does not go with --by futex: the sleepers would not pass the turn on");
    if (run.forks != 0 && (way == THREADS || sleep_us != 0 || by == FUTEX || run.calls != 0))
        bad_input("--forks is for processes and ULPs, without --sleep-us, --by futex and --calls");
    run.sleep_ns = sleep_us * 1000;
    run.by = by;
    run.board = way == ULPS ? map_board(board_path) : shared_memory(sizeof *run.board);

    struct member *members = shared_memory(run.count * sizeof *members);
    for (uint32_t i = 0; i < run.count; i++)
        members[i] = (struct member){.run = &run, .number = i};
    if (way == PROCESSES)
        run_processes(members, run.count);
    else if (way == THREADS)
        run_threads(members, run.count);
    else
        take_part(&members[cox_ulp_number()]);
    if (way == ULPS && cox_ulp_number() != 0)
        return 0;

    bool forks = run.forks != 0;
    double ns = (double)members[0].elapsed_ns / (double)(forks ? run.forks : with_turns(&run) * run.rounds);
    printf("yields: %" PRIu64 " %s, %" PRIu64 " %s: %.1f ns per %s\n", run.count, ways[way],
           forks ? run.forks : run.rounds, forks ? "forks" : "rounds", ns, forks ? "fork" : means[by]);
    truth_begin(&truth, "yields");
    truth_string(&truth, "as", ways[way]);
    truth_string(&truth, "by", means[by]);
    truth_u64(&truth, "count", run.count);
    truth_u64(&truth, "rounds", run.rounds);
    truth_u64(&truth, "calls", run.calls);
    truth_u64(&truth, "sleep_us", sleep_us);
    truth_u64(&truth, "forks", run.forks);
    truth_double(&truth, forks ? "ns_per_fork" : "ns_per_yield", ns);
    truth_end(&truth);
    return program_end();
}
