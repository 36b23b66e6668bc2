//! Atomics, by way of loom when its checker runs (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use wire::umt::{Line, Queue as Ends};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
type AtomicI64 = std::sync::atomic::AtomicI64;

/// As [`wire::umt::Line`].
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Line(pub AtomicI64);

/// As [`wire::umt::Queue`].
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Ends {
    pub begin: Line,
    pub end: Line,
}

/// Of an empty queue that only threads look at. They stay, as teams do.
pub(crate) fn ends() -> &'static Ends {
    Box::leak(Box::new(Ends { begin: Line(AtomicI64::new(0)), end: Line(AtomicI64::new(0)) }))
}

/// Of so many queues, where BPF sees them too, if there is room.
#[cfg(not(loom))]
pub(crate) fn shared_ends(count: u32) -> Option<&'static [Ends]> {
    signal::queues(count)
}

/// The checker's words are not shared with anybody.
#[cfg(loom)]
pub(crate) fn shared_ends(_: u32) -> Option<&'static [Ends]> {
    None
}
