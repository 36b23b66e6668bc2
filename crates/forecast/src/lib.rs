//! Forecasts what noise costs a bulk-synchronous program on many nodes, from a recording of the noise of one node.
//! The code is pure: no I/O, no clock, and the same answer for the same seed.
//!
//! A program that synchronises after a work W ends each phase when the slowest node does. Its slowdown on N nodes is
//! S(N, W) = 1 + E\[largest of N delays\] / (W + C), where C is the cost of a synchronisation. In the replay, a
//! synchronisation takes no time: noise during it costs nothing.
//!
//!  1. [`recording`]: the detours of all CPUs of a node on one time axis. A *node vector*, all CPUs at the same instant, is
//!     the unit: ticks that hit the CPUs of a node together are not independent.
//!  2. [`replay`]: delays of chained phases of one node, on a [`timeline`]. [`observed`] counts how many of them are
//!     independent.
//!  3. [`nodes`]: begins of phases depend on the slowest of the N nodes, so delays of a node do, too.
//!  4. [`levels`]: the delays as a law. Above a threshold, [`tail`] fits one, or [`cluster`] finds that the largest delays
//!     are of one size.
//!  5. [`largest`]: the expected largest of N delays, with a 95 % interval, and whether it is measured or extrapolated;
//!     [`bound`]: *at least*, which needs no model of the tail.
//!  6. [`answer`]: the slowdown for each work and number of ranks, without each cause, and with all nodes' noise at the
//!     same time. [`mod@leave`]: how many CPUs to leave to the system.
//!
//! [`causes`]: those that differ only by the number of a thread are one cause.
//!
//! [`laws`] assesses steps 4 and 5 on laws with known answers. What a recording does not contain, no estimate knows: a
//! cause that hits once an hour is in none of a minute.
#![forbid(unsafe_code)]

pub mod answer;
pub mod bound;
pub mod causes;
mod chain;
pub mod cluster;
mod draws;
mod excesses;
mod lane;
pub mod largest;
pub mod laws;
pub mod leave;
pub mod levels;
pub mod nodes;
pub mod observed;
pub mod pareto;
mod posterior;
pub mod question;
pub mod recording;
pub mod replay;
pub mod tail;
pub mod timeline;

pub use answer::{AtWork, Forecast, Slowdown, Without, forecast};
pub use largest::{Estimate, Kind};
pub use leave::{Choice, Comparison, Left, Verdict, leave};
pub use question::{Question, Unanswerable};
pub use recording::{Cpu, Detour, Invalid, Recording};
