//! What a thread remembers of the last loop of which it has done parts.

/// What a thread has learned about a loop.
#[derive(Clone, Copy, Default)]
pub(crate) struct Learned {
    /// Which, as `parts` counts them.
    pub of: u64,
    /// How many parts are few.
    pub few: u64,
}
