// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "task.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"

void name_thread(const char *name)
{
    errno = pthread_setname_np(pthread_self(), name);
    if (errno != 0)
        system_failed("name a thread '%s'", name);
}

pthread_t start_thread(void *(*body)(void *), void *argument, size_t stack_bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    errno = pthread_attr_init(&attributes);
    if (errno == 0 && stack_bytes != 0)
        errno = pthread_attr_setstacksize(&attributes, stack_bytes);
    if (errno == 0)
        errno = pthread_create(&thread, &attributes, body, argument);
    if (errno != 0)
        system_failed("start a thread");
    pthread_attr_destroy(&attributes);
    return thread;
}

void join_thread(pthread_t thread)
{
    errno = pthread_join(thread, NULL);
    if (errno != 0)
        system_failed("join a thread");
}

pid_t start_process(void)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0)
        system_failed("fork");
    if (child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            system_failed("ask to end with the parent");
        if (getppid() != parent)
            _exit(EXIT_CHECK_FAILED);    // the parent died before prctl took effect
    }
    return child;
}

void reap_process(pid_t child, int exit_code)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            system_failed("wait for child %d", (int)child);
    if (WIFSIGNALED(status))
        check_failed("child %d was ended by signal %d", (int)child, WTERMSIG(status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != exit_code)
        check_failed("child %d exited with %d instead of %d", (int)child, WEXITSTATUS(status),
                     exit_code);
}

void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        system_failed("map %zu shared bytes", bytes);
    return memory;
}
