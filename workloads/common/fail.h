// SPDX-License-Identifier: Apache-2.0 OR MIT
// How every workload ends early: one line on stderr and a fixed exit code.
// All of them leave by _exit, so that they are safe in threads and in forked children.
#ifndef COX_WORKLOADS_FAIL_H
#define COX_WORKLOADS_FAIL_H

enum {
    EXIT_CHECK_FAILED = 1,     // a self-check failed, or a system call that must work did not
    EXIT_BAD_INPUT = 2,        // an option or its value was refused; nothing was started
    EXIT_NOT_POSSIBLE = 77,    // this machine cannot do it (automake's code for "skipped")
};

// The caller gave a bad option or value.
_Noreturn void bad_input(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The program found its own result wrong.
_Noreturn void check_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A system call failed; the text of errno is appended.
_Noreturn void system_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The machine lacks what the program needs.
_Noreturn void not_possible_here(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
