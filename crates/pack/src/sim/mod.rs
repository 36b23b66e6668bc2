//! A machine in memory, for the same policy: discrete events, a clock of its own, and one random seed.
//!
//! - [`program`]: threads that work and meet at barriers, and how they wait there.
//! - [`queue`]: one CPU's run queue, after the kernel's EEVDF.
//! - [`machine`]: CPUs, events, and the policy's orders carried out.
//!
//! What is modelled, because it decides what packing wins: threads that wait by spinning, by yielding, asleep,
//! or first one and then the other; a tick-driven scheduler that owes threads their due; pulling work when a
//! CPU runs idle; the costs of switches, of the controller's ticks and orders, of moving to another cache.
//! What is not: memory bandwidth, interrupts, other programs.

pub mod machine;
pub mod program;
pub mod queue;

pub use machine::{Costs, Outcome, Packing, run};
pub use program::{Program, Wait};
