//! Thread time spent waiting for other threads and for CPUs, divided by cause. `dividing` computes it.

use std::collections::BTreeMap;

/// A delay of one thread that can make other threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delay {
    /// Waiting for a CPU on which another tracked thread worked.
    Sibling,
    /// Waiting for a CPU that another tracked thread held, because other programs left the tracked threads too few CPUs.
    Squeezed,
    /// Waiting for a CPU that cox itself held. No rule advises on it: the report states cox's overhead.
    Cox,
    /// Waiting for a CPU that another program held.
    Other,
    /// Waiting for a CPU although it was idle: the CPU was still leaving its idle state, or the control group was throttled.
    Idle,
    /// Waiting for a CPU, if the backend does not see which thread held the CPU.
    Unseen,
    /// Hypervisor steal: the host ran another virtual machine.
    Steal,
    /// Waiting for storage.
    Disk,
    /// Waiting for a socket.
    Network,
    /// Waiting for a page fault.
    PageFault,
    /// Waiting for a file lock.
    FileLock,
}

/// Delays in which a thread queues for a CPU that another tracked thread holds. `Unseen` is included, because such a delay may be one of them.
pub(crate) const QUEUES: [Delay; 3] = [Delay::Sibling, Delay::Squeezed, Delay::Unseen];

/// Thread time spent waiting, by cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blame {
    /// Waiting for a thread with more work, including the run-queue waits that spinning for that thread caused.
    pub imbalance_ns: f64,
    /// Waiting for other threads that neither unequal work nor a delay explains.
    pub rest_ns: f64,
    pub(crate) direct_ns: BTreeMap<Delay, f64>,
    pub(crate) induced_ns: BTreeMap<Delay, f64>,
}

impl Blame {
    /// Returns whether queueing explains at least as much of the waiting for other threads as stays unexplained ([`rest_ns`](Blame::rest_ns)).
    /// Queueing means waiting for a CPU that another tracked thread held. If the result is false, the threads wait for another reason: see the convoy
    /// rule.
    pub fn queues_explain(&self) -> bool {
        QUEUES.into_iter().map(|delay| self.induced_ns(delay)).sum::<f64>() >= self.rest_ns
    }

    /// Returns how long other threads waited because of this delay.
    pub fn induced_ns(&self, delay: Delay) -> f64 {
        self.induced_ns.get(&delay).copied().unwrap_or(0.0)
    }

    /// Returns the thread time spent in the delay itself, without the time that other threads waited because of it.
    pub fn direct_ns(&self, delay: Delay) -> f64 {
        self.direct_ns.get(&delay).copied().unwrap_or(0.0)
    }

    /// Returns the thread time spent in the delay, plus how long other threads waited because of it.
    pub fn total_ns(&self, delay: Delay) -> f64 {
        self.direct_ns(delay) + self.induced_ns(delay)
    }
}
