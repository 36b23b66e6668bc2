//! Turns sampled user instruction pointers into places: module, function, and *does this code wait for other threads?*
//!
//! 1. While the processes live, [`Symboliser::observe`] counts samples by address. It also keeps what is needed to interpret them later:
//!    which file was mapped where, and the open files.
//! 2. At the end, [`Symboliser::sample_sites`] reads the files: [`elf`] finds the function of each address. The first of these rules that applies
//!    decides whether the code there waits:
//!    - in the kernel: sched_yield counts as waiting, every other system call as work, because sleeping threads are not sampled;
//!    - a function whose name is known to wait (OpenMP runtimes, MPI progress, pthread spin locks, …);
//!    - the machine code of a known library, for libraries without symbol names;
//!    - a loop that by its machine code can only wait, in any module: [`arch::wait_loop`].
//!
//! Samples that all CPUs took at the same time (`rounds`) also show which functions run in one thread alone (`serial`).
//!
//! Besides, [`elf`] finds the callers of a function by its file's unwinding table.
//!
//! Code without a file (just-in-time compiled, `[vdso]`) gets the name of its mapping and counts as work.

#![forbid(unsafe_code)]

pub mod elf;
mod judge;
mod known;
mod modules;
mod processes;
mod reader;
mod rounds;
mod serial;
mod symboliser;

pub use judge::Judge;
pub use modules::{ModuleId, Modules};
pub use symboliser::Symboliser;
