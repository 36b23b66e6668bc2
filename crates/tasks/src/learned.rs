//! What a thread remembers about the last loop of which it ran parts.

/// What a thread has learned about a loop.
#[derive(Clone, Copy, Default)]
pub(crate) struct Learned {
    /// Number of the loop, as `parts` counts loops.
    pub of: u64,
    /// Number of parts that are too few to be split further; see `parts`.
    pub few: u64,
}
