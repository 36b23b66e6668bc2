//! x86-64.

pub mod calls;
#[macro_use]
mod doors;
#[cfg(feature = "machine-code")]
mod stub;
#[cfg(feature = "machine-code")]
mod wait_loop;

#[cfg(feature = "machine-code")]
pub use stub::{LONGEST_INSTRUCTION_BYTES, PLT_ENTRY_BYTES, import_slot};

/// The dynamic loader of the C library.
pub const LOADER: &str = "ld-linux-x86-64.so.2";
/// What ELF files for this processor have in `e_machine` (EM_X86_64).
pub const ELF_MACHINE: u16 = 62;

/// Says whether cox can run on this processor.
///
/// # Errors
/// It can.
pub fn supported() -> Result<(), &'static str> {
    Ok(())
}
