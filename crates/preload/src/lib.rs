//! `libcox_preload.so`: a guest inside a program, brought there by LD_PRELOAD.
//!
//! It says which threads wait at barriers, and how many barriers each has passed, in memory that cox reads
//! without a system call ([`wire::guest`]). And when cox packs the program onto fewer CPUs than its libgomp
//! has counted at its start, it makes libgomp's threads sleep at barriers instead of spinning for
//! milliseconds.
//!
//! - `memory`: the shared memory, and each thread's slot in it.
//! - `real`: the functions of the program's own libraries behind those that are interposed here; `calls`: which; `object`: where they lie.
//! - `caller`: doors that need assembly.
//! - `gomp`, `pthread`, `ompt`: barriers of libgomp, of POSIX threads, of libomp; `ways`: what else libgomp is called for.
//! - `throttle`, `cure`: what is done about libgomp's spinning.
//! - `overlap`: tasks in the place of libgomp's, where cox asks for that.
//! - `load`, `start`: what has to be done and read before the program runs; `thread`: threads of our own.
//!
//! House rules of a guest:
//!
//! 1. **Silent.** Nothing is printed, no descriptor stays open, nothing at all is made in a program that
//!    never comes to a barrier.
//! 2. **Dispensable.** Whatever fails, the program runs as it would without us.
//! 3. **Thin.** No allocation, lock or system call at a barrier, apart from each thread's first. Overlap is no guest's
//!    work any more: it takes a part of the runtime over.
//! 4. **C only at the doors.** Only the interposed functions are visible; nothing unwinds out of our own
//!    code, and what unwinds through it (pthread_exit in a region) is let through.
//!
//! It needs the glibc that it was built with, or a later one; built on Debian 12 or anything newer, glibc
//! 2.34. A test holds that.

mod calls;
mod cure;
mod gomp;
mod load;
mod memory;
mod object;
mod ompt;
mod overlap;
mod pthread;
mod real;
mod start;
mod thread;
mod throttle;
mod ways;
