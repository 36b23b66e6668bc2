//! Traces out: what happened when, for the viewers that people use.
//!
//! - [`sorter`]: moments in order, more than fit in memory.
//! - [`recording`]: a session's moments with what is needed to understand them.
//! - [`session`]: a recording in a file, and back.
//! - [`perfetto`]: for the Perfetto UI. The file is also what `cox report` reads: the recording is in it, where viewers do not look.
//! - [`paraver`]: for Paraver.

pub mod paraver;
pub mod perfetto;
pub mod recording;
pub mod session;
pub mod sorter;

pub use recording::{Cast, Recording, Told};
