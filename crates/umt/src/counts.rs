//! The counts of a CPU, and the choice of the CPUs that a descriptor covers.

/// The CPUs whose counts make a descriptor ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// This CPU.
    Cpu(usize),
    /// All CPUs: the descriptor is ready while one of them has unread counts.
    Any,
}

/// The counts of a CPU since the last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Threads that blocked, ended, were unregistered, or moved to another CPU while ready.
    pub blocked: u32,
    /// Threads that unblocked, were registered, or moved to this CPU while ready.
    pub unblocked: u32,
    /// How often records of a thread, on any CPU, were overwritten: the thread switched more often between two reads than its log has room
    /// for. Lost records contain equally many blocks and unblocks, which are missing from `blocked` and from `unblocked`. So the
    /// difference between `unblocked` and `blocked` is still correct.
    pub lost: u32,
}
