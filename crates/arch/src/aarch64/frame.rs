//! Signal frames are not read on this processor.

pub use crate::alternate::Alternate;

/// A signal frame.
#[derive(Debug)]
pub struct Frame {
    /// Address of the floating-point state.
    pub floating_point: u64,
}

/// Architecture of a system call with the numbers of this processor (AUDIT_ARCH_AARCH64).
pub const CALL_ARCHITECTURE: u32 = 0xc000_00b7;
/// Where the length of the floating-point state is told, bytes.
pub const STATE_TOLD_AT: usize = 0;
/// Alignment of the floating-point state, bytes.
pub const STATE_ALIGN: usize = 16;

/// Number of registers that unwinding tables know by number: x0 to x30, the stack pointer, and the address of the instruction.
pub const UNWOUND: usize = 33;
/// Numbers of the stack pointer and of the address of the instruction among them.
pub const UNWOUND_STACK_POINTER: usize = 31;
/// See [`UNWOUND_STACK_POINTER`].
pub const UNWOUND_INSTRUCTION: usize = 32;

/// Ends the process: cox does not run here.
pub fn before_call(_registers: &[u64; UNWOUND], _read: impl FnOnce(u64) -> Option<u64>) -> Option<[u64; UNWOUND]> {
    crate::refuse()
}

/// Ends the process: cox does not run here.
#[must_use]
pub fn state_bytes(_told: [u32; 2]) -> usize {
    crate::refuse()
}

impl Frame {
    /// Ends the process.
    #[must_use]
    pub fn call(&self) -> i64 {
        crate::refuse()
    }

    /// Ends the process.
    #[must_use]
    pub fn arguments(&self) -> [u64; 6] {
        crate::refuse()
    }

    /// Ends the process.
    #[must_use]
    pub fn instruction(&self) -> u64 {
        crate::refuse()
    }

    /// Ends the process.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        crate::refuse()
    }

    /// Ends the process.
    pub fn set_result(&mut self, _result: i64) {
        crate::refuse()
    }

    /// Ends the process.
    pub fn repeat_call(&mut self) {
        crate::refuse()
    }

    /// Ends the process.
    pub fn repeat_fault(&mut self, _byte_at: impl FnOnce(u64) -> u8) {
        crate::refuse()
    }

    /// Ends the process.
    #[must_use]
    pub fn unwound(&self) -> [u64; UNWOUND] {
        crate::refuse()
    }

    /// Ends the process.
    pub fn unblock(&mut self, _signal: i32) {
        crate::refuse()
    }

    /// Ends the process.
    pub fn give(&mut self, _mask: u64, _alternate: Alternate) {
        crate::refuse()
    }
}
