// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "ranks.h"

#include <errno.h>
#include <limits.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "array.h"
#include "clocks.h"
#include "fail.h"

// The first message on each connection. It identifies this program and the problem.
struct hello {
    uint64_t magic, problem, channel;
};

static const uint64_t magic = UINT64_C(0x636f7873776b7261);

static struct addrinfo *address_of(const char *peer, bool listens)
{
    const char *colon = strrchr(peer, ':');
    char host[256];
    if (colon == NULL || colon == peer || colon[1] == '\0' || (size_t)(colon - peer) >= sizeof host)
        bad_input("--peer must be HOST:PORT, not '%s'", peer);
    memcpy(host, peer, (size_t)(colon - peer));
    host[colon - peer] = '\0';
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0)};
    struct addrinfo *found;
    int error = getaddrinfo(host, colon + 1, &hints, &found);
    if (error != 0)
        bad_input("--peer: cannot find '%s': %s", peer, gai_strerror(error));
    return found;
}

// Disables Nagle's algorithm, because messages are short and awaited, and limits the time of a send.
static void prepare(int fd, uint64_t patience_ns)
{
    int yes = 1;
    struct timeval patience = {(time_t)(patience_ns / NS_PER_SECOND),
                               (suseconds_t)(patience_ns % NS_PER_SECOND / NS_PER_US)};
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
        system_failed("set the options of a connection");
}

static int new_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        system_failed("make a socket");
    return fd;
}

static void send_all(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t length = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            check_failed("the other rank received no message within --patience");
        if (length < 0)
            system_failed("send to the other rank");
        done += (size_t)length;
    }
}

// Waits until `bytes` bytes have arrived. The thread is woken once, not for each packet.
static void wait_for_bytes(const struct ranks *ranks, int fd, size_t bytes)
{
    int wanted = bytes < INT_MAX ? (int)bytes : INT_MAX;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) != 0)
        system_failed("set the options of a connection");
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    int there;
    do
        there = poll(&waiting, 1, (int)(ranks->patience_ns / NS_PER_MS));
    while (there < 0 && errno == EINTR);
    if (there < 0)
        system_failed("wait for the other rank");
    if (there == 0)
        check_failed("no message from the other rank within --patience");
}

static void receive_all(const struct ranks *ranks, int fd, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        // Wait for the whole rest first: a blocking recv could take a part, and then wait for as many bytes again.
        wait_for_bytes(ranks, fd, bytes - done);
        // This must not block: poll may return before all bytes have arrived.
        ssize_t length = recv(fd, (char *)data + done, bytes - done, MSG_DONTWAIT);
        if (length < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (length < 0)
            system_failed("receive from the other rank");
        if (length == 0)
            check_failed("the other rank has ended");
        done += (size_t)length;
    }
}

static void accept_all(struct ranks *ranks, const char *peer, uint64_t problem)
{
    struct addrinfo *address = address_of(peer, true);
    int listener = new_socket(), yes = 1;
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(listener, address->ai_addr, address->ai_addrlen) != 0 ||
        listen(listener, SOMAXCONN) != 0)
        system_failed("listen on '%s'", peer);
    freeaddrinfo(address);
    for (size_t come = 0; come < ranks->channels; come++) {
        struct pollfd waiting = {.fd = listener, .events = POLLIN};
        if (poll(&waiting, 1, (int)(ranks->patience_ns / NS_PER_MS)) == 0)
            check_failed("rank 1 did not connect to '%s' within --patience", peer);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            system_failed("accept rank 1");
        prepare(fd, ranks->patience_ns);
        struct hello hello;
        receive_all(ranks, fd, &hello, sizeof hello);
        if (hello.magic != magic || hello.problem != problem ||
            hello.channel >= ranks->channels || ranks->connections[hello.channel] >= 0)
            check_failed("the process that connected to '%s' is not rank 1 of the same problem", peer);
        ranks->connections[hello.channel] = fd;
    }
    close(listener);
}

static int connect_to(const struct addrinfo *address, const char *peer, uint64_t patience_ns)
{
    uint64_t deadline_ns = monotonic_ns() + patience_ns;
    for (;;) {
        int fd = new_socket();
        if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
            return fd;
        // Rank 0 may not listen yet.
        if (errno != ECONNREFUSED || monotonic_ns() > deadline_ns)
            system_failed("connect to '%s'", peer);
        close(fd);
        sleep_for_ns(20 * NS_PER_MS);
    }
}

static void connect_all(struct ranks *ranks, const char *peer, uint64_t problem)
{
    struct addrinfo *address = address_of(peer, false);
    for (size_t channel = 0; channel < ranks->channels; channel++) {
        int fd = connect_to(address, peer, ranks->patience_ns);
        prepare(fd, ranks->patience_ns);
        struct hello hello = {magic, problem, channel};
        send_all(fd, &hello, sizeof hello);
        ranks->connections[channel] = fd;
    }
    freeaddrinfo(address);
}

const char *ranks_join(uint64_t *count, uint64_t *rank)
{
    (void)count;
    (void)rank;
    return NULL;
}

void ranks_connect(struct ranks *ranks, const char *peer, uint64_t patience_ns, size_t channels,
                   uint64_t problem)
{
    ranks->channels = channels;
    ranks->patience_ns = patience_ns;
    ranks->connections = zeroed_array(CACHE_LINE, channels, sizeof *ranks->connections);
    ranks->marks = zeroed_array(CACHE_LINE, 1 + 2 * channels, sizeof *ranks->marks);
    for (size_t channel = 0; channel < channels; channel++)
        ranks->connections[channel] = -1;
    if (ranks->rank == 0)
        accept_all(ranks, peer, problem);
    else
        connect_all(ranks, peer, problem);
    // Both ranks are connected before either starts.
    if (ranks_sum(ranks, 1) != 2)
        check_failed("the other rank has sent another number of messages");
}

void ranks_destroy(struct ranks *ranks)
{
    for (size_t channel = 0; channel < ranks->channels; channel++)
        close(ranks->connections[channel]);
    free(ranks->connections);
    free(ranks->marks);
}

void ranks_send(struct ranks *ranks, size_t channel, const double *values, size_t count)
{
    send_all(ranks->connections[channel], values, count * sizeof *values);
    atomic_fetch_add_explicit(&ranks->messages, 1, memory_order_relaxed);
}

void ranks_receive(struct ranks *ranks, size_t channel, double *values, size_t count)
{
    receive_all(ranks, ranks->connections[channel], values, count * sizeof *values);
    atomic_fetch_add_explicit(&ranks->messages, 1, memory_order_relaxed);
}

uint64_t ranks_sum(struct ranks *ranks, uint64_t own)
{
    if (ranks->count == 1)
        return own;
    uint64_t other;
    send_all(ranks->connections[0], &own, sizeof own);
    receive_all(ranks, ranks->connections[0], &other, sizeof other);
    return own + other;
}
