//! What every backend can do. The session drives it; nothing here decides anything.

use std::os::fd::BorrowedFd;

use wire::{Backend, Event, Moment, Record, Sample};

/// Why an observer cannot go on. The text says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel or the user's rights do not allow this backend.
    #[error("{what}: {why}")]
    Unavailable {
        /// What was tried.
        what: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A target that is not there (any more).
    #[error("process {pid}: {why}")]
    NoTarget {
        /// Process id.
        pid: u32,
        /// Why.
        why: String,
    },
    /// A system call failed while observing.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The error.
        source: std::io::Error,
    },
}

/// What has arrived since the last look.
#[derive(Debug, Default)]
pub struct Intake {
    /// Scheduler events, for backends that do not keep clocks themselves; in time order per CPU only.
    pub events: Vec<Event>,
    /// User instruction pointers.
    pub samples: Vec<Sample>,
    /// What happened when, where a trace is wanted; in time order per CPU only.
    pub moments: Vec<Moment>,
}

/// One way to see what the scheduler does to threads.
///
/// Life cycle: made (probed and loaded) → `enrol` the target → `tick` at least every 100 ms and
/// whenever `readiness` is readable, and a `snapshot` at any time → `finish`.
pub trait Observer {
    /// Which backend this is.
    fn backend(&self) -> Backend;

    /// Make process `pid` with all its threads members, with all that they create from now on
    /// (without child processes if the observer was made so).
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError>;

    /// Make a freshly forked child a member that waits, before its exec, to be let go: where the backend can, its account begins
    /// when it is next switched in.
    fn enrol_launched(&mut self, pid: u32) -> Result<(), WatchError> {
        self.enrol(pid)
    }

    /// Make single threads members, for targets that are not whole processes (a cgroup). Returns false when this backend
    /// only knows whole processes.
    fn enrol_threads(&mut self, _tids: &[u32]) -> Result<bool, WatchError> {
        Ok(false)
    }

    /// CPU time that observing took in processes other than the caller's; known after `finish`.
    fn cpu_elsewhere_ns(&self) -> u64 {
        0
    }

    /// A file descriptor that becomes readable when `tick` should be called early.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;

    /// Move what has arrived into `intake`.
    fn tick(&mut self, intake: &mut Intake) -> Result<(), WatchError>;

    /// Members alive now, as (tgid, tid, name).
    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError>;

    /// Yield what `finish` would if it were called now, and go on. Remaining events are pushed as in `tick`; clocks made
    /// from events are the caller's to add.
    fn snapshot(&mut self, intake: &mut Intake) -> Result<Record, WatchError>;

    /// Stop observing and yield everything. Remaining events are pushed as in `tick`; clocks made
    /// from events are the caller's to add.
    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError>;
}
