//! Where restartable sequences, rseq(2), differ by processor.

use std::arch::asm;

/// The word before the code that the kernel jumps to (`RSEQ_SIG`): the C library has registered it for each thread.
pub const SIGNATURE: u32 = 0x5305_3053;

/// Returns the address from which glibc counts `__rseq_offset` (`__builtin_thread_pointer`).
#[inline]
#[must_use]
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the first word of a thread's control block is its own address (ELF Handling For Thread-Local Storage, section 3.4.6).
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, pure, readonly)) };
    pointer
}
