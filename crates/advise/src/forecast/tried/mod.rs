//! Advice without a forecast: the program is run several times in each way, and the times are compared.
//!
//! 1. One observed run shows what kind of program it is. From that follow the [`starts`]; the commands of launchers are rewritten by [`launcher`].
//! 2. The runs take turns: each round runs every way once ([`order`](order::order)). Ways that are far slower are not tried again.
//! 3. [`answer`] compares the two fastest ways round by round. A way is called the fastest only if the 95 % interval of this ratio is below 1.
//!
//! *Rejected:* trying short prefixes of the program instead of whole runs. Nothing tells cox where two ways have done the same part of the work.

mod answer;
pub mod launcher;
pub mod order;
pub mod starts;

pub use answer::{Answer, Timed, Tried, answer};
pub use starts::{Program, Start, Ways, ways};

/// The shortest run whose ways are compared, in nanoseconds. In shorter ones, starting the program takes much of the time.
pub const LEAST_NS: u64 = 100_000_000;
