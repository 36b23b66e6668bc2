//! Whether the calling thread was preempted: how a standby notices without privileges that another thread wants its CPU.

use std::cell::Cell;

use crate::thread::usage;

thread_local! {
    /// Preemptions of this thread when it last asked, and whether there were new ones then.
    static PREEMPTED: Cell<(i64, bool)> = const { Cell::new((0, false)) };
}

/// Whether the calling thread has been preempted since it asked last.
pub(crate) fn was_preempted() -> bool {
    let count = usage().ru_nivcsw;
    let was = count != PREEMPTED.get().0;
    PREEMPTED.set((count, was));
    was
}

/// What [`was_preempted`] has said last.
pub(crate) fn gave_way() -> bool {
    PREEMPTED.get().1
}
