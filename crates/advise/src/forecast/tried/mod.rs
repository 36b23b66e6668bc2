//! Advice without a forecast: the program is run several times in each way, and the times are compared.
//!
//! 1. One observed run shows what kind of program it is. From that follow the [`starts`]; the commands of launchers are rewritten by [`launcher`].
//! 2. The runs take turns: each round runs every way once ([`order`](order::order)). Ways that are far slower are not tried again.
//! 3. [`answer`] compares the way with the shortest times with every other way, round by round. It is called the fastest only if the 95 % intervals of all
//!    these ratios are below 1. As long as another one may be faster by more than 5 %, the [`contenders`] run twice and four times as often.
//!
//! *Rejected:* trying short prefixes of the program instead of whole runs. Nothing tells cox where two ways have done the same part of the work.

mod answer;
pub mod launcher;
pub mod order;
pub mod starts;

pub use answer::{Answer, Timed, Tried, answer, contenders};
pub use starts::{Program, Start, Ways, ways};

/// If the rounds that were asked for do not decide, there are so many times as many for those ways that may be fastest. cox compares
/// the times only then, four times at most: the more often it looked, the more often it would find a difference by chance.
pub const MORE_ROUNDS: [usize; 4] = [1, 2, 4, 8];
/// The shortest run whose ways are compared, in nanoseconds. In shorter ones, starting the program takes much of the time.
pub const LEAST_NS: u64 = 100_000_000;
