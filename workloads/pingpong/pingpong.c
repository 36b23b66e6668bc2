// SPDX-License-Identifier: Apache-2.0 OR MIT
// One byte back and forth over two pipes between two processes or threads: two context switches per round
// trip and hardly anything else. See --help.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clocks.h"
#include "cpus.h"
#include "fail.h"
#include "options.h"
#include "task.h"
#include "truth.h"

struct side {
    pid_t tid;
    uint64_t round_trips;
    struct thread_span span;
};

struct game {
    int ping_pipe[2], pong_pipe[2];
    bool measure;
    uint64_t rounds;            // 0: run until `duration_ns` has passed
    uint64_t duration_ns;
    _Atomic uint64_t *live_counter;
    struct side *sides;         // [0] sends the ping, [1] the pong; shared between the processes
};

// Returns false at the end of the file.
static bool receive(int fd, unsigned char *byte)
{
    ssize_t length = read(fd, byte, 1);
    if (length < 0)
        system_failed("read from the pipe");
    return length == 1;
}

static void send_byte(int fd, unsigned char byte)
{
    if (write(fd, &byte, 1) != 1)
        system_failed("write to the pipe");
}

static void serve_all(const struct game *game, struct side *me)
{
    // Reading the clock in every round trip would take 1 % of its time.
    const uint64_t clock_every = 64;
    uint64_t deadline_ns = monotonic_ns() + game->duration_ns;
    uint64_t done = 0;
    while (game->rounds != 0 ? done < game->rounds
                             : done % clock_every != 0 || monotonic_ns() < deadline_ns) {
        unsigned char ping = (unsigned char)done, pong;
        send_byte(game->ping_pipe[1], ping);
        if (!receive(game->pong_pipe[0], &pong))
            check_failed("the other side ended in round trip %" PRIu64, done);
        if (pong != (unsigned char)~ping)
            check_failed("round trip %" PRIu64 " brought back byte %u instead of %u", done, pong,
                         (unsigned char)~ping);
        done++;
        // This thread is the only writer, so a plain store, a single instruction, is enough.
        atomic_store_explicit(game->live_counter, done, memory_order_relaxed);
    }
    me->round_trips = done;
}

static void return_all(const struct game *game, struct side *me)
{
    unsigned char byte;
    while (receive(game->ping_pipe[0], &byte)) {
        if (byte != (unsigned char)me->round_trips)
            check_failed("round trip %" PRIu64 " received byte %u", me->round_trips, byte);
        // Increment before the reply: the other side may read the counter as soon as it has the byte.
        me->round_trips++;
        send_byte(game->pong_pipe[1], (unsigned char)~byte);
    }
}

static void play(const struct game *game, struct side *me,
                 void (*body)(const struct game *, struct side *))
{
    me->tid = gettid();
    if (!game->measure) {
        body(game, me);
        return;
    }
    struct thread_meter meter;
    thread_meter_open(&meter);
    struct thread_instant begin = thread_meter_read(&meter);
    body(game, me);
    me->span = span_between(begin, thread_meter_read(&meter));
    thread_meter_close(&meter);
}

static void *return_thread(void *argument)
{
    const struct game *game = argument;
    name_thread("pong");
    play(game, &game->sides[1], return_all);
    return NULL;
}

static void return_process(const struct game *game)
{
    close(game->ping_pipe[1]);
    close(game->pong_pipe[0]);
    name_thread("pong");
    play(game, &game->sides[1], return_all);
    _exit(0);
}

static uint64_t play_as_threads(const struct game *game)
{
    pthread_t other = start_thread(return_thread, (void *)game, 0);
    uint64_t begin_ns = monotonic_ns();
    play(game, &game->sides[0], serve_all);
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    close(game->ping_pipe[1]);
    join_thread(other);
    return elapsed_ns;
}

static uint64_t play_as_processes(const struct game *game)
{
    pid_t other = start_process();
    if (other == 0)
        return_process(game);
    close(game->ping_pipe[0]);
    close(game->pong_pipe[1]);
    uint64_t begin_ns = monotonic_ns();
    play(game, &game->sides[0], serve_all);
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    close(game->ping_pipe[1]);
    reap_process(other, 0);
    return elapsed_ns;
}

// Maps a u64 at offset 0 of the file and sets it to 0; without a file, uses anonymous memory.
static _Atomic uint64_t *map_counter(const char *path)
{
    if (path == NULL)
        return shared_memory(sizeof(uint64_t));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        bad_input("--counter: cannot open '%s': %s", path, strerror(errno));
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        bad_input("--counter: '%s' is not a regular file", path);
    if (info.st_size < (off_t)sizeof(uint64_t) && ftruncate(fd, sizeof(uint64_t)) != 0)
        system_failed("make room in '%s'", path);
    _Atomic uint64_t *counter =
        mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counter == MAP_FAILED)
        system_failed("map '%s'", path);
    close(fd);
    atomic_store(counter, 0);
    return counter;
}

