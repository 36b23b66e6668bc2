// SPDX-License-Identifier: Apache-2.0 OR MIT
// A process that blocks in flock while another process holds the lock.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/file.h>
#include <unistd.h>

#include "account.h"
#include "fail.h"
#include "pair.h"
#include "scratch.h"
#include "task.h"

// Memory that both processes share.
struct shared {
    struct account holding, idle;
    bool locked;              // written only under the lock
    uint64_t rounds_held;
};

struct contest {
    struct shared *shared;
    int file_fd;
    int locked_pipe[2];       // holder → waiter: I have the lock
    int next_pipe[2];         // waiter → holder: take it again
    uint64_t rounds, each_ns;
};

static void take_lock(int fd)
{
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            system_failed("take the file lock");
}

static void drop_lock(int fd)
{
    if (flock(fd, LOCK_UN) != 0)
        system_failed("drop the file lock");
}

static void tell(int fd)
{
    if (write(fd, "", 1) != 1)
        system_failed("write to the other process");
}

static void hear(int fd)
{
    char byte;
    ssize_t length = read(fd, &byte, 1);
    if (length < 0)
        system_failed("read from the other process");
    if (length == 0)
        check_failed("the other process ended early");
}

static void hold_again_and_again(const struct contest *contest)
{
    struct shared *shared = contest->shared;
    struct thread_meter meter;
    name_thread("holder");
    account_open(&shared->holding, "sleep");
    account_open(&shared->idle, "pipe");
    thread_meter_open(&meter);
    // Locks belong to open file descriptions: with an inherited descriptor, both processes would have the
    // same lock.
    int fd = scratch_reopen(contest->file_fd, O_RDWR);
    if (fd < 0)
        system_failed("open the lock file again");
    for (uint64_t round = 0; round < contest->rounds; round++) {
        take_lock(fd);
        shared->locked = true;
        tell(contest->locked_pipe[1]);
        struct thread_instant begin = thread_meter_read(&meter);
        sleep_for_ns(contest->each_ns);
        struct thread_instant slept = thread_meter_read(&meter);
        account_add(&shared->holding, begin, slept, 1);
        shared->rounds_held++;
        shared->locked = false;
        drop_lock(fd);
        begin = thread_meter_read(&meter);
        hear(contest->next_pipe[0]);
        account_add(&shared->idle, begin, thread_meter_read(&meter), 1);
    }
    _exit(0);
}

static void wait_again_and_again(const struct contest *contest, struct account *locking,
                                 struct account *hearing)
{
    struct thread_meter meter;
    thread_meter_open(&meter);
    for (uint64_t round = 0; round < contest->rounds; round++) {
        struct thread_instant begin = thread_meter_read(&meter);
        hear(contest->locked_pipe[0]);
        struct thread_instant heard = thread_meter_read(&meter);
        take_lock(contest->file_fd);
        struct thread_instant locked = thread_meter_read(&meter);
        account_add(hearing, begin, heard, 1);
        account_add(locking, heard, locked, 1);
        if (contest->shared->locked || contest->shared->rounds_held != round + 1)
            check_failed("got the lock in round %" PRIu64 " while the other process held it", round);
        drop_lock(contest->file_fd);
        tell(contest->next_pipe[1]);
    }
    thread_meter_close(&meter);
}

int main(int argc, char **argv)
{
    struct rounds rounds = ROUNDS_DEFAULT;
    const char *directory = scratch_default_directory();
    const struct option_spec options[] = {
        ROUNDS_OPTIONS(rounds),
        {"dir", OPTION_TEXT, &directory, 0, 0, NULL, "DIR",
         "directory of the temporary file ($TMPDIR, else .)", NULL},
    };
    const struct program program = {
        .name = "known-flock",
        .summary = "The main thread blocks in flock, cause file_lock, while a child 'holder' holds\n"
                   "the lock and sleeps, cause sleep. Between rounds they wait for each other's\n"
                   "message, cause pipe.",
        .example = "known-flock --seconds 1 --each-ms 20 --truth -",
        .checked = "The waiter got the lock once per round, and never while the other process held it.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    struct contest contest = {
        .shared = shared_memory(sizeof *contest.shared),
        .file_fd = scratch_open(directory),
        .rounds = round_count(&rounds),
        .each_ns = rounds.each_ns,
    };
    if (pipe(contest.locked_pipe) != 0 || pipe(contest.next_pipe) != 0)
        system_failed("make a pipe");
    pid_t holder = start_process();
    // Each process keeps only its own ends: if one dies, the other reads an end of file.
    close(contest.locked_pipe[holder == 0 ? 0 : 1]);
    close(contest.next_pipe[holder == 0 ? 1 : 0]);
    if (holder == 0)
        hold_again_and_again(&contest);
    struct account locking, hearing;
    account_open(&locking, "file_lock");
    account_open(&hearing, "pipe");
    wait_again_and_again(&contest, &locking, &hearing);
    check_blocked(&locking);
    reap_process(holder, 0);
    const struct account accounts[] = {locking, hearing, contest.shared->holding,
                                       contest.shared->idle};
    accounts_report(&truth, program.name, accounts, COUNT_OF(accounts));
    return program_end();
}
