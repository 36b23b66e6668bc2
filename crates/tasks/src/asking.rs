//! Functions of tasks that ask for their thread's number.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::work::Work;

/// Functions of tasks that have asked, by address; with more than these, all count as such.
static ASKERS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Whether tasks of this function ask for their thread's number.
#[inline]
pub(crate) fn asks(work: Work) -> bool {
    let wanted = work as usize;
    let mut known = ASKERS.iter().map(|asker| asker.load(Ordering::Relaxed));
    known.find(|asker| *asker == 0 || *asker == wanted).is_none_or(|asker| asker == wanted)
}

/// Whether any function is known to ask.
#[inline]
pub(crate) fn somebody_asks() -> bool {
    ASKERS[0].load(Ordering::Relaxed) != 0
}

/// A function asks.
#[cold]
pub(crate) fn remember(work: Work) {
    let free = |asker: &&AtomicUsize| {
        let order = Ordering::Relaxed;
        asker.compare_exchange(0, work as usize, order, order).map_or_else(|other| other == work as usize, |_| true)
    };
    let _ = ASKERS.iter().find(free);
}
