//! A session: one target, several engines, one life cycle.
//!
//! - [`target`]: programs to start, running processes, or the machine.
//! - [`engine`]: the contract of an engine, and the result that a command gets from it.
//! - [`engines`]: the list of a session's engines, and the result and the error of each engine by its name.
//! - [`life`]: the life cycle, from the first check of the engines to their results.
//! - [`launch`]: starts a program after the engines have attached to it; [`preload`] adds the preload library.
//! - [`pauses`]: times between ticks of an engine that must not disturb the program.
//! - [`provenance`]: where and when a session takes place.
//! - [`control`]: commands from another process to an engine.

pub mod control;
pub mod engine;
pub mod engines;
pub mod launch;
pub mod life;
pub mod pauses;
pub mod peer;
pub mod preload;
pub mod provenance;
mod signals;
pub mod sigpipe;
mod streams;
pub mod target;

pub use engine::{Ended, Engine, Launched, NoCommand};
pub use engines::{Engines, Findings};
pub use launch::LaunchError;
pub use life::{Limits, Live, Outcome, launch_error, run};
pub use pauses::Pauses;
pub use target::{Attached, Exit, Launch, Subject, Target};
