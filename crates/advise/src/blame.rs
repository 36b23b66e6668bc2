//! Why threads waited for other threads and for CPUs: thread time by reason. `dividing` finds it out.

use std::collections::BTreeMap;

/// A delay of a thread that can make others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delay {
    /// Behind a sibling that worked.
    Sibling,
    /// Behind a sibling, because others left the siblings too few CPUs.
    Squeezed,
    /// Behind another program.
    Other,
    /// For a CPU that was idle: woken from idle, or throttled.
    Idle,
    /// For a CPU, and behind whom is not seen.
    Unseen,
    /// Hypervisor steal.
    Steal,
    /// On storage.
    Disk,
    /// On a socket.
    Network,
    /// On a page.
    PageFault,
    /// On a file lock.
    FileLock,
}

/// Thread time by reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blame {
    /// Waiting for a thread with more work, with the queueing that the spinning among it caused.
    pub imbalance_ns: f64,
    /// Waiting for other threads with neither unequal work nor a delay behind it.
    pub rest_ns: f64,
    pub(crate) direct_ns: BTreeMap<Delay, f64>,
    pub(crate) induced_ns: BTreeMap<Delay, f64>,
}

impl Blame {
    /// Whether the queues among siblings explain most of the waiting that unequal work does not. Where they
    /// do not, threads queue in passing and wait for another reason: see the convoy.
    pub fn queues_explain(&self) -> bool {
        let queues = [Delay::Sibling, Delay::Squeezed, Delay::Unseen];
        queues.into_iter().map(|delay| self.induced_ns(delay)).sum::<f64>() >= self.rest_ns
    }

    /// The waiting of others that a delay explains.
    pub fn induced_ns(&self, delay: Delay) -> f64 {
        self.induced_ns.get(&delay).copied().unwrap_or(0.0)
    }

    /// Thread time in the delay itself.
    pub fn direct_ns(&self, delay: Delay) -> f64 {
        self.direct_ns.get(&delay).copied().unwrap_or(0.0)
    }

    /// … with the waiting of others that it explains.
    pub fn total_ns(&self, delay: Delay) -> f64 {
        self.direct_ns(delay) + self.induced_ns(delay)
    }
}
