// SPDX-License-Identifier: Apache-2.0 OR MIT
// Many short threads or processes, many sleepers, exec in a thread, a daemon. See --help.
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clocks.h"
#include "fail.h"
#include "options.h"
#include "task.h"
#include "truth.h"
#include "work.h"

// SHORT_ITERATIONS take a few microseconds.
enum { SHORT_ITERATIONS = 3000, SMALL_STACK_BYTES = 65536, EXIT_AFTER_EXEC = 7 };

// Prints a line and flushes it: a line that is still buffered at a fork could be written twice.
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vprintf(format, arguments);
    va_end(arguments);
    if (length < 0 || fflush(stdout) != 0)
        system_failed("write to standard output");
}

struct short_thread {
    pthread_t handle;
    uint64_t number;
    uint64_t value;
};

static uint64_t short_work(uint64_t number)
{
    struct working_set none = {0};
    return calibrated_work(work_seed(number, 0), SHORT_ITERATIONS, &none);
}

static uint64_t short_answer(uint64_t number)
{
    return work_answer(work_answer_for(SHORT_ITERATIONS), work_seed(number, 0));
}

static void *short_thread_main(void *argument)
{
    struct short_thread *me = argument;
    me->value = short_work(me->number);
    return NULL;
}

// Returns the sum of all results.
static uint64_t thread_storm(uint64_t count, uint64_t at_once)
{
    struct short_thread *batch = calloc(at_once, sizeof *batch);
    if (batch == NULL)
        system_failed("allocate %" PRIu64 " threads", at_once);
    uint64_t checksum = 0;
    for (uint64_t first = 0; first < count; first += at_once) {
        uint64_t size = count - first < at_once ? count - first : at_once;
        for (uint64_t i = 0; i < size; i++) {
            batch[i].number = first + i;
            batch[i].handle = start_thread(short_thread_main, &batch[i], SMALL_STACK_BYTES);
        }
        for (uint64_t i = 0; i < size; i++) {
            join_thread(batch[i].handle);
            if (batch[i].value != short_answer(batch[i].number))
                check_failed("thread %" PRIu64 " computed a wrong result", batch[i].number);
            checksum += batch[i].value;
        }
    }
    free(batch);
    return checksum;
}

// Returns an exit code that the parent can predict.
static int short_exit_code(uint64_t number)
{
    return (int)(short_answer(number) % 251);
}

static uint64_t process_storm(uint64_t count, uint64_t at_once)
{
    pid_t *batch = calloc(at_once, sizeof *batch);
    if (batch == NULL)
        system_failed("allocate %" PRIu64 " processes", at_once);
    uint64_t checksum = 0;
    for (uint64_t first = 0; first < count; first += at_once) {
        uint64_t size = count - first < at_once ? count - first : at_once;
        for (uint64_t i = 0; i < size; i++) {
            batch[i] = start_process();
            if (batch[i] == 0)
                _exit((int)(short_work(first + i) % 251));
        }
        for (uint64_t i = 0; i < size; i++) {
            reap_process(batch[i], short_exit_code(first + i));
            checksum = checksum * 31 + (uint64_t)short_exit_code(first + i);
        }
    }
    free(batch);
    return checksum;
}

struct sleeper {
    pthread_t handle;
    uint64_t duration_ns;
    uint64_t slept_ns;
};

static void *sleeper_main(void *argument)
{
    struct sleeper *me = argument;
    uint64_t begin_ns = monotonic_ns();
    sleep_for_ns(me->duration_ns);
    me->slept_ns = monotonic_ns() - begin_ns;
    return NULL;
}

static void sleep_together(uint64_t count, uint64_t duration_ns)
{
    struct sleeper *sleepers = calloc(count, sizeof *sleepers);
    if (sleepers == NULL)
        system_failed("allocate %" PRIu64 " sleepers", count);
    for (uint64_t i = 0; i < count; i++) {
        sleepers[i].duration_ns = duration_ns;
        sleepers[i].handle = start_thread(sleeper_main, &sleepers[i], SMALL_STACK_BYTES);
    }
    for (uint64_t i = 0; i < count; i++) {
        join_thread(sleepers[i].handle);
        if (sleepers[i].slept_ns < duration_ns)
            check_failed("sleeper %" PRIu64 " woke too early", i);
    }
    free(sleepers);
}

// Leaves a process behind that is not a child of this one and has its own session, as daemons do. Its
// standard streams are /dev/null, so that a reader of our output need not wait for it.
static pid_t leave_daemon(uint64_t duration_ns)
{
    pid_t *daemon_pid = shared_memory(sizeof *daemon_pid);
    // Plain forks: with start_process the daemon would die with its parent.
    pid_t middle = fork();
    if (middle < 0)
        system_failed("fork");
    if (middle == 0) {
        if (setsid() < 0)
            system_failed("start a session");
        pid_t daemon = fork();
        if (daemon < 0)
            system_failed("fork");
        if (daemon > 0) {
            *daemon_pid = daemon;
            _exit(0);
        }
        name_thread("storm-daemon");
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null_fd < 0)
            system_failed("open /dev/null");
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            dup2(null_fd, fd);
        sleep_for_ns(duration_ns);
        _exit(0);
    }
    reap_process(middle, 0);
    return *daemon_pid;
}

