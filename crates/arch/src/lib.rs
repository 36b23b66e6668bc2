//! All that differs by processor, in one folder for each: `x86_64` works, `aarch64` is compiled and [refuses](supported) at run time.
//!
//! | part | what it is for |
//! |---|---|
//! | [`blocked_in`], `SYS_*` | what blocking in a system call means, by its number |
//! | [`wait_loop`], [`import_slot`] | what machine code does: loops that only wait, stubs of the procedure linkage table |
//! | `doors` (macros) | functions of the preload library in assembly, and its word in each thread |
//! | `include/cox/processor.h` | registers, stack and thread flags for the BPF programs |
//! | [`LOADER`], [`ELF_MACHINE`] | names and numbers |
//!
//! The clock and a stopwatch are here too; they are the same on all processors. No unsafe code is in this crate, but what `doors` makes is.

pub mod clock;
pub mod laps;
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
pub use processor::calls::{SYS_IO_URING_ENTER, SYS_SCHED_YIELD, blocked_in};
pub use processor::{ELF_MACHINE, LOADER, supported};
#[cfg(feature = "machine-code")]
pub use processor::{LONGEST_INSTRUCTION_BYTES, PLT_ENTRY_BYTES, import_slot};
use wire::Cause;

/// Entries of the table of system calls that BPF gets; higher numbers (x32) count as `other`.
pub const SYSCALL_TABLE_LEN: usize = 512;

/// What blocking in a system call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedIn {
    /// Always this cause.
    Cause(Cause),
    /// The cause hangs on what the descriptor in the first argument is.
    Descriptor,
}

/// Ends the process with the reason, for functions that no processor but x86-64 has.
#[cfg(not(target_arch = "x86_64"))]
pub fn refuse() -> ! {
    if let Err(why) = supported() {
        eprintln!("cox: {why}");
    }
    std::process::abort()
}
