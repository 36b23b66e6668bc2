//! Plans of loops: made at a loop's first instance, and used by later ones with the same bounds and team.
//!
//! A team keeps plans in a table with one place for each hash. Only the thread that opens an instance uses the table (see [`crate::chain`]), so it
//! needs no lock. An instance shares the ownership of its plan, so that a plan lives as long as its threads use it, though its place may be needed
//! for another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loops::fixed::Fixed;
use loops::{Inputs, Kind, Plan, Schedule};

use crate::histories::Histories;
use loops::options::{Options, Wanted};

/// The rule of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The schedule that the user has asked for.
    Asked,
    /// This one, with this smallest chunk.
    Of(Kind, u64),
}

/// What a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Number of iterations.
    pub trips: u64,
    /// Number of threads.
    pub threads: u32,
    /// Whether each thread must get its chunks in ascending order.
    pub monotonic: bool,
    /// The program's chunk: the smallest size.
    pub chunk: u64,
    /// Where the loop is in the program: its own plan, because a plan may contain what was measured.
    pub place: usize,
    /// The rule.
    pub rule: Rule,
}

/// A plan and what it is made for.
#[derive(Debug)]
pub struct Prepared {
    /// What the plan is made for.
    pub key: Key,
    /// The plan.
    pub plan: Plan,
    /// The rule of the plan.
    pub kind: Kind,
    /// The rule that was asked for.
    pub asked: Kind,
    /// Whether this is another schedule than the one asked for.
    pub is_substitute: bool,
    /// What `awf` measures; of no threads for other rules.
    pub histories: Histories,
}

/// Instances that have had a substitute, because the schedule is not monotonic and the loop must be.
pub static NOT_MONOTONIC: AtomicU64 = AtomicU64::new(0);
/// Instances that have had a substitute, because there are weights for another number of threads.
pub static NO_WEIGHTS: AtomicU64 = AtomicU64::new(0);

/// The substitute: monotonic, and without inputs.
const SUBSTITUTE: Kind = Kind::Fac2;

impl Prepared {
    /// Makes a plan. If the asked schedule is impossible for this loop, it is a plan of the substitute.
    #[cold]
    fn new(options: &Options, key: Key) -> Prepared {
        let schedule = match (key.rule, &options.wanted) {
            (Rule::Of(kind, chunk), _) => smallest(&Schedule::new(kind).at_least(chunk), key),
            (Rule::Asked, Wanted::Schedule(schedule)) => smallest(schedule, key),
            (Rule::Asked, _) => Schedule::new(SUBSTITUTE),
        };
        let threads = key.threads.max(1) as usize;
        // Weights for another number of threads say nothing about this team.
        let weights = options.inputs.weights.clone().filter(|weights| weights.len() == threads);
        let inputs = Inputs { weights, ..options.inputs.clone() };
        // `awf` has the rule of `awf_b`, with speeds from earlier instances.
        let is_awf = schedule.kind == Kind::Awf;
        let rule = Schedule { kind: if is_awf { Kind::AwfB } else { schedule.kind }, ..schedule.clone() };
        let histories = Histories::new(if is_awf { threads } else { 0 });
        let asked = rule.plan(key.trips, threads, &inputs).ok();
        match asked.filter(|plan| plan.is_monotonic() || !key.monotonic) {
            Some(plan) => {
                let kind = schedule.kind;
                let plan = if is_served_by_one_chunk(kind, key) { one_chunk(key) } else { plan };
                Prepared { key, plan, kind, asked: kind, is_substitute: false, histories }
            }
            None => {
                let kind = SUBSTITUTE;
                let plan = Schedule::new(kind).at_least(key.chunk).plan(key.trips, threads, &Inputs::default());
                // A plan of the substitute always exists, because a team has at least one thread.
                let plan = plan.unwrap_or(Plan::Fixed(Fixed::new(key.trips, key.chunk)));
                Prepared { key, plan, kind, asked: schedule.kind, is_substitute: true, histories }
            }
        }
    }

