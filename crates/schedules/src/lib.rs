//! Other loop schedules as an engine of a session: cox loads `libcox_loops.so` into the program, and reads afterwards what its loops did.
//!
//! Other crates do the work: `loops` decides who gets which iterations, and `preload-loops` is the library in the program.
//!
//! - [`engine`]: the engine.
//! - [`fitness`]: whether the loops of a program can change, as far as its file and its environment show.
//! - [`folder`]: where each process of the program writes its records.
//! - [`section`]: records become the report's section. `places`: addresses become functions and lines.
#![forbid(unsafe_code)]

pub mod engine;
pub mod fitness;
pub mod folder;
mod places;
pub mod section;

pub use engine::Scheduling;
