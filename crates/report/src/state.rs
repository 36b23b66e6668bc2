//! What a thread was doing, as reports divide its time.

use wire::Cause;

/// A state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Had a CPU and did not wait in a loop.
    Work,
    /// Had a CPU; whether it waited in a loop was not seen.
    Run,
    /// Had a CPU and waited in a loop.
    Spin,
    /// Waited for a CPU after sched_yield.
    Yield,
    /// Waited for a CPU after it lost one.
    Preempted,
    /// Waited for a CPU after a wake-up.
    Wake,
    /// Was blocked.
    Blocked(Cause),
    /// Not known.
    Unknown,
}
