//! The truth table: which headlines are right in a situation. It was written before any run, from what each program is known to do. These entries
//! are newer:
//!
//! - Open MPI's launcher binds ranks to CPUs that `taskset` excludes, so that there is no claim.
//! - With more threads than CPUs, GCC's runtime may also sleep under OMP_WAIT_POLICY=active, as its manual says.
//! - With 2N threads, unequal work can fill all CPUs: one thread has a CPU to itself, and the others share the rest.
//! - LU, of NPB and of the workloads, waits for other threads in loops of its own, as its source shows: no waiting policy ends that.
//! - HPCG, the stencil with serial steps, and NPB's FT and MG in C (which compute their initial values in one thread) have serial parts, as their source
//!   shows, whichever compiler built them.
//!
//! A situation without an entry makes no claim, and its headline is not scored.

use advise::Kind;

use super::corpus::program::{Family, Nature};
use super::situation::{Circumstance, Count, Situation};

/// The right headlines of a situation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth {
    /// Every headline that is right.
    pub right: &'static [Kind],
    /// Why, in a sentence.
    pub why: &'static str,
}

const fn truth(right: &'static [Kind], why: &'static str) -> Option<Truth> {
    Some(Truth { right, why })
}

const NOTHING: &[Kind] = &[Kind::NothingToGain];
const SPINNING: &[Kind] = &[Kind::TooManyThreadsSpinning];
const SLEEPING: &[Kind] = &[Kind::TooManyThreadsSleeping];
const TOO_MANY: &[Kind] = &[Kind::TooManyThreadsSpinning, Kind::TooManyThreadsSleeping];

/// Returns the right headlines of a situation; `None` if there is no claim.
pub fn of(situation: &Situation) -> Option<Truth> {
    let nature = situation.program.nature;
    if let Nature::Waits(kind) = nature {
        return waits(kind, situation.circumstance);
    }
    if nature == Nature::Open {
        return None;
    }
    match situation.circumstance {
        _ if situation.is_bound_by_launcher() => on_one_cpu(nature).filter(|_| situation.count != Count::One),
        Circumstance::Plain | Circumstance::Passive | Circumstance::Active => on_all_cpus(situation),
        Circumstance::Bound if situation.binds_beyond_mask() => None,
        Circumstance::Bound | Circumstance::Places => on_one_cpu(nature),
        Circumstance::Hog => beside_a_hog(nature, situation.count),
        Circumstance::Quota => under_a_quota(nature, situation.count),
    }
}

fn waits(kind: Kind, circumstance: Circumstance) -> Option<Truth> {
    let right: &'static [Kind] = match kind {
        Kind::DiskBound => &[Kind::DiskBound],
        Kind::Sleeping => &[Kind::Sleeping],
        Kind::WaitingForInput => &[Kind::WaitingForInput],
        Kind::FileLock => &[Kind::FileLock],
        _ => return None,
    };
    let plain = matches!(circumstance, Circumstance::Plain | Circumstance::Hog);
    plain.then_some(Truth { right, why: "the program waits for this by construction, and hardly needs a CPU" })
}

fn on_all_cpus(situation: &Situation) -> Option<Truth> {
    let Situation { program, count, circumstance } = situation;
    match (program.nature, count) {
        (Nature::Serial, _) => truth(NOTHING, "one thread computes all the time and has a CPU"),
        (Nature::Independent | Nature::Equal, Count::One) => {
            truth(NOTHING, "a single thread waits for no other, and has a CPU")
        }
        (Nature::SerialParts, Count::One) => truth(NOTHING, "one thread computes all the time and has a CPU"),
        (Nature::SerialParts, Count::Cpus) => {
            truth(&[Kind::Serial], "one thread does a large part of the work alone, by construction")
        }
        (Nature::SerialParts, _) => {
            let right: &'static [Kind] = &[Kind::Serial, Kind::TooManyThreadsSpinning, Kind::TooManyThreadsSleeping];
            truth(right, "serial work, and more threads than CPUs: either is a cause of the waiting")
        }
        (Nature::Independent, _) => {
            truth(NOTHING, "threads that hardly wait for one another lose nothing by sharing CPUs")
        }
        (Nature::Equal, Count::Cpus) => {
            let right: &'static [Kind] = &[Kind::NothingToGain, Kind::SlowWakeups];
            truth(right, "equal work with a CPU for each thread; only waking up at the barriers can cost time")
        }
        (Nature::Equal | Nature::Coupled, Count::OneMore | Count::Double) => too_many(situation),
        (Nature::CoupledSpinning, Count::OneMore | Count::Double) => {
            truth(SPINNING, "more threads than CPUs, and the program's own code spins while they wait for one another")
        }
        (Nature::Unequal, Count::Cpus) => {
            truth(&[Kind::Imbalance], "one thread has several times the work of the others, and each has a CPU")
        }
        (Nature::Unequal, Count::Double) => {
            let right: &'static [Kind] =
                &[Kind::Imbalance, Kind::TooManyThreadsSpinning, Kind::TooManyThreadsSleeping, Kind::NothingToGain];
            truth(right, "unequal work, and so many threads that the one with most work can have a CPU to itself")
        }
        (Nature::Unequal, _) => {
            let right: &'static [Kind] = &[Kind::Imbalance, Kind::TooManyThreadsSpinning, Kind::TooManyThreadsSleeping];
            truth(right, "unequal work, and more threads than CPUs: either is a cause of the waiting")
        }
        (Nature::Convoy, _) if *circumstance == Circumstance::Plain => {
            truth(&[Kind::LockConvoy], "the threads spend nearly all their time in one critical section")
        }
        _ => None,
    }
}

