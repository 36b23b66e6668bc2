//! arm64: all is compiled and nothing is claimed. Each program asks [`supported`] first, and ends.

pub mod calls;
#[macro_use]
mod doors;

#[cfg(feature = "machine-code")]
use crate::wait_loop::{CallTarget, Callee, WaitLoops};

/// The dynamic loader of the C library.
pub const LOADER: &str = "ld-linux-aarch64.so.1";
/// What ELF files for this processor have in `e_machine` (EM_AARCH64).
pub const ELF_MACHINE: u16 = 183;

/// Stubs are aligned and spaced by this (ELF for the Arm 64-bit Architecture).
#[cfg(feature = "machine-code")]
pub const PLT_ENTRY_BYTES: u64 = 16;
/// All instructions have this length.
#[cfg(feature = "machine-code")]
pub const LONGEST_INSTRUCTION_BYTES: u64 = 4;

/// Says whether cox can run on this processor.
///
/// # Errors
/// Why not.
pub fn supported() -> Result<(), &'static str> {
    Err("this processor is not supported: cox runs on x86-64, and this machine is aarch64")
}

/// Where the address is that a stub jumps to: its code is not read.
#[cfg(feature = "machine-code")]
pub fn import_slot(_code: &[u8], _start: u64) -> Option<u64> {
    None
}

#[cfg(feature = "machine-code")]
impl WaitLoops {
    /// No loop is judged.
    pub fn find(_bytes: &[u8], _start: u64, _callee: &dyn Fn(CallTarget) -> Callee) -> WaitLoops {
        WaitLoops::default()
    }
}
