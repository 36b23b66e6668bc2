// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that blocks in read on an empty pipe for a known time.
#include <unistd.h>

#include "fail.h"
#include "pair.h"

struct channel {
    int read_fd, write_fd;
};

static unsigned char wait_for_byte(void *context)
{
    const struct channel *channel = context;
    unsigned char byte;
    if (read(channel->read_fd, &byte, 1) != 1)
        system_failed("read from the pipe");
    return byte;
}

static void send_byte(void *context, unsigned char byte)
{
    const struct channel *channel = context;
    if (write(channel->write_fd, &byte, 1) != 1)
        system_failed("write to the pipe");
}

int main(int argc, char **argv)
{
    struct rounds rounds = ROUNDS_DEFAULT;
    const struct option_spec options[] = {ROUNDS_OPTIONS(rounds)};
    const struct program program = {
        .name = "known-pipe",
        .summary = "A thread 'known-pipe' blocks in read on an empty pipe, cause pipe; 'waker'\n"
                   "sleeps and then writes one byte, cause sleep; main joins, cause futex.",
        .example = "known-pipe --seconds 1 --each-ms 5 --truth -",
        .checked = "Every byte arrived, in order; the reader really left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    int ends[2];
    if (pipe(ends) != 0)
        system_failed("make a pipe");
    struct channel channel = {ends[0], ends[1]};
    const struct pair pair = {"pipe", &channel, wait_for_byte, send_byte};
    pair_run(&pair, &rounds, program.name, &truth);
    return program_end();
}
