//! Writes traces for viewers, and stores recordings in them. Reads and writes noise in the formats of other programs.
//!
//! - [`sorter`]: sorts more trace events than fit in memory.
//! - [`recording`]: the trace events of a session, with the data needed to interpret them.
//! - [`session`]: writes a recording to a file and reads it back.
//! - [`perfetto`]: traces for the Perfetto UI. `cox report` reads the same file: it contains the recording in fields
//!   that viewers ignore.
//! - [`paraver`]: traces for Paraver.
//! - [`noise`]: detours of CPUs, for Perfetto and Paraver. [`interruptions`]: what interrupted the threads of a recording.
//! - [`netgauge`]: traces of noise, which the simulator LogGOPSim replays. [`hlog`]: histograms of noise, as jHiccup writes them.

pub mod hlog;
pub mod interruptions;
mod lines;
pub mod netgauge;
pub mod noise;
pub mod paraver;
pub mod perfetto;
pub mod recording;
pub mod session;
pub mod sorter;

pub use interruptions::{Interruption, Interruptions};
pub use recording::{Recording, ReplayItem, ThreadTable};
