//! Restores threads that have inherited a changed value from their creator, and that the session itself has not
//! changed, because it did not know them.
//!
//! The journal says, for each process, which values of the session its new threads may inherit. The sweep begins after
//! the threads that the session itself has changed are restored, so that no further thread inherits a value from them.
//! A thread that has one of these values now counts as having inherited it, and is restored.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::format::Change;
use crate::knob::{Knob, Thread};
use crate::knob_io::KnobIo;
use crate::restoring::put_back_born;
use crate::undone::{Left, Undone};

/// Maximum number of passes over the threads of a process. A thread that inherited a value from the session may create
/// another thread before the sweep has restored it. The new thread then inherits the value too, and the next pass finds
/// it. The sweep ends with the first pass that finds no such thread. If all threads are known from earlier passes, a
/// pass costs one listing of the process's threads.
const LOOKS: usize = 50;

/// Restores knobs of threads that have inherited a value from the session. Each item of `births` names a process's
/// first thread, and the values that the process's threads may have inherited. Knobs in `known` are left unchanged,
/// because they have journal entries of their own or another session holds them.
pub fn sweep(knob_io: &dyn KnobIo, births: &[&Change], known: &BTreeSet<Knob>, undone: &mut Undone) {
    let leaders: BTreeSet<Thread> = births.iter().filter_map(|births| births.knob.thread()).collect();
    for leader in leaders {
        let of_process: Vec<&Change> =
            births.iter().copied().filter(|births| births.knob.thread() == Some(leader)).collect();
        // Each thread is checked only once: no session sets these values any more, and the kernel does not reuse a
        // thread id within the short time of a sweep.
        let mut seen = BTreeSet::new();
        for _ in 0..LOOKS {
            match look(knob_io, leader, &of_process, known, &mut seen, undone) {
                Ok(true) => {}
                Ok(false) | Err(Error::Gone(_)) => break,
                Err(error) => {
                    let left = |births: &&Change| Left::of(births.knob.clone(), births, error.to_string());
                    undone.left.extend(of_process.first().map(left));
                    break;
                }
            }
        }
    }
}

/// Makes one pass over all threads that are not in `seen`. Returns whether another pass is needed. It is needed if a
/// thread still had a value that it had inherited from the session, or if a thread ended before it could be read. Both
/// kinds of threads may have created threads that are not in this pass's listing.
fn look(
    knob_io: &dyn KnobIo,
    leader: Thread,
    births: &[&Change],
    known: &BTreeSet<Knob>,
    seen: &mut BTreeSet<u32>,
    undone: &mut Undone,
) -> Result<bool, Error> {
    let mut more = false;
    for tid in knob_io.threads_of(leader)? {
        if !seen.insert(tid) {
            continue;
        }
        let Some(start_ns) = knob_io.started_ns(tid) else {
            more = true;
            continue;
        };
        for births in births {
            let Some(knob) = births.knob.of(Thread { tid, start_ns }).filter(|knob| !known.contains(knob)) else {
                continue;
            };
            more |= put_back_born(knob_io, &knob, births, undone);
        }
    }
    Ok(more)
}
