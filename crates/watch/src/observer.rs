//! The interface of all backends. The session calls it; a backend itself makes no decisions.

use std::io;
use std::os::fd::BorrowedFd;

use wire::{Backend, Event, Record, Sample, TraceEvent};

/// Why an observer cannot go on. Its text says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel or the user's rights do not allow this backend.
    #[error("{what}: {why}")]
    Unavailable {
        /// What was attempted.
        what: String,
        /// Why the backend is unavailable, and what to do.
        why: String,
    },
    /// The target does not exist, or no longer exists.
    #[error("process {pid}: {why}")]
    NoTarget {
        /// Process id.
        pid: u32,
        /// Why the process cannot be observed.
        why: String,
    },
    /// A system call failed while observing.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// The error.
        source: io::Error,
    },
}

impl WatchError {
    /// Returns the error of a call that failed while observing. `what` is what was attempted.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> WatchError {
        WatchError::System { what: what.into(), source: source.into() }
    }
}

/// What an observer has received since its last tick: scheduler events, samples and trace events.
#[derive(Debug, Default)]
pub struct Intake {
    /// Scheduler events, from backends that do not keep clocks (accounts of thread time) themselves. Events are in order of time for
    /// each CPU, but not across CPUs.
    pub events: Vec<Event>,
    /// Samples of tracked threads. Each sample has the address of the instruction in user code that the thread was executing.
    pub samples: Vec<Sample>,
    /// Trace events, if a trace is wanted. They are in order of time for each CPU, but not across CPUs.
    pub trace_events: Vec<TraceEvent>,
}

/// A way to observe what the scheduler does to threads.
///
/// Life cycle: making an observer probes the system and loads what is needed. `enrol` begins to track the target. `tick` must be called at least
/// every 100 ms, and whenever `readiness` is readable. `snapshot` may be called at any time. `finish` ends the observation.
pub trait Observer {
    /// Returns the backend.
    fn backend(&self) -> Backend;

    /// Tracks process `pid` with all its threads, and with all threads that they create from now on. Also tracks their child processes, unless the
    /// observer was made to track none.
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError>;

    /// Tracks a freshly forked child that still waits before its exec. If the backend can arrange it, the child's account begins at its next
    /// switch-in.
    fn enrol_launched(&mut self, pid: u32) -> Result<(), WatchError> {
        self.enrol(pid)
    }

    /// Tracks single threads, for targets that are not whole processes (a cgroup). Returns false if this backend can only track whole processes.
    fn enrol_threads(&mut self, _tids: &[u32]) -> Result<bool, WatchError> {
        Ok(false)
    }

    /// Returns the CPU time that observing took in processes other than the caller's, nanoseconds, up to the last record.
    fn cpu_elsewhere_ns(&self) -> u64 {
        0
    }

    /// Returns a file descriptor that becomes readable when `tick` should be called early.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;

    /// Appends to `intake` the events and samples that have arrived since the last call.
    fn tick(&mut self, intake: &mut Intake) -> Result<(), WatchError>;

    /// Returns the tracked threads that are alive now, as (tgid, tid, name).
    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError>;

    /// Returns what `finish` would return now, and continues observing. Puts the remaining events into `intake`, like `tick`. If the backend reports
    /// events and no clocks (accounts of thread time), the caller computes the clocks and adds them to the record.
    fn snapshot(&mut self, intake: &mut Intake) -> Result<Record, WatchError>;

    /// Stops observing and returns the results. Puts the remaining events into `intake`, like `tick`. If the backend reports events and no clocks
    /// (accounts of thread time), the caller computes the clocks and adds them to the record.
    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError>;
}
