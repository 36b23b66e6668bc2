//! Programs: threads that work and meet at a barrier, again and again.

/// How threads wait at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In a loop.
    Spin,
    /// By sched_yield(2) in a loop.
    Yield,
    /// Asleep.
    Block,
    /// In a loop for so long, ns, then asleep.
    SpinThenBlock(u64),
    /// There is no barrier but the end.
    Never,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Threads.
    pub threads: usize,
    /// Barriers.
    pub rounds: u64,
    /// CPU work of each thread between two barriers on a CPU of full capacity, ns.
    pub work_ns: u64,
    /// Work varies by up to this part of it, evenly, per thread and round.
    pub jitter: f64,
    /// How they wait.
    pub wait: Wait,
}

/// What a thread does, as far as the machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// So much work is left in this round.
    Work(u64),
    /// Waits in a loop; `Some`: for so much longer, then asleep.
    Spin(Option<u64>),
    /// Waits by yielding.
    Yield,
    /// Asleep.
    Sleep,
    /// Has ended.
    End,
}

impl Act {
    /// Whether it wants a CPU.
    #[must_use]
    pub fn is_runnable(self) -> bool {
        !matches!(self, Act::Sleep | Act::End)
    }

    /// Whether it waits for others on a CPU.
    #[must_use]
    pub fn is_spinning(self) -> bool {
        matches!(self, Act::Spin(_) | Act::Yield)
    }
}
