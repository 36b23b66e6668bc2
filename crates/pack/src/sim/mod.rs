//! A simulated machine for the policy: discrete events, simulated time, and one random seed.
//!
//! - [`program`]: threads that work and meet at barriers, and how they wait there.
//! - [`queue`]: the run queue of one CPU, after the kernel's EEVDF.
//! - [`machine`]: CPUs and events; carries out the policy's orders.
//!
//! The simulator models what decides the gain of packing: threads that wait by spinning, by yielding, asleep, or first
//! spinning and then asleep; a scheduler with ticks, which owes time to threads that had less than their share; idle
//! CPUs that pull threads; the cost of switches, of cox's decisions and changes of affinity masks, and of moving a
//! thread to another cache. It does not model memory bandwidth, interrupts and other programs.

pub mod machine;
pub mod program;
pub mod queue;

pub use machine::{Costs, Outcome, Packing, run};
pub use program::{Program, Wait};
