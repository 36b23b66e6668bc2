//! arm64: all code compiles, but cox does not run. Each program first calls [`supported`], and exits.

#[macro_use]
mod begin;
pub mod calls;
#[macro_use]
pub mod contexts;
#[macro_use]
mod entries;
pub mod frame;
pub mod measuring;
#[macro_use]
pub mod redirections;
pub mod restartable;

#[cfg(feature = "machine-code")]
use crate::wait_loop::{CallTarget, Callee, WaitLoops};

/// The dynamic loader of the C library.
pub const LOADER: &str = "ld-linux-aarch64.so.1";
/// The value of `e_machine` in ELF files for this processor (EM_AARCH64).
pub const ELF_MACHINE: u16 = 183;

/// Size and alignment of a stub, in bytes (ELF for the Arm 64-bit Architecture).
#[cfg(feature = "machine-code")]
pub const PLT_ENTRY_BYTES: u64 = 16;
/// Length of every instruction, in bytes.
#[cfg(feature = "machine-code")]
pub const LONGEST_INSTRUCTION_BYTES: u64 = 4;

/// Returns `Ok` if cox can run on this processor.
///
/// # Errors
/// The reason why it cannot: always, on this processor.
pub fn supported() -> Result<(), &'static str> {
    Err("this processor is not supported: cox runs on x86-64, and this machine is aarch64")
}

/// Returns where in memory the target address of a stub is stored: always `None`, because cox does not read this
/// processor's code.
#[cfg(feature = "machine-code")]
pub fn import_slot(_code: &[u8], _start: u64) -> Option<u64> {
    None
}

#[cfg(feature = "machine-code")]
impl WaitLoops {
    /// Returns no loops, because cox does not read this processor's code.
    pub fn find(_bytes: &[u8], _start: u64, _callee: &dyn Fn(CallTarget) -> Callee) -> WaitLoops {
        WaitLoops::default()
    }
}