    /// Counts an instance, if its plan is a substitute.
    #[inline]
    pub fn count(&self) {
        if self.is_substitute {
            let counter = if self.asked == Kind::StaticSteal { &NOT_MONOTONIC } else { &NO_WEIGHTS };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns whether one chunk serves a loop as well: in a team of one thread, which shares the loop with nobody. libomp does the same. Chunks whose size the
/// user has chosen stay as they are.
fn is_served_by_one_chunk(kind: Kind, key: Key) -> bool {
    key.threads <= 1 && !matches!(kind, Kind::Static | Kind::Ss | Kind::Profile)
}

/// Returns the plan of one chunk.
fn one_chunk(key: Key) -> Plan {
    Plan::Fixed(Fixed::new(key.trips, key.trips))
}

/// Returns the schedule with the program's chunk as the smallest size. `static` distributes blocks, unless they would be smaller than that.
fn smallest(schedule: &Schedule, key: Key) -> Schedule {
    let block = key.trips / u64::from(key.threads.max(1));
    if schedule.kind == Kind::Static && schedule.chunk.is_none() && block >= key.chunk {
        return schedule.clone();
    }
    schedule.clone().at_least(key.chunk)
}

/// Plans that a team remembers.
const PLACES: usize = 256;

/// A team's table of plans.
#[derive(Debug)]
pub struct Plans([Option<Arc<Prepared>>; PLACES]);

impl Default for Plans {
    fn default() -> Plans {
        Plans([const { None }; PLACES])
    }
}

impl Plans {
    /// Returns the plan for `key`; makes it if it is not in the table.
    pub fn get(&mut self, options: &Options, key: Key) -> &Arc<Prepared> {
        let mut hash = key.trips ^ (key.place as u64).rotate_left(32) ^ key.chunk.rotate_left(48);
        let Rule::Of(kind, least) = key.rule else { return self.at(hash, options, key) };
        hash ^= (kind as u64 + 1).rotate_left(24) ^ least.rotate_left(40);
        self.at(hash, options, key)
    }

    fn at(&mut self, hash: u64, options: &Options, key: Key) -> &Arc<Prepared> {
        let hash = (hash ^ u64::from(key.threads) ^ u64::from(key.monotonic) << 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = &mut self.0[(hash >> 32) as usize % PLACES];
        if place.as_ref().is_some_and(|prepared| prepared.key != key) {
            *place = None;
        }
        place.get_or_insert_with(|| Arc::new(Prepared::new(options, key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(trips: u64, chunk: u64, monotonic: bool) -> Key {
        Key { trips, threads: 4, monotonic, chunk, place: 0, rule: Rule::Asked }
    }

    fn prepared(options: &str, inputs: Option<&str>, key: Key) -> Prepared {
        Prepared::new(&Options::parse(options, inputs).unwrap(), key)
    }

    #[test]
    fn a_monotonic_loop_gets_a_monotonic_plan() {
        assert!(!prepared("static_steal", None, key(100, 1, false)).is_substitute);
        let substitute = prepared("static_steal", None, key(100, 1, true));
        assert_eq!((substitute.kind, substitute.is_substitute), (Kind::Fac2, true));
        assert!(substitute.plan.is_monotonic());
    }

    #[test]
    fn weights_count_for_teams_of_their_size() {
        let weights = Some("weights=1:1:1:2");
        assert!(!prepared("wf", weights, key(100, 1, false)).is_substitute);
        assert!(prepared("wf", weights, Key { threads: 3, ..key(100, 1, false) }).is_substitute);
    }

    #[test]
    fn a_thread_that_is_alone_has_one_chunk() {
        for (schedule, inputs) in [
            ("awf_c", None),
            ("af", None),
            ("awf", None),
            ("wf", Some("weights=1")),
            ("fac2", None),
            ("mfsc", None),
            ("hybrid", None),
            ("static_steal", None),
        ] {
            let alone = prepared(schedule, inputs, Key { threads: 1, ..key(100, 7, false) });
            assert_eq!((alone.plan, alone.is_substitute), (Plan::Fixed(Fixed::new(100, 100)), false), "{schedule}");
        }
        assert!(matches!(prepared("awf_c", None, key(100, 1, false)).plan, Plan::Adaptive(_)));
        for schedule in ["ss", "ss,9", "profile"] {
            let alone = prepared(schedule, None, Key { threads: 1, ..key(100, 1, false) });
            assert_eq!(alone.plan, prepared(schedule, None, key(100, 1, false)).plan, "{schedule}");
        }
    }

    #[test]
    fn the_programs_chunk_is_the_smallest() {
        let fixed = |options, key| match prepared(options, None, key).plan {
            Plan::Fixed(fixed) => fixed.size(),
            other => panic!("{other:?}"),
        };
        assert_eq!((fixed("ss", key(100, 7, false)), fixed("ss,9", key(100, 7, false))), (7, 9));
        assert!(matches!(prepared("static", None, key(100, 25, false)).plan, Plan::Blocks(_)));
        assert!(matches!(prepared("static", None, key(100, 26, false)).plan, Plan::Cyclic(_)));
    }

    #[test]
    fn plans_are_made_once_and_places_are_used_again() {
        let options = Options::parse("fac2", None).unwrap();
        let mut plans = Plans::default();
        let first = Arc::clone(plans.get(&options, key(100, 1, false)));
        assert!(Arc::ptr_eq(&first, plans.get(&options, key(100, 1, false))));
        for trips in 0..1000 {
            assert_eq!(plans.get(&options, key(trips, 1, false)).key.trips, trips);
        }
        assert_eq!(first.key.trips, 100);
    }
}
