//! Putting back. Does the same whoever calls it, and however often: the session, its guardian, or a
//! later session that finds the journal of a dead one.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::Error;
use crate::hands::Hands;
use crate::journal::Change;
use crate::knob::{Knob, Value};

/// What became of a session's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Knobs that have their original value (again).
    pub restored: usize,
    /// Threads and files that are gone.
    pub gone: usize,
    /// Left to another session, which puts them back when it ends.
    pub inherited: usize,
    /// Not put back, and why.
    pub left: Vec<Left>,
}

/// A knob that was not put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub knob: Knob,
    /// Why: somebody else's value, or the kernel's refusal.
    pub reason: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was left as it is: {}", self.knob, self.reason)
    }
}

/// Puts `changes` back in reverse order, but for what is `held` by other sessions.
pub fn undo(hands: &dyn Hands, changes: &[Change], held: &BTreeSet<Knob>) -> Undone {
    let mut undone = Undone::default();
    for change in changes.iter().rev() {
        if held.contains(&change.knob) {
            undone.inherited += 1;
            continue;
        }
        match put_back(hands, change) {
            Ok(None) => undone.restored += 1,
            Ok(Some(theirs)) => undone
                .left
                .push(Left { knob: change.knob.clone(), reason: format!("it reads {theirs}, which we have not set") }),
            Err(Error::Gone(_)) => undone.gone += 1,
            Err(error) => undone.left.push(Left { knob: change.knob.clone(), reason: error.to_string() }),
        }
    }
    undone
}

/// `Some` value that is not ours, or `None` when the knob has its original value.
fn put_back(hands: &dyn Hands, change: &Change) -> Result<Option<Value>, Error> {
    let now = hands.read(&change.knob)?;
    if now == change.original {
        return Ok(None);
    }
    if !change.claim.covers(&now) {
        return Ok(Some(now));
    }
    hands.write(&change.knob, &change.original)?;
    Ok(None)
}
