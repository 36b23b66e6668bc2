//! Observing as an engine of a session: it changes nothing, and what it finds is a [`wire::Record`].
//!
//! - [`backend`]: the best backend that works here, and why better ones were passed over.
//! - [`engine`]: the engine.
//! - [`recording`]: keeping what happened when, for traces.
//! - [`hidden`]: programs whose threads perf does not follow.

pub mod backend;
pub mod engine;
pub mod hidden;
pub mod recording;

pub use backend::Choice;
pub use engine::{Observed, Observing};
pub use recording::Recorder;
