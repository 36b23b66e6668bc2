//! The interfaces between cox, its BPF programs and the preload library: C headers (`include/cox/wire.h`, `include/cox/preload.h`, …) and their
//! Rust mirrors.
//!
//! - [`layout`]: the structs that BPF writes and user space reads, byte for byte.
//! - [`event`]: scheduler events from the `perf` backend and from trace readers.
//! - [`preload`]: the memory that the preload library shares with cox.
//! - [`cells`]: reads the packed time integrals of `include/cox/cells.h`.
//! - [`latency`]: the histograms of the lengths of waits, blocks and time slices.
//! - [`log_linear`]: the buckets of histograms of lengths.
//! - [`loop_records`]: what the loops of a process did.
//! - [`noise`]: what the kernel does instead of running a thread.
//! - [`trace_event`]: trace events, in 24 bytes each.
//! - [`record`]: the result of an observation.

pub mod cells;
pub mod event;
pub mod latency;
pub mod layout;
pub mod log_linear;
pub mod loop_records;
pub mod noise;
pub mod preload;
pub mod record;
pub mod trace_event;
pub mod umt;

pub use event::{Event, EventKind};
pub use latency::{Interval, LatencyCount};
pub use layout::{
    CAUSES, CPU_SLOTS, Cause, Clock, Cpu, CpuKind, MASK_CLASSES, MASK_WORDS, MAX_CPUS, MIGRATIONS, Migration, Pair,
    PairSum, Preemptor, Sample, State, ThreadSnapshot, TrackedThreads,
};
pub use record::{Backend, Living, Losses, Record, SampleSite, Waiting};
pub use trace_event::{Gap, LATEST_NS, Left, MOST_CPUS, TraceEvent, What};
