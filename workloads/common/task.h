// SPDX-License-Identifier: Apache-2.0 OR MIT
// Threads and child processes: start, name, join, reap. Every failure ends the program.
#ifndef COX_WORKLOADS_TASK_H
#define COX_WORKLOADS_TASK_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

// Names the calling thread (at most 15 characters).
void name_thread(const char *name);

// `stack_bytes` 0 means the default size.
pthread_t start_thread(void *(*body)(void *), void *argument, size_t stack_bytes);
void join_thread(pthread_t thread);

// Forks; the kernel kills the child when the parent dies.
pid_t start_process(void);

// Waits for a child, and ends the program unless the child exits with `exit_code`.
void reap_process(pid_t child, int exit_code);

// Zeroed memory that forked children share with their parent.
void *shared_memory(size_t bytes);

#endif
