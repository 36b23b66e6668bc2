//! What cox, its BPF programs and (later) the preload library say to each other: one C header
//! (`include/cox/wire.h`) and its Rust mirror.
//!
//! - [`layout`]: the structs BPF keeps and user space reads, byte for byte.
//! - [`event`]: scheduler events as the `perf` backend and trace readers deliver them.
//! - [`cells`]: reading the packed time integrals of `include/cox/cells.h`.
//! - [`record`]: what an observer yields at the end of a session.
//! - `native` (feature): the C transition compiled natively, for oracle tests.

pub mod cells;
pub mod event;
pub mod layout;
#[cfg(feature = "native")]
pub mod native;
pub mod record;

pub use event::{Event, EventKind, Off};
pub use layout::{
    CAUSES, CPU_SLOTS, Cause, Clock, Cpu, CpuKind, Crew, MASK_CLASSES, MASK_WORDS, MAX_CPUS, MIGRATIONS, Migration,
    Pair, PairSum, Sample, Stand, State, Taker,
};
pub use record::{Backend, Living, Losses, Record, Spot, Waiting};
