// SPDX-License-Identifier: Apache-2.0 OR MIT
// Early ends of workloads: one line on stderr and a fixed exit code.
// All of these functions use _exit, so they are safe in threads and in forked children.
#ifndef COX_WORKLOADS_FAIL_H
#define COX_WORKLOADS_FAIL_H

enum {
    EXIT_CHECK_FAILED = 1,     // a self-check failed, or a system call that must work failed
    EXIT_BAD_INPUT = 2,        // an option or its value was rejected; nothing was started
    EXIT_NOT_POSSIBLE = 77,    // this machine cannot do it (automake's code for "skipped")
};

// The caller gave a bad option or value.
_Noreturn void bad_input(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The program found an error in its own result.
_Noreturn void check_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A system call failed; the text of errno is appended.
_Noreturn void system_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The machine lacks what the program needs.
_Noreturn void not_possible_here(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
