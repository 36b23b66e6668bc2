//! arm64: numbers of system calls (include/uapi/asm-generic/unistd.h).

use wire::Cause;

use crate::BlockedIn;

/// sched_yield(2).
pub const SYS_SCHED_YIELD: u32 = 124;
/// io_uring_enter(2).
pub const SYS_IO_URING_ENTER: u32 = 426;

/// Returns the cause of a block in a system call: on this processor always [`Cause::Other`].
pub fn blocked_in(_nr: u32) -> BlockedIn {
    BlockedIn::Cause(Cause::Other)
}
