//! Account + facts → verdict: what cost the program its time, and what to try next. The crate is pure: no I/O, no clock, no unsafe.
//!
//! How a verdict is made:
//!  1. `adding` computes the sums that the rules look at ([`evidence`]) and records what the backend cannot see.
//!  2. `dividing` divides the waiting for other threads among its causes: unequal work, and delays (a CPU taken, a disk) that made other threads wait
//!     in turn. Each thread-second has one cause.
//!  3. Each rule in `rules` detects one situation and estimates how many thread-seconds can be saved. Its forecast is a range (see [`expected`]) that
//!     never exceeds a bound.
//!  4. The finding that can save the most time is the headline; the others follow. Losses of events and blind spots of the backend come first in the
//!     text, and they lower the confidence of the verdict.
#![forbid(unsafe_code)]

mod adding;
mod alone;
mod blame;
mod dividing;
pub mod efficiency;
mod elsewhere;
pub mod evidence;
pub mod expected;
pub mod facts;
pub mod figures;
mod floor;
pub mod forecast;
mod launchers;
mod limits;
pub mod numbers;
mod openmp;
mod pools;
mod rules;
pub mod thresholds;
pub mod verdict;

pub use facts::Facts;
pub use rules::judge;
pub use verdict::{CitedFigure, Confidence, Kind, Loss, NextStep, Sentence, Verdict};
