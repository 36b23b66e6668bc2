//! Selection: finds a schedule for a loop while the program runs, from a portfolio.
//!
//! Before each instance the caller asks for the index of a schedule, and after it records what the instance took. Four
//! methods ([`Method`]):
//!
//! - [`auto`]: the best so far executes the loop, and others challenge it for single instances, until they are clearly slower or faster.
//! - [`expert`]: rules from load imbalance and the cost of requests.
//! - [`exhaustive`]: tries each schedule once, and keeps the fastest.
//! - [`random`]: the larger the imbalance, the more likely is another schedule.
//!
//! The last three are as in Auto4OMP (Mohammed, Korndörfer, Eleliemy and Ciorba, IEEE Trans. Parallel Distrib. Syst.,
//! 2022), and serve for comparison. [`Verdict`] says what was selected, and why.

pub mod auto;
pub mod change;
pub mod exhaustive;
pub mod expert;
pub mod method;
pub mod random;
pub mod record;
pub mod requests;
pub mod verdict;

pub use method::Method;
pub use record::{Record, Select};
pub use requests::Requests;
pub use verdict::{Reason, Verdict};

use crate::kind::Kind;

/// Sorts values, and returns their median; there is at least one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[half - 1] + values[half]) / 2.0 } else { values[half] }
}

/// Schedules that need no profile, by their overhead, the lowest first (Auto4OMP's order).
pub const PORTFOLIO: [Kind; 13] = [
    Kind::Static,
    Kind::Mfsc,
    Kind::Tss,
    Kind::Gss,
    Kind::Fac2,
    Kind::StaticSteal,
    Kind::Ss,
    Kind::AwfB,
    Kind::AwfC,
    Kind::AwfD,
    Kind::AwfE,
    Kind::Af,
    Kind::Maf,
];
