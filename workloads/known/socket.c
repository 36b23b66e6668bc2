// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thread that blocks in recv on a loopback socket for a known time.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fail.h"
#include "pair.h"

enum protocol { PROTOCOL_UDP, PROTOCOL_TCP };

struct channel {
    int receive_fd, send_fd;
};

static unsigned char wait_for_byte(void *context)
{
    const struct channel *channel = context;
    unsigned char byte;
    if (recv(channel->receive_fd, &byte, 1, 0) != 1)
        system_failed("receive from the socket");
    return byte;
}

static void send_byte(void *context, unsigned char byte)
{
    const struct channel *channel = context;
    if (send(channel->send_fd, &byte, 1, MSG_NOSIGNAL) != 1)
        system_failed("send to the socket");
}

static int new_socket(int type)
{
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        system_failed("make a socket");
    return fd;
}

static struct sockaddr_in bind_to_loopback(int fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(fd, (struct sockaddr *)&address, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        system_failed("bind a socket to the loopback address");
    return address;
}

static void connect_to(int fd, struct sockaddr_in address)
{
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        system_failed("connect a socket");
}

static struct channel connected_udp(void)
{
    struct channel channel = {new_socket(SOCK_DGRAM), new_socket(SOCK_DGRAM)};
    connect_to(channel.send_fd, bind_to_loopback(channel.receive_fd));
    return channel;
}

static struct channel connected_tcp(void)
{
    int listener = new_socket(SOCK_STREAM), on = 1;
    struct sockaddr_in address = bind_to_loopback(listener);
    struct channel channel = {-1, new_socket(SOCK_STREAM)};
    if (listen(listener, 1) != 0)
        system_failed("listen");
    connect_to(channel.send_fd, address);
    channel.receive_fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (channel.receive_fd < 0)
        system_failed("accept a connection");
    if (setsockopt(channel.send_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        system_failed("set TCP_NODELAY");
    close(listener);
    return channel;
}

int main(int argc, char **argv)
{
    struct rounds rounds = ROUNDS_DEFAULT;
    static const char *const protocols[] = {"udp", "tcp", NULL};
    unsigned protocol = PROTOCOL_UDP;
    const struct option_spec options[] = {
        ROUNDS_OPTIONS(rounds),
        {"protocol", OPTION_CHOICE, &protocol, 0, 0, protocols, "P", "udp or tcp (udp)", NULL},
    };
    const struct program program = {
        .name = "known-socket",
        .summary = "A thread 'known-socket' blocks in recv on a loopback socket, cause network;\n"
                   "'waker' sleeps and then sends one byte, cause sleep; main joins, cause futex.",
        .example = "known-socket --protocol tcp --seconds 1 --truth -",
        .checked = "Every byte arrived, in order; the receiver really left the CPU.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    struct channel channel = protocol == PROTOCOL_TCP ? connected_tcp() : connected_udp();
    // A datagram may be lost: then fail instead of waiting forever.
    const struct timeval patience = {.tv_sec = (time_t)(rounds.each_ns / NS_PER_SECOND) + 10};
    if (setsockopt(channel.receive_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
        system_failed("set the receive time-out");
    const struct pair pair = {"network", &channel, wait_for_byte, send_byte};
    pair_run(&pair, &rounds, program.name, &truth);
    return program_end();
}
