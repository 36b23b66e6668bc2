//! Putting back what nobody has announced: threads that were born with our values and not seen, or not
//! yet, by the session.
//!
//! The session has announced, for their process, what a newborn may inherit. So when the announced knobs
//! are back, whatever thread of the process still reads as claimed has it from us.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::format::Change;
use crate::knob::{Knob, Thread};
use crate::knob_io::KnobIo;
use crate::undo::{Found, Left, Undone, put_back};

/// A thread that has our values may give birth to another before it is put back; then a further look
/// finds that one. Only threads that end as soon as they have given birth can go on like that, and each
/// look is another chance to be faster than they are. A look at known threads costs a listing.
const LOOKS: usize = 50;

/// Puts back what threads of `births`' processes have inherited. `known` knobs are left alone: they have
/// been announced, or another session holds them.
pub fn sweep(knob_io: &dyn KnobIo, births: &[&Change], known: &BTreeSet<Knob>, undone: &mut Undone) {
    let leaders: BTreeSet<Thread> = births.iter().filter_map(|births| births.knob.thread()).collect();
    for leader in leaders {
        let of_process: Vec<&Change> =
            births.iter().copied().filter(|births| births.knob.thread() == Some(leader)).collect();
        // Nobody sets our values any more, so a thread needs to be looked at once only; and no id is used
        // again so soon.
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

/// One look at all threads that have not been seen. Whether there may be more: one had our values or
/// ended before it could be asked, and may have given birth since the threads were listed.
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
            match put_back(knob_io, &knob, births) {
                Ok(Found::Ours) => {
                    undone.born += 1;
                    more = true;
                }
                Ok(Found::Original | Found::Theirs(_)) => {}
                Err(Error::Gone(_)) => more = true,
                Err(error) => undone.left.push(Left::of(knob, births, error.to_string())),
            }
        }
    }
    Ok(more)
}
