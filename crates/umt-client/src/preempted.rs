//! Counts preemptions of the calling thread. Without privileges, this is how a standby notices that another thread wants its CPU.

use std::cell::Cell;

use crate::thread::usage;

thread_local! {
    /// The number of preemptions of this thread at its last call of `was_preempted`, and the answer of that call.
    static PREEMPTED: Cell<(i64, bool)> = const { Cell::new((0, false)) };
}

/// Returns whether the calling thread has been preempted since it last called this function.
pub(crate) fn was_preempted() -> bool {
    let count = usage().ru_nivcsw;
    let was = count != PREEMPTED.get().0;
    PREEMPTED.set((count, was));
    was
}

/// Returns again what [`was_preempted`] returned when the calling thread last called it.
pub(crate) fn gave_way() -> bool {
    PREEMPTED.get().1
}
