//! A session: one target, some engines, one life cycle.
//!
//! - [`target`]: programs to start, something that runs, or the machine.
//! - [`engine`]: the contract that every engine keeps, and what a front door gets from it.
//! - [`engines`]: the engines of a session, a list; each has its failure and its section under its own name.
//! - [`life`]: the life cycle, from the probe to the sections.
//! - [`launch`]: starting a program so that engines have taken hold of it before its first instruction; [`preload`] is what may be inside.
//! - [`control`]: how another process gives an engine a command.

pub mod control;
pub mod engine;
pub mod engines;
pub mod launch;
pub mod life;
pub mod peer;
pub mod preload;
mod signals;
pub mod sigpipe;
mod streams;
pub mod target;

pub use engine::{Ended, Engine, Launched, NoCommand};
pub use engines::{Engines, Findings};
pub use launch::LaunchError;
pub use life::{Limits, Live, Outcome, launch_error, run};
pub use target::{Attached, Exit, Launch, Subject, Target};
