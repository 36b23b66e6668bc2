//! Thread packing: a program with N threads runs on fewer than N CPUs, as fast as these CPUs allow.
//!
//! - [`policy`]: decides which threads share a CPU, and whether to rotate threads at all. Pure code, used live and in
//!   the simulator.
//! - [`cpus`]: chooses the CPUs of a pack.
//! - [`sim`]: runs the policy on a simulated machine.
//! - [`trial`]: lets the kernel and the policy place the threads in turn, within one run, to compare the two.
//! - [`engine`]: packing as an engine of a session.
//! - [`live`]: observes and moves the threads of a running program.
//!
//! The idea of packing, its progress and locality awareness and its control of the period are PALM's (Park et al.,
//! IPDPS 2021). CPU slots, counting spinning as waiting instead of progress, and the rule *do no harm* are ours.

#![deny(unsafe_code)]

pub mod cpus;
pub mod engine;
pub mod live;
pub mod policy;
pub mod sim;
pub mod trial;
