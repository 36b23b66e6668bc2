//! Sampled user instruction pointers become places: module, function, and *is this code waiting for other
//! threads?*
//!
//! 1. While the processes live, [`Symboliser::observe`] counts samples by address, and keeps what is needed
//!    to understand them later: which file was mapped where, and the files themselves, open.
//! 2. At the end, [`Symboliser::spots`] reads the files: [`elf`] finds the function of each address, and the
//!    first of these rules that applies says whether it waits:
//!    - in the kernel: waiting inside sched_yield, work in every other system call (what sleeps is not
//!      sampled);
//!    - a function whose name is known to wait (OpenMP runtimes, MPI progress, pthread spin locks, …);
//!    - the machine code of a library that is known, for libraries without names;
//!    - a loop that by its machine code can only wait, in any module: [`arch::wait_loop`].
//!
//! Code without a file (just-in-time compiled, `[vdso]`) is named after its mapping and counts as work.

#![forbid(unsafe_code)]

pub mod elf;
mod judge;
mod known;
mod modules;
mod processes;
mod reader;
mod symboliser;

pub use judge::Judge;
pub use symboliser::Symboliser;