static void *exec_thread_main(void *argument)
{
    (void)argument;
    if (gettid() == getpid())
        check_failed("the thread that calls exec is the leader");
    name_thread("before-exec");
    execl("/proc/self/exe", "storm", "--after-exec", (char *)NULL);
    system_failed("exec");
}

// The kernel ends all other threads, and the caller gets the leader's thread ID.
static _Noreturn void exec_in_thread(void)
{
    join_thread(start_thread(exec_thread_main, NULL, 0));
    check_failed("exec returned");
}

static int after_exec(void)
{
    if (gettid() != getpid())
        check_failed("after exec the thread is not the leader");
    say("storm: exec in a thread done\n");
    return EXIT_AFTER_EXEC;
}

int main(int argc, char **argv)
{
    uint64_t threads = 0, processes = 0, sleepers = 0, at_once = 8;
    uint64_t duration_ns = NS_PER_SECOND;
    bool exec_thread = false, daemonise = false, is_after_exec = false;
    const struct option_spec options[] = {
        {"threads", OPTION_COUNT, &threads, 1, 1e9, NULL, "N",
         "create and join N threads of a few us each", NULL},
        {"processes", OPTION_COUNT, &processes, 1, 1e9, NULL, "N",
         "fork and reap N processes of a few us each", NULL},
        {"at-once", OPTION_COUNT, &at_once, 1, 4096, NULL, "N",
         "how many of these exist at the same time (8)", NULL},
        {"sleepers", OPTION_COUNT, &sleepers, 1, 100000, NULL, "N",
         "start N threads that sleep for --seconds", NULL},
        {"daemonise", OPTION_FLAG, &daemonise, 0, 0, NULL, NULL,
         "leave a daemon behind that sleeps for --seconds", NULL},
        {"exec-thread", OPTION_FLAG, &exec_thread, 0, 0, NULL, NULL,
         "finally, exec in a thread that is not the leader; exit code 7", NULL},
        {"seconds", OPTION_SECONDS, &duration_ns, 0.001, 86400, NULL, "S",
         "duration of the sleepers and the daemon (1)", NULL},
        {"after-exec", OPTION_FLAG, &is_after_exec, 0, 0, NULL, NULL,
         "internal, executed by --exec-thread: print a line, exit with 7", NULL},
    };
    const struct program program = {
        .name = "storm",
        .summary = "Does what is difficult for tools that follow threads and processes, in the order of the\n"
                   "options below. Its output contains no times and no IDs: it is the same, byte for\n"
                   "byte, in every run with the same options.",
        .example = "storm --threads 50000 --processes 20000 --truth storm.json\n"
                   "storm --sleepers 2000 --seconds 0.5 --exec-thread",
        .checked = "Each thread's result and each process's exit code; no sleeper woke early; after\n"
                   "exec the thread is the leader.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    struct truth truth;
    program_start(&program, argc, argv, &truth);
    if (is_after_exec)
        return after_exec();
    if (threads == 0 && processes == 0 && sleepers == 0 && !daemonise && !exec_thread)
        bad_input("nothing to do: give at least one of --threads, --processes, --sleepers, "
                  "--daemonise, --exec-thread");

    uint64_t begin_ns = monotonic_ns(), thread_sum = 0, process_sum = 0;
    pid_t daemon_pid = 0;
    if (threads != 0) {
        thread_sum = thread_storm(threads, at_once);
        say("storm: %" PRIu64 " threads, checksum 0x%016" PRIx64 "\n", threads, thread_sum);
    }
    if (processes != 0) {
        process_sum = process_storm(processes, at_once);
        say("storm: %" PRIu64 " processes, checksum 0x%016" PRIx64 "\n", processes, process_sum);
    }
    if (sleepers != 0) {
        sleep_together(sleepers, duration_ns);
        say("storm: %" PRIu64 " sleepers woke\n", sleepers);
    }
    if (daemonise) {
        daemon_pid = leave_daemon(duration_ns);
        say("storm: daemon left behind\n");
    }
    uint64_t elapsed_ns = monotonic_ns() - begin_ns;

    truth_begin(&truth, "storm");
    truth_u64(&truth, "threads_created", threads);
    truth_hex(&truth, "thread_checksum", thread_sum);
    truth_u64(&truth, "processes_created", processes);
    truth_hex(&truth, "process_checksum", process_sum);
    truth_u64(&truth, "sleepers", sleepers);
    if (daemonise)
        truth_u64(&truth, "daemon_pid", (uint64_t)daemon_pid);
    else
        truth_null(&truth, "daemon_pid");
    truth_bool(&truth, "exec_thread", exec_thread);
    truth_u64(&truth, "elapsed_ns", elapsed_ns);
    truth_end(&truth);
    if (exec_thread)
        exec_in_thread();
    return program_end();
}
