//! What is counted, and of which CPU.

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// This CPU.
    Cpu(usize),
    /// All CPUs: ready while one of them is.
    Any,
}

/// What has happened on a CPU since it was read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Threads that blocked, ended, were unregistered, or were taken elsewhere while ready.
    pub blocked: u32,
    /// Threads that unblocked, were registered, or were brought here while ready.
    pub unblocked: u32,
    /// Times that a thread, on whatever CPU, had switched more often than its log has room for: so many pairs of blocks and unblocks are not in
    /// the counts. The difference of both is right.
    pub lost: u32,
}
