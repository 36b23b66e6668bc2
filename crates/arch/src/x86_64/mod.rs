//! x86-64.

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
mod stub;
#[cfg(feature = "machine-code")]
mod wait_loop;

#[cfg(feature = "machine-code")]
pub use stub::{LONGEST_INSTRUCTION_BYTES, PLT_ENTRY_BYTES, import_slot};

/// The dynamic loader of the C library.
pub const LOADER: &str = "ld-linux-x86-64.so.2";
/// The value of `e_machine` in ELF files for this processor (EM_X86_64).
pub const ELF_MACHINE: u16 = 62;

/// Returns `Ok` if cox can run on this processor.
///
/// # Errors
/// None on this processor.
pub fn supported() -> Result<(), &'static str> {
    Ok(())
}
