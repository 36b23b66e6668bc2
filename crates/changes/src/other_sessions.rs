//! The knobs that other sessions of this user have changed. This includes killed sessions whose changes have not been
//! undone yet.

use std::collections::BTreeMap;

use crate::claim::Claim;
use crate::entry::Entry;
use crate::error::Error;
use crate::format::Change;
use crate::knob::Knob;
use crate::request::ChangeRequest;

/// The journals of the other sessions.
pub(crate) struct Others(pub(crate) Vec<Entry>);

impl Others {
    /// Returns an error if another session has a different claim (different allowed values) on the knob of a request.
    /// `held` returns the part of another session's journal that is searched: its changes, or the values that new
    /// threads may inherit.
    pub(crate) fn refuse(&self, requests: &[ChangeRequest], held: impl Fn(&Entry) -> &[Change]) -> Result<(), Error> {
        for entry in &self.0 {
            let Some(header) = entry.record.as_ref().map(|record| &record.header) else { continue };
            let claims: BTreeMap<&Knob, &Claim> =
                held(entry).iter().map(|change| (&change.knob, &change.claim)).collect();
            let is_other = |request: &&ChangeRequest| {
                claims.get(&request.knob).is_some_and(|claim| !claim.agrees_with(&request.claim))
            };
            if let Some(request) = requests.iter().find(is_other) {
                let (pid, command) = (header.pid, header.command.clone());
                return Err(Error::Held { knob: Box::new(request.knob.clone()), pid, command });
            }
        }
        Ok(())
    }

    /// Returns all changes of a knob that other sessions have journaled.
    pub(crate) fn of(&self, knob: &Knob) -> impl Iterator<Item = &Change> {
        let announced = self.0.iter().flat_map(|entry| entry.changes().iter().chain(entry.births()));
        announced.filter(move |change| change.knob == *knob)
    }
}
