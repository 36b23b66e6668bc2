//! Thread packing: a program with N threads runs on fewer than N CPUs, as fast as these CPUs allow.
//!
//! - [`policy`]: decides which threads share a CPU, and whether threads change their CPUs regularly (*rotate*) at all.
//!   Pure code, used live and in the simulator.
//! - [`cpus`]: chooses the CPUs on which a program is packed.
//! - [`sim`]: runs the policy on a simulated machine.
//! - [`trial`]: lets the kernel and the policy place the threads alternately within one run, to compare the two.
//! - [`engine`]: packing as an engine (one of the functions that a session of cox combines).
//! - [`live`]: observes and moves the threads of a running program.
//!
//! The idea of packing, its progress and locality awareness and its control of the scheduling period come from PALM
//! (Park et al., IPDPS 2021). Three parts are ours: the CPU slots (each thread is bound to one CPU at a time, and the
//! kernel shares this CPU among its threads); a spinning thread counts as waiting, not as making progress; and the rule
//! *do no harm*: threads are rotated only while the program gains from it.

#![deny(unsafe_code)]

pub mod cpus;
pub mod engine;
pub mod live;
pub mod policy;
pub mod sim;
pub mod trial;
