//! What engines want, and whether it goes together. Pure.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::knob::{Claim, Knob, Thread};

/// An engine wants a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRequest {
    /// The engine, as messages name it: `pack`, `quiet`.
    pub engine: String,
    /// What it wants to change.
    pub knob: Knob,
    /// To what.
    pub claim: Claim,
    /// Of a thread born since its process was adopted: from whom it may have inherited what we set, nearest
    /// first, its creator and then the leader of its process. Empty for a thread that was there before.
    ///
    /// When the claim that the session, or another, has on the first of these that is known covers what the
    /// newborn reads, its original is that thread's original. Else the program has set it, or it never was
    /// ours: what it reads is its original.
    pub heir_of: Vec<Thread>,
}

/// One change request per knob, in the order in which each knob was first wanted.
///
/// # Errors
/// [`Error::Conflict`] when two engines claim one knob for different values. An engine that corrects
/// itself is no conflict: its last word counts.
pub fn merge(requests: impl IntoIterator<Item = ChangeRequest>) -> Result<Vec<ChangeRequest>, Error> {
    let mut merged: Vec<ChangeRequest> = Vec::new();
    let mut place: BTreeMap<Knob, usize> = BTreeMap::new();
    for request in requests {
        let Some(&at) = place.get(&request.knob) else {
            place.insert(request.knob.clone(), merged.len());
            merged.push(request);
            continue;
        };
        let before = &mut merged[at];
        if before.engine == request.engine {
            before.claim = request.claim;
        } else if before.claim != request.claim {
            return Err(conflict(&before.engine, &before.claim, &request));
        }
    }
    Ok(merged)
}

/// Of what `one` has claimed already with what another requests.
pub(crate) fn conflict(one: &str, claim: &Claim, other: &ChangeRequest) -> Error {
    Error::Conflict {
        knob: Box::new(other.knob.clone()),
        one: one.to_owned(),
        one_wants: claim.to_string(),
        other: other.engine.clone(),
        other_wants: other.claim.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Value;

    fn request(engine: &str, tid: u32, cpus: &str) -> ChangeRequest {
        ChangeRequest {
            engine: engine.to_owned(),
            knob: Knob::Affinity(Thread { tid, start_ns: 7 }),
            claim: Claim::Exactly(Value::Cpus(cpus.parse().unwrap())),
            heir_of: Vec::new(),
        }
    }

    #[test]
    fn what_two_engines_agree_on_is_wanted_once() {
        let merged = merge([request("pack", 5, "0-1"), request("pack", 6, "0"), request("quiet", 5, "0-1")]).unwrap();
        assert_eq!(merged, [request("pack", 5, "0-1"), request("pack", 6, "0")]);
    }

    #[test]
    fn what_they_do_not_agree_on_is_refused_by_name() {
        let error = merge([request("pack", 5, "0-1"), request("quiet", 5, "2-3")]).unwrap_err().to_string();
        for part in ["affinity of thread 5", "pack wants CPUs 0-1", "quiet wants CPUs 2-3"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_engine_may_correct_itself() {
        assert_eq!(merge([request("pack", 5, "0"), request("pack", 5, "1")]).unwrap(), [request("pack", 5, "1")]);
    }
}
