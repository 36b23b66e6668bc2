//! Converts trace events into scheduler events of threads, for [`Replay`](crate::replay::Replay).

use wire::{Event, EventKind, TraceEvent, What};

/// Passes the events of tracked threads in `trace_event` to `hand_on`, in order. Untracked threads and losses are skipped: an account does not need
/// them.
pub fn events(trace_event: &TraceEvent, mut hand_on: impl FnMut(Event)) {
    let mut say = |tid, kind| hand_on(Event { t_ns: trace_event.t_ns, tid, kind });
    let cpu = trace_event.cpu;
    match trace_event.what() {
        Some(What::Switch { out, left, out_is_member, into, in_is_member, in_cause }) => {
            say(out, EventKind::Had { cpu });
            // Thread 0 is the idle task of each CPU, even if a damaged file claims otherwise.
            if out_is_member && out != 0 {
                say(out, EventKind::Out { left });
            }
            if in_is_member && into != 0 {
                in_cause.into_iter().for_each(|cause| say(into, EventKind::Why { cause }));
                say(into, EventKind::In { cpu });
            }
        }
        Some(What::Waking { tid, waker, .. }) => say(tid, EventKind::Waking { waker }),
        Some(What::Migration { tid, kind, .. }) => say(tid, EventKind::Migrated { cpu, kind }),
        Some(What::Born { tid, tgid, parent_tgid }) => say(tid, EventKind::Born { tgid, parent_tgid }),
        Some(What::Enrolled { tid, tgid, blocked }) => say(tid, EventKind::Enrolled { tgid, blocked }),
        Some(What::Why { tid, cause }) => say(tid, EventKind::Why { cause }),
        Some(What::Exec { tid, caller }) => say(tid, EventKind::Exec { caller }),
        Some(What::Arrived { tid }) => say(tid, EventKind::In { cpu }),
        // A sample does not change a thread's state.
        Some(What::Lost { .. } | What::Sample { .. }) | None => {}
    }
}
