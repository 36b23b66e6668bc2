//! The thread states into which reports divide a thread's time.

use wire::Cause;

/// A state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The thread had a CPU and did not wait in a loop.
    Work,
    /// The thread had a CPU; cox did not see whether it waited in a loop.
    Run,
    /// The thread had a CPU and waited in a loop.
    Spin,
    /// The thread had a CPU and synchronised with other threads in the kernel: in a futex system call.
    KernelSync,
    /// The thread waited for a CPU after sched_yield.
    Yield,
    /// The thread waited for a CPU after it was preempted.
    Preempted,
    /// The thread waited for a CPU after a wake-up.
    Wake,
    /// The thread was blocked.
    Blocked(Cause),
    /// The thread's state is unknown.
    Unknown,
}
