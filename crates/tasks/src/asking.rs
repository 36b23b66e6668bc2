//! Task functions that ask for the number of the thread on which they run (for example with omp_get_thread_num).

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::task::Work;

/// Addresses of the task functions that have asked for their thread's number. If the table is full, all other functions count as asking, too.
static ASKERS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Returns whether tasks of this function are known to ask for the number of the thread on which they run.
#[inline]
pub(crate) fn asks(work: Work) -> bool {
    let wanted = work as usize;
    let mut known = ASKERS.iter().map(|asker| asker.load(Ordering::Relaxed));
    known.find(|asker| *asker == 0 || *asker == wanted).is_none_or(|asker| asker == wanted)
}

/// Returns whether tasks of any function are known to ask for the number of the thread on which they run.
#[inline]
pub(crate) fn somebody_asks() -> bool {
    ASKERS[0].load(Ordering::Relaxed) != 0
}

/// Records that tasks of this function ask for the number of the thread on which they run.
#[cold]
pub(crate) fn remember(work: Work) {
    let free = |asker: &&AtomicUsize| {
        let order = Ordering::Relaxed;
        asker.compare_exchange(0, work as usize, order, order).map_or_else(|other| other == work as usize, |_| true)
    };
    let _ = ASKERS.iter().find(free);
}
