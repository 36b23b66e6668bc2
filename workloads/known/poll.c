// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that blocks in poll, select or epoll_wait for a known time.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "fail.h"
#include "pair.h"

enum call { CALL_POLL, CALL_SELECT, CALL_EPOLL };

struct channel {
    int read_fd, write_fd, epoll_fd;
    unsigned call;
};

static int wait_until_readable(const struct channel *channel)
{
    struct pollfd watched = {.fd = channel->read_fd, .events = POLLIN};
    struct epoll_event event;
    fd_set readable;
    switch (channel->call) {
    case CALL_SELECT:
        FD_ZERO(&readable);
        FD_SET(channel->read_fd, &readable);
        return select(channel->read_fd + 1, &readable, NULL, NULL, NULL);
    case CALL_EPOLL:
        return epoll_wait(channel->epoll_fd, &event, 1, -1);
    default:
        return poll(&watched, 1, -1);
    }
}

static unsigned char wait_for_byte(void *context)
{
    const struct channel *channel = context;
    unsigned char byte;
    if (wait_until_readable(channel) != 1)
        system_failed("wait until the pipe is readable");
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
    static const char *const calls[] = {"poll", "select", "epoll", NULL};
    struct channel channel = {.call = CALL_POLL};
    const struct option_spec options[] = {
        ROUNDS_OPTIONS(rounds),
        {"call", OPTION_CHOICE, &channel.call, 0, 0, calls, "CALL",
         "system call to block in: poll, select or epoll (poll)", NULL},
    };
    const struct program program = {
        .name = "known-poll",
        .summary = "A thread 'known-poll' blocks in poll on an empty pipe, cause poll, and then\n"
                   "reads the byte without blocking; 'waker' sleeps and then writes it, cause sleep;\n"
                   "main joins, cause futex.",
        .example = "known-poll --call epoll --seconds 1 --truth -",
        .checked = "Every byte arrived, in order; the poller really left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    int ends[2];
    if (pipe(ends) != 0)
        system_failed("make a pipe");
    channel.read_fd = ends[0];
    channel.write_fd = ends[1];
    channel.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event readable = {.events = EPOLLIN};
    if (channel.epoll_fd < 0 ||
        epoll_ctl(channel.epoll_fd, EPOLL_CTL_ADD, channel.read_fd, &readable) != 0)
        system_failed("watch the pipe");
    const struct pair pair = {"poll", &channel, wait_for_byte, send_byte};
    pair_run(&pair, &rounds, program.name, &truth);
    return program_end();
}
