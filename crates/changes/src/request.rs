//! Change requests of engines, and whether they are compatible. Pure functions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::claim::Claim;
use crate::error::Error;
use crate::knob::{Knob, Thread};

/// An engine's request to change a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRequest {
    /// The engine's name in messages: `pack`, `quiet`.
    pub engine: String,
    /// The knob.
    pub knob: Knob,
    /// The values that the engine wants to set.
    pub claim: Claim,
    /// The threads from which this knob's thread may have inherited a value that a session has set. The thread that
    /// created it comes first, then the first thread of its process (the leader). Empty if the thread existed before
    /// [`Session::adopt`](crate::Session::adopt) journaled its process.
    ///
    /// The first of these threads whose knob is in a journal decides. If that knob's claim covers the new thread's
    /// present value, the new thread has inherited the value, and gets the same original. Otherwise no session has set
    /// the value, so it is itself the original.
    pub heir_of: Vec<Thread>,
}

/// Returns one change request per knob, in the order in which the knobs were first requested.
///
/// # Errors
/// [`Error::Conflict`] if two engines claim different values for one knob. An engine may correct itself: its last
/// request counts. [`Claim::Confined`] gives way to the claim of another engine.
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
        if before.engine == request.engine || before.claim == Claim::Confined {
            (before.engine, before.claim) = (request.engine, request.claim);
        } else if request.claim == Claim::Confined {
            // What the other engine sets is restored in any case.
        } else if before.claim != request.claim {
            return Err(conflict(&before.engine, &before.claim, &request));
        }
    }
    Ok(merged)
}

/// Divides requests into batches, in the same order. A file of a cgroup is in a later batch than the cgroup itself or a
/// controller above it, because the file exists only once these have been made.
pub(crate) fn batches(requests: Vec<ChangeRequest>) -> Vec<Vec<ChangeRequest>> {
    let mut batches: Vec<Vec<ChangeRequest>> = Vec::new();
    let mut cgroups: Vec<PathBuf> = Vec::new();
    for request in requests {
        let path = match &request.knob {
            Knob::Directory(path) => Some(path.as_path()),
            knob => knob.file(),
        };
        if batches.is_empty() || path.is_some_and(|path| cgroups.iter().any(|cgroup| path.starts_with(cgroup))) {
            batches.push(Vec::new());
            cgroups.clear();
        }
        if let Knob::Directory(path) | Knob::Controller { cgroup: path, .. } = &request.knob {
            cgroups.push(path.clone());
        }
        if let Some(batch) = batches.last_mut() {
            batch.push(request);
        }
    }
    batches
}

/// Makes the error for a request that contradicts the claim of engine `one`.
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
    use crate::value::Value;

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
    fn a_confined_mask_gives_way_to_one_that_an_engine_sets() {
        let confined = ChangeRequest { claim: Claim::Confined, ..request("quiet", 5, "0") };
        let packed = request("pack", 5, "0-1");
        for both in [[confined.clone(), packed.clone()], [packed.clone(), confined]] {
            assert_eq!(merge(both).unwrap(), std::slice::from_ref(&packed));
        }
    }

    #[test]
    fn an_engine_may_correct_itself() {
        assert_eq!(merge([request("pack", 5, "0"), request("pack", 5, "1")]).unwrap(), [request("pack", 5, "1")]);
    }
}
