//! Time that a cause took from a thread.

use crate::cause::CauseId;

/// Time that a cause took from a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The thread that lost the time.
    pub tid: u32,
    /// The CPU on which that happened.
    pub cpu: u16,
    /// Begin, end and net time.
    pub span: Span,
    /// What took the time.
    pub cause: CauseId,
}

/// From when to when an interval lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin, ns on CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// End, ns on CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// Net time, ns: without the intervals of other causes within this one.
    pub inside_ns: u64,
    /// Whether this interval lies in no other one.
    pub outermost: bool,
}
