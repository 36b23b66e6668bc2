//! Thread packing: N threads of a program on fewer CPUs, at the speed those CPUs allow.
//!
//! - [`policy`]: who runs, and whether to interfere at all. Pure; the same code live and simulated.
//! - [`cpus`]: which CPUs a pack has.
//! - [`sim`]: the policy on a machine in memory.
//! - [`trial`]: the kernel's way and the policy's in turn, in one run, to compare them.
//! - [`engine`]: all this as an engine of a session.
//! - [`live`]: sensors, the slots' tickers, and what moves real threads.
//!
//! The idea, and its parts progress and locality awareness and period control, are PALM's (Park et al.,
//! IPDPS 2021); the slots, spinning as progress, and *do no harm* are ours.

#![deny(unsafe_code)]

pub mod cpus;
pub mod engine;
pub mod live;
pub mod policy;
pub mod sim;
pub mod trial;
