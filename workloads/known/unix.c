// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that blocks on a Unix socket for a known time.
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"
#include "pair.h"

enum call { CALL_RECV, CALL_READ, CALL_RECVMSG };

struct channel {
    int receive_fd, send_fd;
    unsigned call;
};

static unsigned char wait_for_byte(void *context)
{
    const struct channel *channel = context;
    unsigned char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t length;
    switch (channel->call) {
    case CALL_READ: length = read(channel->receive_fd, &byte, 1); break;
    case CALL_RECVMSG: length = recvmsg(channel->receive_fd, &message, 0); break;
    default: length = recv(channel->receive_fd, &byte, 1, 0); break;
    }
    if (length != 1)
        system_failed("receive from the socket");
    return byte;
}

static void send_byte(void *context, unsigned char byte)
{
    const struct channel *channel = context;
    if (send(channel->send_fd, &byte, 1, MSG_NOSIGNAL) != 1)
        system_failed("send to the socket");
}

int main(int argc, char **argv)
{
    struct rounds rounds = ROUNDS_DEFAULT;
    static const char *const calls[] = {"recv", "read", "recvmsg", NULL};
    struct channel channel = {.call = CALL_RECV};
    const struct option_spec options[] = {
        ROUNDS_OPTIONS(rounds),
        {"call", OPTION_CHOICE, &channel.call, 0, 0, calls, "CALL",
         "system call to block in: recv, read or recvmsg (recv)", NULL},
    };
    const struct program program = {
        .name = "known-unix",
        .summary = "A thread 'known-unix' blocks on an AF_UNIX socket pair, cause pipe; 'waker'\n"
                   "sleeps and then sends one byte, cause sleep; main joins, cause futex.",
        .example = "known-unix --call read --seconds 1 --truth -",
        .checked = "Every byte arrived, in order; the receiver really left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        system_failed("make a socket pair");
    channel.receive_fd = ends[0];
    channel.send_fd = ends[1];
    const struct pair pair = {"pipe", &channel, wait_for_byte, send_byte};
    pair_run(&pair, &rounds, program.name, &truth);
    return program_end();
}
