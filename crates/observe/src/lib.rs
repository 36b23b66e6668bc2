//! Observing as an engine of a session. It changes nothing; its result is a [`wire::Record`].
//!
//! - [`backend`]: the best backend that works here, and why better ones were passed over.
//! - [`engine`]: the engine.
//! - [`recording`]: trace events.
//! - [`hidden`]: programs whose threads perf cannot follow.

pub mod backend;
pub mod engine;
pub mod hidden;
pub mod recording;

pub use backend::Choice;
pub use engine::{Observed, Observing};
pub use recording::Recorder;
