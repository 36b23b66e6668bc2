//! Simulated programs: threads that work and meet at a barrier, again and again.

/// How threads wait at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The threads spin.
    Spin,
    /// The threads call sched_yield(2) in a loop.
    Yield,
    /// The threads sleep.
    Block,
    /// The threads spin for this long, ns, and then sleep.
    SpinThenBlock(u64),
    /// The threads do not wait: there is no barrier before the end.
    Never,
}

/// A simulated program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Number of threads.
    pub threads: usize,
    /// Number of barriers.
    pub rounds: u64,
    /// Work of each thread between two barriers, in ns on a CPU of full capacity.
    pub work_ns: u64,
    /// The largest deviation of a thread's work from `work_ns`, as a fraction of `work_ns`. The deviation is drawn at
    /// random from a uniform distribution for each thread and round.
    pub jitter: f64,
    /// How the threads wait.
    pub wait: Wait,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act {
    /// The thread works; this much work is left in this round, ns.
    Work(u64),
    /// The thread spins. `Some`: it spins for this long, ns, and then sleeps.
    Spin(Option<u64>),
    /// The thread waits by calling sched_yield(2).
    Yield,
    /// The thread sleeps.
    Sleep,
    /// The thread has ended.
    #[default]
    End,
}

impl Act {
    /// Returns whether the thread is runnable.
    #[must_use]
    pub fn is_runnable(self) -> bool {
        !matches!(self, Act::Sleep | Act::End)
    }

    /// Returns whether the thread uses its CPU to wait for other threads.
    #[must_use]
    pub fn is_spinning(self) -> bool {
        matches!(self, Act::Spin(_) | Act::Yield)
    }
}
