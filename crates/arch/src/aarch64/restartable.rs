//! Where restartable sequences, rseq(2), differ by processor.

use std::arch::asm;

/// The word before the code that the kernel jumps to (`RSEQ_SIG`): the C library has registered it for each thread.
pub const SIGNATURE: u32 = 0xd428_bc00;

/// Returns the address from which glibc counts `__rseq_offset` (`__builtin_thread_pointer`).
#[inline]
#[must_use]
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the instruction reads a register and writes the named one.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}
