//! Restores one knob, if its value is the session's.

use std::cell::Cell;

use crate::claim::Claim;
use crate::error::Error;
use crate::format::Change;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::ownership::{is_ours, lacks_only_offline};
use crate::undone::{Left, Undone};
use crate::unmoved::Why;
use crate::value::Value;

/// What kind of value a knob had when cox checked whether to restore it.
pub(crate) enum Found {
    /// The original value, or a mask of a cpuset to which somebody else has moved the thread.
    Original,
    /// A value that the session may have set; the knob has been restored.
    Ours,
    /// A value that somebody else has set.
    Theirs(Value),
}

/// Restores `knob` if its value counts as set by the session that made `change`. `change` is a change of this knob, or
/// of the knob from which the thread inherited its value.
pub(crate) fn put_back(knob_io: &dyn KnobIo, knob: &Knob, change: &Change) -> Result<Found, Error> {
    let ours = Cell::new(false);
    let back = |now: &Value| {
        let is_set = *now != change.original && !is_elsewhere(change, now);
        ours.set(is_set && is_ours(knob_io, knob, &change.claim, now));
        ours.get().then(|| change.claim.without(now, &change.original))
    };
    let now = knob_io.exchange(knob, &back)?;
    Ok(match () {
        () if now == change.original || is_elsewhere(change, &now) => Found::Original,
        () if ours.get() => Found::Ours,
        // The kernel has not kept the offline CPUs of the original.
        () if lacks_only_offline(knob_io, knob, &now, &change.original) => Found::Original,
        () => Found::Theirs(now),
    })
}

/// Restores `knob` of a thread that was created meanwhile, as [`put_back`] does, and notes what became of it. Returns
/// whether the thread may have created others with the same value: it had that, or it has ended.
pub(crate) fn put_back_born(knob_io: &dyn KnobIo, knob: &Knob, change: &Change, undone: &mut Undone) -> bool {
    match put_back(knob_io, knob, change) {
        Ok(Found::Ours) => undone.born += 1,
        Err(Error::Gone(_)) => {}
        // The kernel has given it its mask (a worker of io_uring).
        Ok(Found::Original | Found::Theirs(_)) | Err(Error::Unmovable { why: Why::Bound, .. }) => return false,
        Err(error) => undone.left.push(Left::of(knob.clone(), change, error.to_string())),
    }
    true
}

/// Returns whether a thread that the kernel has confined has no CPU of its original mask now. The session that made the change is not the cause: its
/// threads are back. Another program or session has moved the thread to another cpuset, where the kernel refuses that mask.
fn is_elsewhere(change: &Change, now: &Value) -> bool {
    match (&change.claim, &change.original, now) {
        (Claim::Confined, Value::Cpus(original), Value::Cpus(now)) => original.intersection(now).is_empty(),
        _ => false,
    }
}