/// More threads than CPUs that meet often. How the threads wait follows from the waiting policy.
fn too_many(situation: &Situation) -> Option<Truth> {
    match (situation.circumstance, situation.program.family) {
        (Circumstance::Passive, _) => truth(SLEEPING, "more threads than CPUs, and waiting threads sleep at once"),
        (Circumstance::Active, Family::OpenMpClang) => {
            truth(SPINNING, "more threads than CPUs, and waiting threads spin")
        }
        // With more threads than CPUs, GCC's runtime spins for 1,000 tests under this policy (GOMP_SPINCOUNT in its manual), and then sleeps.
        (Circumstance::Active, Family::OpenMpGcc) => {
            truth(TOO_MANY, "more threads than CPUs, and waiting threads spin briefly")
        }
        (_, Family::Mpich | Family::OpenMpi) => truth(TOO_MANY, "more ranks than CPUs, and ranks poll for messages"),
        _ => truth(TOO_MANY, "more threads than CPUs, and the threads meet often"),
    }
}

fn on_one_cpu(nature: Nature) -> Option<Truth> {
    match nature {
        Nature::Equal
        | Nature::Coupled
        | Nature::CoupledSpinning
        | Nature::Parallel
        | Nature::Independent
        | Nature::Unequal => truth(
            &[Kind::PinnedTooFew],
            "several threads that could compute at the same time share one CPU, and another is idle",
        ),
        _ => None,
    }
}

fn beside_a_hog(nature: Nature, count: Count) -> Option<Truth> {
    match (nature, count) {
        (Nature::Serial, _) => truth(NOTHING, "one thread and one hog, and a CPU for each on two or more CPUs"),
        (
            Nature::Equal | Nature::Coupled | Nature::CoupledSpinning | Nature::Parallel | Nature::Independent,
            Count::Cpus,
        ) => truth(&[Kind::CpuHog], "the threads need all CPUs, and another program uses one of them all the time"),
        _ => None,
    }
}

fn under_a_quota(nature: Nature, count: Count) -> Option<Truth> {
    match (nature, count) {
        (
            Nature::Equal | Nature::Coupled | Nature::CoupledSpinning | Nature::Parallel | Nature::Independent,
            Count::Cpus,
        ) => truth(&[Kind::QuotaThrottled], "the threads need all CPUs, and the quota allows three quarters of them"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{corpus, situation};
    use super::*;

    fn right(key: &str) -> Option<&'static [Kind]> {
        let all = corpus::all().into_iter().flat_map(|program| situation::of(program, 2));
        let situation = all.into_iter().find(|situation| situation.key(2) == key).expect(key);
        of(&situation).map(|truth| truth.right)
    }

    #[test]
    fn headlines_follow_from_what_the_program_does() {
        assert_eq!(right("barriers n=2 hog"), Some(&[Kind::CpuHog][..]));
        assert_eq!(right("barriers n=2 quota"), Some(&[Kind::QuotaThrottled][..]));
        assert_eq!(right("barriers n=2 bound"), Some(&[Kind::PinnedTooFew][..]));
        assert_eq!(
            right("bound-openmpi n=2 plain"),
            Some(&[Kind::PinnedTooFew][..]),
            "the launcher binds it to a core"
        );
        assert_eq!(right("bound-openmpi n=1 plain"), None);
        assert_eq!((right("lammps n=2 bound"), right("lammps n=3 bound")), (None, Some(&[Kind::PinnedTooFew][..])));
        assert_eq!(right("imbalance n=2 plain"), Some(&[Kind::Imbalance][..]));
        assert_eq!(right("kernel-cg n=3 active"), Some(TOO_MANY));
        assert_eq!(right("stencil-clang n=3 active"), Some(SPINNING));
        assert_eq!(right("serial-gcc n=2 plain"), Some(&[Kind::Serial][..]));
        assert_eq!(right("kernel-cg n=3 passive"), Some(SLEEPING));
        assert_eq!(right("known-mutex n=2 plain"), Some(&[Kind::LockConvoy][..]));
        assert_eq!(right("known-write n=1 plain"), Some(&[Kind::DiskBound][..]));
        assert_eq!(right("gzip n=1 plain"), Some(NOTHING));
        assert_eq!(right("kernel-cg n=2 plain"), None, "whether its work is equal is not known");
    }

    #[test]
    fn a_quarter_of_the_corpus_or_more_makes_a_claim() {
        let all: Vec<_> = corpus::all().into_iter().flat_map(|program| situation::of(program, 2)).collect();
        let claims = all.iter().filter(|situation| of(situation).is_some()).count();
        assert!(4 * claims >= all.len(), "{claims} of {}", all.len());
    }
}
