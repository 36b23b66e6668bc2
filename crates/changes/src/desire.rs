//! What engines want, and whether it goes together. Pure.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::knob::{Claim, Knob};

/// An engine wants a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desire {
    /// The engine, as messages name it: `pack`, `quiet`.
    pub engine: String,
    /// What it wants to change.
    pub knob: Knob,
    /// To what.
    pub claim: Claim,
}

/// One desire per knob, in the order in which each knob was first wanted.
///
/// # Errors
/// [`Error::Conflict`] when two engines claim one knob for different values. An engine that corrects
/// itself is no conflict: its last word counts.
pub fn merge(desires: impl IntoIterator<Item = Desire>) -> Result<Vec<Desire>, Error> {
    let mut merged: Vec<Desire> = Vec::new();
    let mut place: BTreeMap<Knob, usize> = BTreeMap::new();
    for desire in desires {
        let Some(&at) = place.get(&desire.knob) else {
            place.insert(desire.knob.clone(), merged.len());
            merged.push(desire);
            continue;
        };
        let before = &mut merged[at];
        if before.engine == desire.engine {
            before.claim = desire.claim;
        } else if before.claim != desire.claim {
            return Err(Error::Conflict {
                knob: Box::new(desire.knob),
                one: before.engine.clone(),
                one_wants: before.claim.to_string(),
                other: desire.engine,
                other_wants: desire.claim.to_string(),
            });
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::{Thread, Value};

    fn desire(engine: &str, tid: u32, cpus: &str) -> Desire {
        Desire {
            engine: engine.to_owned(),
            knob: Knob::Affinity(Thread { tid, start_ns: 7 }),
            claim: Claim::Exactly(Value::Cpus(cpus.parse().unwrap())),
        }
    }

    #[test]
    fn what_two_engines_agree_on_is_wanted_once() {
        let merged = merge([desire("pack", 5, "0-1"), desire("pack", 6, "0"), desire("quiet", 5, "0-1")]).unwrap();
        assert_eq!(merged, [desire("pack", 5, "0-1"), desire("pack", 6, "0")]);
    }

    #[test]
    fn what_they_do_not_agree_on_is_refused_by_name() {
        let error = merge([desire("pack", 5, "0-1"), desire("quiet", 5, "2-3")]).unwrap_err().to_string();
        for part in ["affinity of thread 5", "pack wants CPUs 0-1", "quiet wants CPUs 2-3"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_engine_may_correct_itself() {
        assert_eq!(merge([desire("pack", 5, "0"), desire("pack", 5, "1")]).unwrap(), [desire("pack", 5, "1")]);
    }
}
