//! Which other schedule would help a loop, from what it did: rules, not measurements. `auto` measures.
//!
//! | what costs | other schedule |
//! |---|---|
//! | neither imbalance nor requests cost [`LITTLE`] of the time | none |
//! | requests cost most | larger chunks: `fac2`, whose number of chunks grows only with the logarithm of the iterations |
//! | imbalance, most of it caused by the OS | one that gives the rest to threads that run: `fac2`, or smaller chunks than now |
//! | imbalance, with blocks or large first chunks (`static`, `gss`) | `fac2`, whose first chunks are half as large as those of `gss` |
//! | imbalance, with `fac2` or stealing | `ss`: the times of iterations grow towards the end |
//! | imbalance, with `ss` | none: single iterations are too long |

use crate::kind::Kind;

/// Part of the time below which imbalance and requests are not worth another schedule.
pub const LITTLE: f64 = 0.02;

/// What a loop did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Did {
    /// The schedule that it had.
    pub schedule: Kind,
    /// Threads of the team.
    pub threads: u64,
    /// Iterations of an instance.
    pub iterations: f64,
    /// Part of the time that imbalance cost, 0 to 1.
    pub imbalance: f64,
    /// Part of the time that the OS caused, 0 to 1; 0 if unknown.
    pub os_caused: f64,
    /// Part of the threads' time that requests took, 0 to 1; 0 if unknown.
    pub requests: f64,
}

/// What would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Little can be gained.
    Nothing,
    /// This schedule.
    Schedule(Kind),
    /// No schedule: there are fewer iterations than two for each thread.
    TooFewIterations,
    /// No schedule: the loop already ends in single iterations, so they themselves are too long.
    LongIterations,
    /// The OS caused it, and this schedule reacts to that better than others. Fewer threads or quiet CPUs would help more.
    TheOs(Kind),
}

/// Returns what would help a loop.
#[must_use]
pub fn advise(did: &Did) -> Advice {
    if did.threads < 2 || did.imbalance.max(did.requests) < LITTLE {
        return Advice::Nothing;
    }
    if did.requests > did.imbalance {
        return if did.schedule == Kind::Fac2 { Advice::Nothing } else { Advice::Schedule(Kind::Fac2) };
    }
    if did.iterations < 2.0 * did.threads as f64 {
        return Advice::TooFewIterations;
    }
    let smaller = if matches!(did.schedule, Kind::Ss | Kind::Fac2 | Kind::StaticSteal) { Kind::Ss } else { Kind::Fac2 };
    if did.os_caused > did.imbalance / 2.0 {
        return Advice::TheOs(smaller);
    }
    if did.schedule == Kind::Ss { Advice::LongIterations } else { Advice::Schedule(smaller) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BALANCED: Did = Did {
        schedule: Kind::Static,
        threads: 4,
        iterations: 1000.0,
        imbalance: 0.01,
        os_caused: 0.0,
        requests: 0.001,
    };

    #[test]
    fn each_rule_has_its_case() {
        let with = |schedule, imbalance| Did { schedule, imbalance, ..BALANCED };
        assert_eq!(advise(&BALANCED), Advice::Nothing);
        assert_eq!(advise(&Did { threads: 1, ..with(Kind::Static, 0.9) }), Advice::Nothing);
        assert_eq!(advise(&with(Kind::Static, 0.2)), Advice::Schedule(Kind::Fac2));
        assert_eq!(advise(&with(Kind::Gss, 0.2)), Advice::Schedule(Kind::Fac2));
        assert_eq!(advise(&with(Kind::Fac2, 0.2)), Advice::Schedule(Kind::Ss));
        assert_eq!(advise(&with(Kind::Ss, 0.2)), Advice::LongIterations);
        assert_eq!(advise(&Did { requests: 0.3, ..with(Kind::Ss, 0.1) }), Advice::Schedule(Kind::Fac2));
        assert_eq!(advise(&Did { iterations: 7.0, ..with(Kind::Static, 0.2) }), Advice::TooFewIterations);
        assert_eq!(advise(&Did { os_caused: 0.15, ..with(Kind::Static, 0.2) }), Advice::TheOs(Kind::Fac2));
        assert_eq!(advise(&Did { os_caused: 0.15, ..with(Kind::Ss, 0.2) }), Advice::TheOs(Kind::Ss));
    }
}
