//! Threads that slept all the time. Many programs have such threads; the page only shows how many there are and on what they slept.

use std::collections::{HashMap, HashSet};

use advise::numbers::counted;
use ledger::Thread;
use ledger::causes::wording;
use ledger::figures::{Amount, ByCause};
use ledger::summary::Sums;
use wire::Cause;

use crate::round::{percent, permille};

/// A thread counts as one that slept all the time if it was blocked for at least this part of its life, tenths of a percent.
pub(super) const ALL_THE_TIME: u64 = 995;

/// If fewer rows than this slept all the time, they are not folded up.
const MANY: usize = 2;

/// Returns whether the threads of `sums` slept all the time.
pub(super) fn slept(sums: &Sums) -> bool {
    sums.wall_ns > 0 && u128::from(sums.blocked_ns) * 1000 >= u128::from(sums.wall_ns) * u128::from(ALL_THE_TIME)
}

/// Returns the rows whose threads slept all the time; the page folds them up. `lives`: the threads of each row. Returns no rows if fewer than
/// [`MANY`] rows slept all the time, or if no other row would be left.
pub(super) fn rows(lives: &HashMap<Option<u32>, Vec<&Thread>>) -> HashSet<Option<u32>> {
    let asleep = lives.iter().filter(|(_, lives)| slept(&Sums::over(lives.iter().copied())));
    let asleep: HashSet<Option<u32>> = asleep.map(|(row, _)| *row).collect();
    if (MANY..lives.len()).contains(&asleep.len()) { asleep } else { HashSet::new() }
}

/// Formats the number of threads: `12 threads slept all the time`.
pub(super) fn headline(threads: u64) -> String {
    format!("{} slept all the time", counted(threads, "thread"))
}

/// Formats what the threads slept on: `asleep on a futex 91.0 %, slept 9.0 %`.
pub(super) fn causes<'s>(of: impl Iterator<Item = &'s Sums>) -> String {
    let mut causes = ByCause::default();
    for sums in of {
        causes.sum(&sums.blocked_by);
    }
    let mut causes: Vec<(Cause, u64)> = causes.some().collect();
    causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let shares = permille(&causes.iter().map(|(_, ns)| *ns).collect::<Vec<_>>());
    let printed = causes.iter().zip(shares).filter(|(_, share)| *share > 0);
    let words = printed.map(|((cause, _), share)| format!("{} {}", wording(*cause).label, percent(share)));
    words.collect::<Vec<_>>().join(", ")
}
