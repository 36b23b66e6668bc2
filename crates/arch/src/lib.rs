//! All code that differs by processor, in one folder for each: `x86_64` works; `aarch64` compiles, but [refuses](supported) to run.
//!
//! | part | purpose |
//! |---|---|
//! | [`blocked_in`], [`argument_count`], `SYS_*` | system calls by their numbers: the cause of a block, the number of arguments |
//! | [`wait_loop`], [`import_slot`] | what machine code does: loops that only wait, stubs of the procedure linkage table |
//! | `entries` (macros) | entry points of the preload library in assembly, and the library's thread-local word |
//! | `include/cox/processor.h` | registers, stack and thread flags for the BPF programs |
//! | `begin` (macro) | the first instructions of a process that shares memory with its parent |
//! | [`Context`], `contexts` (macro) | switching between the contexts of programs in user space |
//! | [`redirections`](mod@redirections) | places that call mmap(2), and the code to which such calls are redirected |
//! | [`measuring`] | the counter of the clock, and loops that measure noise |
//! | [`frame`] | what the kernel saves of a program when a signal handler runs |
//! | [`LOADER`], [`ELF_MACHINE`] | names and numbers |
//!
//! The clock and a stopwatch are here too; they are the same on all processors. This crate contains hardly any unsafe code itself, but the code
//! that the macros in `entries`, `begin`, `contexts` and `redirections` generate is unsafe.

mod alternate;
pub mod clock;
pub mod laps;
pub mod measuring;
pub mod redirections;
#[cfg(feature = "machine-code")]
pub mod wait_loop;

#[cfg(target_arch = "aarch64")]
#[macro_use]
mod aarch64;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

pub use clock::monotonic_ns;
pub use processor::calls::{SHADOW_STACK_STATUS, SYS_IO_URING_ENTER, SYS_SCHED_YIELD, argument_count, blocked_in};
pub use processor::contexts::{
    CONTINUES_AT, Context, Exchange, WANTS_BELOW, has_fast_tls, prefetch, prefetch_for_writing,
};
pub use processor::frame;
pub use processor::{ELF_MACHINE, LOADER, supported};
#[cfg(feature = "machine-code")]
pub use processor::{LONGEST_INSTRUCTION_BYTES, PLT_ENTRY_BYTES, import_slot};
use wire::Cause;

/// The cause of a block in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedIn {
    /// The cause is always this one, whatever the arguments of the system call.
    Cause(Cause),
    /// The cause depends on the kind of descriptor in the first argument.
    Descriptor,
}

/// Prints that cox does not run on this processor, and ends the process. Called in place of functions that only x86-64 has.
#[cfg(not(target_arch = "x86_64"))]
pub fn refuse() -> ! {
    if let Err(why) = supported() {
        eprintln!("cox: {why}");
    }
    std::process::abort()
}
