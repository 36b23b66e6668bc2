//! Thread snapshots: the present state of each thread of a program. A snapshot says whether the thread is running, queued or blocked, how long it
//! has run, and at which instruction it last left its CPU. They are for code that steers threads and asks thousands of times a second.
//!
//! There are two ways to get them:
//!
//! - `traced`: BPF writes a table on each switch. Exact, and read without a system call. Needs CAP_BPF and CAP_PERFMON, in this process or in a
//!   helper process.
//! - `polled`: each snapshot is read from /proc on demand. Works for any user's own programs. The snapshot of a running thread shows its state at
//!   its last switch or at the kernel's last timer tick, and not its place in the code.
//!
//! A snapshot has no history. Accounts of where time went come from [`crate::bpf`].

mod others;
mod polled;
mod traced;

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::{Backend, Sample, State, ThreadSnapshot};

pub use self::others::{Before, Other, Others};
use self::polled::Polled;
pub use self::polled::STAY_OPEN;
pub use self::traced::{Mapped, Traced};
use crate::observer::WatchError;

/// How the state of threads is observed for snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Threads are observed by BPF if possible, otherwise by /proc.
    #[default]
    Best,
    /// Threads are observed by BPF. If that is not possible, [`start`] fails.
    Traced,
    /// Threads are observed by /proc.
    Polled,
}

/// The thread snapshots of a program. Either BPF programs write them, which are loaded in this process ([`Traced`]) or in a helper process with the
/// necessary privilege, or they are read from /proc.
pub trait ThreadSnapshots {
    /// Returns the backend that keeps the snapshots.
    fn backend(&self) -> Backend {
        Backend::Bpf
    }

    /// Starts to keep a snapshot for each thread of a process. Threads that the process creates later get a snapshot when they are created, or
    /// when [`ThreadSnapshots::poll`] finds them.
    ///
    /// # Errors
    /// If the kernel refuses the walk over the process's threads, or if the process is hidden from this user.
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError>;

    /// Looks for new threads, if the backend has to find them itself (/proc), and brings the snapshots of all threads up to date. Call it every 10 to
    /// 20 ms.
    ///
    /// # Errors
    /// If /proc cannot be read.
    fn poll(&mut self) -> Result<(), WatchError> {
        Ok(())
    }

    /// Like [`ThreadSnapshots::poll`], without the minimum pause between polls. For the last poll: threads that it does not find are never found.
    ///
    /// # Errors
    /// If /proc cannot be read.
    fn poll_at_once(&mut self) -> Result<(), WatchError> {
        Ok(())
    }

    /// Starts sampling on these CPUs, with a mean period of `mean_ns`. With no CPUs, stops sampling. Without effect on /proc snapshots.
    ///
    /// # Errors
    /// If the kernel refuses the perf events.
    fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError>;

    /// Returns the samples of running tracked threads since the last call; none with /proc.
    ///
    /// # Errors
    /// If the samples cannot be read.
    fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError>;

    /// Returns the table, which any thread can read.
    fn table(&self) -> Arc<dyn Table>;

    /// Returns the CPU time of other programs on the CPUs that the packed threads share, by name, in descending order of CPU time. Without BPF
    /// programs in this process the result is an upper limit. If some thread of a process last ran on one of these CPUs, the process's CPU time on
    /// all CPUs is counted.
    fn others(&self) -> Others;
}

/// The table of all snapshots. It can be read from any thread.
pub trait Table: Send + Sync {
    /// Returns how many threads have got a snapshot so far. Snapshots are numbered from 0, and keep their numbers.
    fn given(&self) -> usize;

    /// Returns the number of threads that got no snapshot because the table was full.
    fn without_place(&self) -> u32;

    /// Returns the snapshot with a number below [`Table::given`]; `None` while its thread is being enrolled.
    fn read(&self, number: usize) -> Option<ThreadSnapshot>;

    /// Like [`Table::read`], but if reading costs a system call, returns the last value that was read.
    fn known(&self, number: usize) -> Option<ThreadSnapshot> {
        self.read(number)
    }

    /// Returns the processes of all threads that ever got a snapshot.
    fn processes(&self) -> BTreeSet<u32> {
        (0..self.given()).filter_map(|number| self.known(number)).map(|snapshot| snapshot.tgid).collect()
    }

    /// Returns the CPU time of all threads that ever got a snapshot, nanoseconds.
    fn run_ns(&self) -> u64 {
        let now_ns = arch::monotonic_ns();
        (0..self.given()).filter_map(|number| self.known(number)).map(|snapshot| run_ns(&snapshot, now_ns)).sum()
    }
}

/// A function that starts BPF programs in another process, because this process may not load programs. The arguments say whether child processes are
/// followed, and on which CPUs the CPU time of other programs is counted.
pub type Helping = fn(bool, &[u32]) -> Result<Box<dyn ThreadSnapshots>, WatchError>;

/// Makes an empty table. With `follow_children`, child processes of tracked processes are tracked. The CPU time of other programs on `cpus` is
/// counted. `helping` is used if this process may not load programs. Also returns why BPF was not used, if it was tried.
///
/// # Errors
/// `Unavailable` with the kernel's reason if this kernel or user cannot observe threads in this way.
pub fn start(
    sight: Sight,
    follow_children: bool,
    helping: Option<Helping>,
    cpus: &[u32],
) -> Result<(Box<dyn ThreadSnapshots>, Option<WatchError>), WatchError> {
    let polled = || Polled::new(follow_children, cpus).map(|polled| Box::new(polled) as Box<dyn ThreadSnapshots>);
    if sight == Sight::Polled {
        return Ok((polled()?, None));
    }
    let traced = match helping {
        Some(start) => start(follow_children, cpus),
        None => Traced::new(follow_children, None, cpus).map(|traced| Box::new(traced) as Box<dyn ThreadSnapshots>),
    };
    match traced {
        Ok(traced) => Ok((traced, None)),
        Err(why @ WatchError::Unavailable { .. }) if sight == Sight::Best => match polled() {
            Ok(polled) => Ok((polled, Some(why))),
            // If neither BPF nor /proc works, the error of BPF is the more useful advice.
            Err(_) => Err(why),
        },
        Err(error) => Err(error),
    }
}

/// Returns the run time of a thread up to `now_ns`, nanoseconds.
#[must_use]
pub fn run_ns(snapshot: &ThreadSnapshot, now_ns: u64) -> u64 {
    let stretch = if snapshot.since_ns == 0 { 0 } else { now_ns.saturating_sub(snapshot.since_ns) };
    snapshot.run_ns + stretch
}

/// Returns whether a thread has ended.
#[must_use]
pub fn has_ended(snapshot: &ThreadSnapshot) -> bool {
    State::from_wire(snapshot.state) == State::Dead
}
