// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that blocks in writes with O_DIRECT.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "account.h"
#include "fail.h"
#include "options.h"
#include "scratch.h"
#include "task.h"

// The largest alignment that O_DIRECT requires of addresses and lengths.
enum { ALIGNMENT = 4096 };

struct writer {
    int fd;
    uint64_t duration_ns;
    uint64_t block_bytes;
    uint64_t blocks;             // length of the file; then writing starts over
    uint64_t writes;
    struct account account;
};

static unsigned char *new_block(uint64_t bytes)
{
    unsigned char *block = aligned_alloc(ALIGNMENT, bytes);
    if (block == NULL)
        system_failed("allocate a block");
    return block;
}

// Fills a block with repetitions of the number of the write.
static void fill_block(unsigned char *block, uint64_t bytes, uint64_t number)
{
    for (size_t at = 0; at < bytes; at += sizeof number)
        memcpy(block + at, &number, sizeof number);
}

static void *writer_main(void *argument)
{
    struct writer *me = argument;
    struct thread_meter meter;
    unsigned char *block = new_block(me->block_bytes);
    name_thread("writer");
    account_open(&me->account, "disk");
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    do {
        fill_block(block, me->block_bytes, me->writes);
        off_t offset = (off_t)(me->writes % me->blocks * me->block_bytes);
        if (pwrite(me->fd, block, me->block_bytes, offset) != (ssize_t)me->block_bytes) {
            // Some file systems accept the flag at open and refuse the first transfer.
            if (errno == EINVAL && me->writes == 0)
                not_possible_here("the file system refuses O_DIRECT writes; give another --dir");
            system_failed("write a block");
        }
        me->writes++;
    } while (monotonic_ns() - begin.monotonic_ns < me->duration_ns);
    account_add(&me->account, begin, thread_meter_read(&meter), me->writes);
    check_blocked(&me->account);
    thread_meter_close(&meter);
    free(block);
    return NULL;
}

// Reads the file back with O_DIRECT, and returns the number of reads.
static uint64_t check_file(const struct writer *writer)
{
    const uint64_t bytes = writer->block_bytes;
    unsigned char *block = new_block(bytes), *expected = new_block(bytes);
    uint64_t filled = writer->writes < writer->blocks ? writer->writes : writer->blocks;
    for (uint64_t at = 0; at < filled; at++) {
        // The last write to this place.
        uint64_t number = (writer->writes - 1 - at) / writer->blocks * writer->blocks + at;
        fill_block(expected, bytes, number);
        if (pread(writer->fd, block, bytes, (off_t)(at * bytes)) != (ssize_t)bytes)
            system_failed("read a block back");
        if (memcmp(block, expected, bytes) != 0)
            check_failed("block %" PRIu64 " does not hold what write %" PRIu64 " put there", at,
                         number);
    }
    free(block);
    free(expected);
    return filled;
}

int main(int argc, char **argv)
{
    struct writer writer = {.duration_ns = 600 * NS_PER_MS, .block_bytes = 65536, .blocks = 64};
    const char *directory = scratch_default_directory();
    const struct option_spec options[] = {
        {"seconds", OPTION_SECONDS, &writer.duration_ns, 0.001, 86400, NULL, "S",
         "write until S seconds have passed (0.6)", NULL},
        {"blocks", OPTION_COUNT, &writer.blocks, 1, 1e6, NULL, "N",
         "blocks in the file, which is overwritten repeatedly (64)", NULL},
        {"block-bytes", OPTION_BYTES, &writer.block_bytes, ALIGNMENT, 1073741824.0, NULL, "BYTES",
         "size of each write, a multiple of 4096 (64K)", NULL},
        {"dir", OPTION_TEXT, &directory, 0, 0, NULL, "DIR",
         "directory of the temporary file ($TMPDIR, else .)", NULL},
    };
    const struct program program = {
        .name = "known-write",
        .summary = "A thread 'writer' writes blocks with O_DIRECT and O_DSYNC, cause disk;\n"
                   "main joins, cause futex, and then reads the file back, cause disk.",
        .example = "known-write --seconds 1 --dir /var/tmp --truth -",
        .checked = "Every block read back holds what its last write put there; the writer really\n"
                   "left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (writer.block_bytes % ALIGNMENT != 0)
        bad_input("--block-bytes must be a multiple of %d", (int)ALIGNMENT);
    int plain_fd = scratch_open(directory);
    scratch_demand_disk(plain_fd, directory);
    writer.fd = scratch_reopen(plain_fd, O_RDWR | O_DIRECT | O_DSYNC);
    if (writer.fd < 0 && errno == EINVAL)
        not_possible_here("the file system of '%s' refuses O_DIRECT", directory);
    if (writer.fd < 0)
        system_failed("open the temporary file for direct writing");

    struct thread_meter meter;
    struct account joining, reading;
    thread_meter_open(&meter);
    account_open(&joining, "futex");
    account_open(&reading, "disk");
    pthread_t thread = start_thread(writer_main, &writer, 0);
    struct thread_instant begin = thread_meter_read(&meter);
    join_thread(thread);
    struct thread_instant joined = thread_meter_read(&meter);
    account_add(&joining, begin, joined, 1);
    uint64_t reads = check_file(&writer);
    account_add(&reading, joined, thread_meter_read(&meter), reads);
    thread_meter_close(&meter);
    const struct account accounts[] = {writer.account, joining, reading};
    accounts_report(&truth, program.name, accounts, COUNT_OF(accounts));
    return program_end();
}
