//! What differs by processor: system-call numbers and the clock, with a stopwatch by it. x86-64 now; another architecture
//! adds a sibling of [`x86_64`] and nothing else changes.

pub mod clock;
pub mod laps;
pub mod x86_64;

pub use clock::monotonic_ns;
pub use x86_64::{BlockedIn, SYS_IO_URING_ENTER, SYS_SCHED_YIELD, SYSCALL_TABLE_LEN, blocked_in};
