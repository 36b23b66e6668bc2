//! Restores one knob, if its value is the session's.

use std::cell::Cell;

use crate::error::Error;
use crate::format::Change;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::ownership::is_ours;
use crate::value::Value;

/// What kind of value a knob had when cox checked whether to restore it.
pub(crate) enum Found {
    /// The original value.
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
        ours.set(*now != change.original && is_ours(knob_io, knob, &change.claim, now));
        ours.get().then(|| change.claim.without(now, &change.original))
    };
    let now = knob_io.exchange(knob, &back)?;
    Ok(match () {
        () if now == change.original => Found::Original,
        () if ours.get() => Found::Ours,
        () => Found::Theirs(now),
    })
}
