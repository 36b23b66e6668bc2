/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the promises of cox ulp have in common. Each promise is a function, which returns if the promise is kept. */
#ifndef PROMISES_H
#define PROMISES_H

#include <stdio.h>
#include <unistd.h>

/* This ULP, and how many there are. */
extern int me, count;
/* The words of the command line: program, mode, promise. */
extern char **words;

/* Ends the program with a message if something is not so. */
#define CHECK(what) ((what) ? (void)0 : fail(__FILE__, __LINE__, #what))

/* Ends all ULPs: the others may wait for this one. */
_Noreturn void fail(const char *file, int line, const char *what);
/* Lets others run: on a carrier, at home, or as cox decides. */
void step(void);
/* Waits until all ULPs are here. */
void meet(void);
/* Gives others the address of something. */
void give(const char *name, void *address);
/* Returns what another ULP has given by that name. */
void *of(int other, const char *name);
/* Calls `leaf` from nested calls, in each of which others run. */
void below(int depth, void (*leaf)(int), int value);
/* Prints the line of a ULP that has kept its promises. It is printed after the promise, unless that ends the program. */
void say_ok(void);
/* Seconds since some time. */
double seconds(void);

/* own.c */
void own_variables(void);
void own_stdio(void);
void own_words(void);
void own_program(void);
void own_library(void);
/* process.c */
void own_identity(void);
void own_descriptors(void);
void own_folder(void);
/* signals.c */
void own_handlers(void);
void own_masks(void);
void own_timers(void);
void signals_reach_one(void);
void signals_while_computing(void);
/* children.c */
void fork_and_wait(void);
void commands(void);
void spawn_and_vfork(void);
/* ends.c */
void exit_from_below(void);
void exit_at_once(void);
void exit_in_thread(void);
void main_thread_first(void);
void execute(void);
void abort_alone(void);
void fault_alone(void);
void killed_alone(void);
/* threads.c */
void threads_beside(void);
void threads_are_cancelled(void);
void threads_are_signalled(void);
/* registers.c */
void rounding(void);
void long_computation(void);
void jumps(void);
void jumps_from_handlers(void);
void stacks(void);
/* memory.c */
void own_mappings(void);
void own_heap(void);
void own_faults(void);

#endif
