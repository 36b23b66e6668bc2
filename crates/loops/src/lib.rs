//! Loop schedules: which thread of a team executes which iterations of a parallel loop.
//! The code is pure: no I/O, no clock, no system call, and the same answer for the same input.
//!
//! Terms: a loop has N *iterations*, numbered from 0. A team of P *threads* executes them. A *chunk* is a range of
//! iterations that a thread gets at once. A *request* is a thread's question for its next chunk. An *instance* is one
//! execution of the loop; programs execute the same loop many times.
//!
//! How data flows:
//!
//!  1. [`kind`], [`schedule`]: the text that a user writes, as `fac2` or `gss,16`, becomes a [`Schedule`]. [`options`]: the
//!     same for all that a user asks for.
//!  2. [`inputs`]: some schedules need facts about the loop, such as the mean time of an iteration. A run with
//!     [`Kind::Profile`] measures them.
//!  3. [`plan`]: schedule, number of iterations, number of threads and inputs become a [`Plan`]. It is made once and
//!     used for all instances of the loop. The caller shares it among the threads, with one counter per instance.
//!  4. A request asks the plan. There are five ways, and none of them needs a lock:
//!     - [`blocks`]: a thread's block depends on its number only. Nothing is shared.
//!     - [`fixed`], [`table`]: the caller adds 1 to the shared counter (one fetch-add). The old value k is the number
//!       of the chunk, and `chunk(k)` returns its iterations.
//!     - [`hybrid`]: first a block, then chunks of a table.
//!     - [`steal`]: one word per thread, changed by compare-and-swap.
//!     - [`adaptive`]: the shared counter holds the number of iterations *given out*. The plan computes the next size
//!       from it, and the caller adds this size by compare-and-swap.
//!  5. Adaptive schedules measure: a thread adds each chunk that it has finished to its own [`statistics`], and
//!     publishes the result. Other threads read it without synchronisation; it may be a little old. [`cpu_share`]
//!     keeps apart how fast a thread is and how much of its CPU it gets. [`history`] keeps what is measured from one
//!     instance to the next.
//!  6. [`figures`]: what imbalance cost, and how much of it the kernel's scheduler caused. [`last_slice`]: who gets no
//!     more work at the end of a loop.
//!     [`advice`]: which other schedule would help.
//!  7. [`selection`]: which schedule of a portfolio is the fastest for a loop.
//!     [`saved`]: a file with what was selected or measured.
//!  8. [`sim`]: a simulator that drives the schedules, for tests and decisions about policies.
#![forbid(unsafe_code)]

pub mod adaptive;
pub mod advice;
pub mod blocks;
pub mod cpu_share;
pub mod figures;
pub mod fixed;
pub mod history;
pub mod hybrid;
pub mod inputs;
pub mod invalid;
pub mod kind;
pub mod last_slice;
pub mod options;
pub mod plan;
mod rules;
pub mod saved;
pub mod schedule;
pub mod selection;
pub mod sim;
pub mod statistics;
pub mod steal;
pub mod table;

pub use adaptive::Adaptive;
pub use inputs::{Inputs, Need};
pub use invalid::Invalid;
pub use kind::Kind;
pub use plan::Plan;
pub use schedule::Schedule;
pub use statistics::{Finished, Pace, Spread, Statistics, Timing};
