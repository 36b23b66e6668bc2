// SPDX-License-Identifier: Apache-2.0 OR MIT
// Threads and child processes: start, name, join, reap; every failure ends the program.
#ifndef COX_WORKLOADS_TASK_H
#define COX_WORKLOADS_TASK_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

// Names the calling thread (at most 15 characters).
void name_thread(const char *name);

// `stack_bytes` 0 takes the default size.
pthread_t start_thread(void *(*body)(void *), void *argument, size_t stack_bytes);
void join_thread(pthread_t thread);

// fork; the child dies with its parent.
pid_t start_process(void);

// Waits for a child and demands that it exits with `exit_code`.
void reap_process(pid_t child, int exit_code);

// Zeroed memory that forked children share with their parent.
void *shared_memory(size_t bytes);

#endif
