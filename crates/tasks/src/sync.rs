//! Atomics: those of the standard library, or loom's if its model checker runs (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use wire::umt::{Line, Queue as Ends};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
type AtomicI64 = std::sync::atomic::AtomicI64;

/// The counterpart of [`wire::umt::Line`].
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Line(pub AtomicI64);

/// The counterpart of [`wire::umt::Queue`].
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Ends {
    pub begin: Line,
    pub end: Line,
}

/// Makes the end positions of an empty queue that BPF does not see. They are never freed, because teams are not.
pub(crate) fn ends() -> &'static Ends {
    Box::leak(Box::new(Ends { begin: Line(AtomicI64::new(0)), end: Line(AtomicI64::new(0)) }))
}

/// Returns the end positions of `count` queues in memory that BPF can read, if there is room.
#[cfg(not(loom))]
pub(crate) fn shared_ends(count: u32) -> Option<&'static [Ends]> {
    umt_client::queues(count)
}

/// The model checker's words are not shared with BPF.
#[cfg(loom)]
pub(crate) fn shared_ends(_: u32) -> Option<&'static [Ends]> {
    None
}
