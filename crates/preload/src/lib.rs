//! `libcox_preload.so`: a library that LD_PRELOAD loads into a program.
//!
//! It publishes which threads wait at barriers, and how many barriers each thread has passed, in shared memory that cox reads without a system call
//! ([`wire::preload`]). If cox packs the program onto fewer CPUs than libgomp counted at its start, the library makes libgomp's threads sleep at
//! barriers instead of spinning for milliseconds.
//!
//! - `memory`: the shared memory, and each thread's slot in it.
//! - `real_symbols`: the functions of the program's own libraries that are interposed here; `calls`: their names; `object`: the address ranges of
//!   loaded objects.
//! - `arch` (a crate of its own): entry points that need assembly.
//! - `gomp`, `pthread`, `ompt`: barriers of libgomp, of POSIX threads, of libomp; `dispatch`: the other functions of libgomp.
//! - `phases`: how long the program computes between two barriers, or between two collective operations of MPI (`mpi`), if cox asks for it.
//! - `throttle`: the throttle of libgomp's spinning.
//! - `overlap`: runs tasks instead of libgomp, if cox asks for it.
//! - `load`, `start`: what the library does, and which values it reads, before the program runs; `thread`: threads of this library.
//!
//! Rules for code in this library:
//!
//! 1. **Silent.** It prints nothing and keeps no descriptor open. In a program that never comes to a barrier, it creates nothing at all.
//! 2. **Optional.** If anything fails, the program runs as it would without the library.
//! 3. **Thin.** No allocation, lock or system call at a barrier, except at each thread's first one. This rule does not apply to `overlap`, which
//!    replaces a part of the runtime.
//! 4. **C only at the entry points.** Only the interposed functions are visible. No panic leaves the library. Stack unwinding that the program causes
//!    (pthread_exit in a region) passes through it.
//!
//! It needs no library that a program in C would not load, except libgcc_s.so.1. An unwinder of its own would save the loading, but when
//! the program unwinds through frames of this library, they must ask the unwinder that is at work.
//!
//! The library needs at least the glibc version with which it was built. If it is built on Debian 12 or later, glibc 2.34 is enough. A test checks
//! this.

mod calls;
mod dispatch;
mod gomp;
mod load;
mod memory;
mod mpi;
mod object;
mod ompt;
mod overlap;
mod phases;
mod pthread;
mod real_symbols;
mod start;
mod thread;
mod throttle;
