//! What a loop calls.

/// What a call instruction names as its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallTarget {
    /// Code at this address.
    Code(u64),
    /// Code at the address that this memory holds: an entry of the global offset table.
    Pointer(u64),
}

/// What a called function is good for, as far as waiting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// It only executes `pause`.
    Relaxes,
    /// It gives the CPU away: `sched_yield`.
    Yields,
    /// Anything else.
    Other,
}
