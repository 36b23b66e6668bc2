//! Noise as an engine of a session: what a thread that computes loses on each CPU, and to what.
//!
//! 1. [`plan`]: which loop on which CPUs, for how long.
//! 2. [`clock`]: the CPUs' counter against CLOCK_MONOTONIC, before and after.
//! 3. [`team`]: one thread on each CPU; they begin and end together, and nothing of cox runs on their CPUs meanwhile.
//! 4. [`loops`]: what a thread does: selfish detour, fixed work quanta, fixed time quanta, work and barrier.
//! 5. [`source`]: where the kernel's events come from.
//! 6. [`counters`]: the kernel's own counters before and after, for the audit.
//! 7. [`findings`]: events and detours → causes, and the audit.
//! 8. [`engine`]: these steps in the life cycle of a session.
//!
//! [`program`] is an engine of its own: what takes time from the threads of a program, without any loop. So is [`phases`]: how long a program computes
//! between two synchronisations.

pub mod clock;
pub mod counters;
pub mod engine;
pub mod findings;
pub mod loops;
pub mod phases;
pub mod plan;
pub mod program;
pub mod source;
pub mod team;

pub use engine::{Measured, Noise};
pub use phases::OfPhases;
pub use plan::{Loop, Plan, Work};
pub use program::OfProgram;
