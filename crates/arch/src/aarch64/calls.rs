//! arm64: numbers of system calls (include/uapi/asm-generic/unistd.h).

use wire::Cause;

use crate::BlockedIn;

/// sched_yield(2).
pub const SYS_SCHED_YIELD: u32 = 124;
/// System call and operation that write the features of the calling thread's shadow stack into a word; bit 0: it has one (prctl(2) with
/// PR_GET_SHADOW_STACK_STATUS, Linux 6.13).
pub const SHADOW_STACK_STATUS: (i64, u64) = (167, 74);
/// io_uring_enter(2).
pub const SYS_IO_URING_ENTER: u32 = 426;

/// Returns the most arguments of a system call.
#[must_use]
pub fn argument_count(_nr: usize) -> usize {
    6
}

/// Returns the cause of a block in a system call: on this processor always [`Cause::Other`].
pub fn blocked_in(_nr: u32) -> BlockedIn {
    BlockedIn::Cause(Cause::Other)
}
