//! What a thread remembers about the last loop of which it ran parts.

/// What a thread has learned about a loop.
#[derive(Clone, Copy, Default)]
pub(crate) struct Learned {
    /// The loop's sequence number, assigned by the module `parts`.
    pub of: u64,
    /// A range with at most this many parts is not split further; see `parts`.
    pub few: u64,
}