static void write_truth(struct truth *truth, const struct game *game, const char *as,
                        const unsigned *cpu, uint64_t elapsed_ns, double ns_per_round_trip)
{
    static const char *const names[] = {"ping", "pong"};
    truth_begin(truth, "pingpong");
    truth_string(truth, "between", as);
    if (cpu != NULL)
        truth_u64(truth, "cpu", *cpu);
    else
        truth_null(truth, "cpu");
    truth_u64(truth, "round_trips", game->sides[0].round_trips);
    truth_u64(truth, "elapsed_ns", elapsed_ns);
    truth_double(truth, "ns_per_round_trip", ns_per_round_trip);
    truth_array_begin(truth, "threads");
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        truth_object_begin(truth);
        truth_thread_span(truth, game->sides[i].tid, game->sides[i].span);
        truth_string(truth, "comm", names[i]);
        truth_object_end(truth);
    }
    truth_array_end(truth);
    truth_end(truth);
}

int main(int argc, char **argv)
{
    static struct cpu_list cpus;
    uint64_t rounds = 0, duration_ns = NS_PER_SECOND;
    const char *counter_path = NULL;
    bool threads = false, no_pin = false, rounds_given = false, seconds_given = false;
    bool cpu_given = false;
    const struct option_spec options[] = {
        {"rounds", OPTION_COUNT, &rounds, 1, 1e12, NULL, "R", "number of round trips",
         &rounds_given},
        {"seconds", OPTION_SECONDS, &duration_ns, 0.001, 86400, NULL, "S",
         "instead of --rounds: run for S seconds (1)", &seconds_given},
        {"threads", OPTION_FLAG, &threads, 0, 0, NULL, NULL,
         "between two threads instead of two processes", NULL},
        {"cpu", OPTION_CPUS, &cpus, 0, 0, NULL, "CPU",
         "pin both sides to this CPU (the first allowed one)", &cpu_given},
        {"no-pin", OPTION_FLAG, &no_pin, 0, 0, NULL, NULL, "pin neither side", NULL},
        {"counter", OPTION_TEXT, &counter_path, 0, 0, NULL, "FILE",
         "count round trips, as they happen, in a u64 at offset 0 of FILE", NULL},
    };
    const struct program program = {
        .name = "pingpong",
        .summary = "Sends one byte back and forth over two pipes, two context switches per round trip,\n"
                   "and prints ns per round trip. The sides are called ping and pong.",
        .example = "pingpong --rounds 200000 --cpu 1\n"
                   "pingpong --seconds 10 --counter /dev/shm/round-trips --truth -",
        .checked = "Each byte is the expected one, in both directions; both sides counted the same number\n"
                   "of round trips.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (rounds_given && seconds_given)
        bad_input("give --rounds or --seconds, not both");
    if (cpu_given && no_pin)
        bad_input("give --cpu or --no-pin, not both");
    if (cpu_given && cpus.count != 1)
        bad_input("--cpu takes one CPU");

    struct game game = {
        .measure = truth_wanted(&truth),
        .rounds = rounds,
        .duration_ns = duration_ns,
        .live_counter = map_counter(counter_path),
        .sides = shared_memory(2 * sizeof *game.sides),
    };
    if (pipe2(game.ping_pipe, O_CLOEXEC) != 0 || pipe2(game.pong_pipe, O_CLOEXEC) != 0)
        system_failed("make a pipe");
    // If one side has ended, the other's write fails with an error message instead of killing it silently.
    signal(SIGPIPE, SIG_IGN);
    if (!cpu_given)
        cpu_list_allowed(&cpus);
    if (!no_pin)
        pin_to_cpu(cpus.cpus[0]);
    name_thread("ping");

    uint64_t elapsed_ns = threads ? play_as_threads(&game) : play_as_processes(&game);
    uint64_t served = game.sides[0].round_trips, returned = game.sides[1].round_trips;
    if (served != returned)
        check_failed("one side counted %" PRIu64 " round trips, the other %" PRIu64, served,
                     returned);
    double ns_per_round_trip = (double)elapsed_ns / (double)served;
    const char *as = threads ? "threads" : "processes";
    printf("pingpong: %" PRIu64 " round trips between two %s in %.4f s: %.1f ns per round trip\n",
           served, as, (double)elapsed_ns / NS_PER_SECOND, ns_per_round_trip);
    write_truth(&truth, &game, as, no_pin ? NULL : &cpus.cpus[0], elapsed_ns, ns_per_round_trip);
    return program_end();
}
