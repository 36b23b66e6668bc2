//! Account + facts → verdict: what cost the program its time, and what to try next. Pure: no I/O,
//! no clock, no unsafe.
//!
//! How a verdict is made:
//!  1. `adding` adds up what the rules look at ([`picture`]), and says what the backend cannot see.
//!  2. `dividing` divides the waiting for other threads among its possible reasons: unequal work, and
//!     delays (a CPU taken, a disk) that made others wait in turn. Each thread-second has one reason.
//!  3. Each rule in `rules` looks for one situation and says how many thread-seconds it could give
//!     back, with a range of what to expect (see [`expected`]) that never exceeds a bound.
//!  4. The finding that could give back most is the headline; the others follow. What was lost or
//!     could not be seen is said before anything else, and then less is claimed.
#![forbid(unsafe_code)]

mod adding;
mod blame;
mod dividing;
mod elsewhere;
pub mod expected;
pub mod facts;
pub mod figures;
mod floor;
pub mod forecast;
mod limits;
pub mod numbers;
mod openmp;
pub mod picture;
mod rules;
pub mod thresholds;
pub mod verdict;

pub use facts::Facts;
pub use verdict::{Confidence, Evidence, Kind, NextStep, Sentence, Verdict};

use ledger::Account;

/// What cost the program of `account` its time, judged together with what the session knows about
/// the machine and the program's surroundings.
pub fn advise(account: &Account, facts: &Facts) -> Verdict {
    judge(&picture::Picture::new(account, facts))
}

/// [`advise`] from sums that are made already.
pub fn judge(picture: &picture::Picture<'_>) -> Verdict {
    rules::judge(picture)
}
