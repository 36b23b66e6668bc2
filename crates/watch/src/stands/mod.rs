//! Thread snapshots: the present state of each thread of a program. A snapshot says whether the thread is running, queued or blocked, how long it
//! has run, and at which instruction it last left its CPU. They are for code that steers threads and asks thousands of times a second.
//!
//! There are two ways to get them:
//!
//! - `traced`: BPF writes a table on each switch. Exact, and read without a system call. Needs CAP_BPF and CAP_PERFMON, in this process or in the
//!   process of a [`Tracer`].
//! - `polled`: each snapshot is read from /proc on demand. Works for any user's own programs. The snapshot of a running thread shows its state at
//!   its last switch or at the kernel's last timer tick, and not its place in the code.
//!
//! A snapshot has no history. Accounts of where time went come from [`crate::bpf`].

mod others;
mod polled;
mod traced;

use std::sync::Arc;

use wire::{Backend, Sample, Stand, State};

use self::others::Before;
pub use self::others::{Other, Others};
pub use self::polled::STAY_OPEN;
use self::polled::{Polled, Rows};
pub use self::traced::{Mapped, Traced};
use crate::observer::WatchError;

/// How threads are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Threads are observed by BPF if possible, otherwise by /proc.
    #[default]
    Best,
    /// Threads are observed by BPF, or not at all.
    Traced,
    /// Threads are observed by /proc.
    Polled,
}

/// The BPF programs that keep snapshots: loaded in this process ([`Traced`]), or in another process that has the privilege.
pub trait Tracer {
    /// Starts to keep a snapshot for each thread of a process. Threads that the process creates later get a snapshot when they are created.
    ///
    /// # Errors
    /// If the kernel refuses the walk over the process's tasks, or if the process is hidden from this user.
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError>;

    /// Starts sampling on these CPUs, with a mean period of `mean_ns`. With no CPUs, stops sampling.
    ///
    /// # Errors
    /// If the kernel refuses the perf events.
    fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError>;

    /// Returns the samples of running tracked threads since the last call.
    ///
    /// # Errors
    /// If the samples cannot be read.
    fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError>;

    /// Returns the table, which any thread can read.
    fn table(&self) -> Arc<Mapped>;

    /// Returns the CPU time of other programs on the pack's CPUs, by name; `None` if the programs do not count it.
    fn others(&self) -> Option<Vec<Other>> {
        None
    }
}

/// Starts a [`Tracer`] in another process, for a process that may not load programs. The argument says whether child processes are followed.
pub type Helping = fn(bool) -> Result<Box<dyn Tracer>, WatchError>;

/// The thread snapshots of a program, kept by BPF or read from /proc.
pub enum Stands {
    /// BPF keeps the snapshots. If another process has loaded the BPF programs, the CPU time of other programs on the pack's CPUs is read from
    /// /proc.
    Traced(Box<dyn Tracer>, Arc<Mapped>, Option<Before>),
    /// The snapshots are read from /proc.
    Polled(Box<Polled>),
}

/// The table of all snapshots. It can be read from any thread.
#[derive(Clone)]
pub enum Table {
    /// A table that BPF writes.
    Mapped(Arc<Mapped>),
    /// A table that is filled from /proc.
    Polled(Arc<Rows>),
}

impl Stands {
    /// Makes an empty table. With `follow_children`, child processes of tracked processes are tracked. The CPU time of other programs on `cpus` is
    /// counted. `helping` is used if this process may not load programs. Also returns why BPF was not used, if it was tried.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason if this kernel or user cannot observe threads in this way.
    pub fn new(
        sight: Sight,
        follow_children: bool,
        helping: Option<Helping>,
        cpus: &[u32],
    ) -> Result<(Stands, Option<WatchError>), WatchError> {
        let polled = || Polled::new(follow_children, cpus).map(|polled| Stands::Polled(Box::new(polled)));
        if sight == Sight::Polled {
            return Ok((polled()?, None));
        }
        let before = helping.is_some().then(|| Before::read(cpus));
        let traced = match helping {
            Some(start) => start(follow_children),
            None => Traced::new(follow_children, None, cpus).map(|traced| Box::new(traced) as Box<dyn Tracer>),
        };
        match traced {
            Ok(traced) => {
                let table = traced.table();
                Ok((Stands::Traced(traced, table, before), None))
            }
            Err(why @ WatchError::Unavailable { .. }) if sight == Sight::Best => match polled() {
                Ok(stands) => Ok((stands, Some(why))),
                // If neither BPF nor /proc works, the error of BPF is the more useful advice.
                Err(_) => Err(why),
            },
            Err(error) => Err(error),
        }
    }

    /// Returns the backend that keeps the snapshots.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self {
            Stands::Traced(..) => Backend::Bpf,
            Stands::Polled(_) => Backend::Proc,
        }
    }

    /// Starts to keep a snapshot for each thread of a process. Threads that the process creates later get a snapshot when they are created, or
    /// when [`Stands::poll`] finds them.
    ///
    /// # Errors
    /// If the kernel refuses the walk over the process's threads.
    pub fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        match self {
            Stands::Traced(traced, ..) => traced.enrol(pid),
            Stands::Polled(polled) => polled.enrol(pid),
        }
    }

    /// Looks for new threads, where the kernel does not report them. Call it every 10 to 20 ms.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn poll(&mut self) -> Result<(), WatchError> {
        match self {
            Stands::Traced(..) => Ok(()),
            Stands::Polled(polled) => polled.poll(),
        }
    }

    /// Like [`Stands::poll`], without the minimum pause between polls. For the last poll: threads that it does not find are never found.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn poll_at_once(&mut self) -> Result<(), WatchError> {
        match self {
            Stands::Traced(..) => Ok(()),
            Stands::Polled(polled) => polled.poll_at_once(),
        }
    }

    /// Returns how many snapshots have been given out. They are numbered from 0, and keep their numbers.
    #[must_use]
    pub fn given(&self) -> usize {
        match self {
            Stands::Traced(_, table, _) => table.given(),
            Stands::Polled(polled) => polled.given(),
        }
    }

    /// Returns the number of threads that got no snapshot because the table was full.
    #[must_use]
    pub fn without_place(&self) -> u32 {
        match self {
            Stands::Traced(_, table, _) => table.without_place(),
            Stands::Polled(polled) => polled.without_place(),
        }
    }

    /// Starts sampling on these CPUs, with a mean period of `mean_ns`. With no CPUs, stops sampling. Without effect on /proc snapshots.
    ///
    /// # Errors
    /// If the kernel refuses the perf events.
    pub fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError> {
        match self {
            Stands::Traced(traced, ..) => traced.sample_on(cpus, mean_ns),
            Stands::Polled(_) => Ok(()),
        }
    }

    /// Returns the samples of running tracked threads since the last call; none with /proc.
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        match self {
            Stands::Traced(traced, ..) => traced.take_samples(),
            Stands::Polled(_) => Ok(Vec::new()),
        }
    }

    /// Returns the CPU time of other programs on the CPUs of [`Stands::new`], by name, in descending order of CPU time. With /proc it is an upper
    /// limit: the whole CPU time of processes that have a thread that last ran on one of these CPUs, on whatever CPUs they ran before.
    #[must_use]
    pub fn others(&self) -> Others {
        let (programs, at_most) = match self {
            Stands::Traced(traced, table, before) => match (traced.others(), before) {
                (Some(others), _) => (others, false),
                (None, Some(before)) => {
                    let packed = (0..table.given()).filter_map(|at| table.read(at)).map(|stand| stand.tgid).collect();
                    (before.others(&packed), true)
                }
                (None, None) => (Vec::new(), true),
            },
            Stands::Polled(polled) => (polled.others(), true),
        };
        let mut others = Others { programs, at_most };
        others.programs.retain(|other| other.ran_ns > 0);
        others.programs.sort_by(|a, b| b.ran_ns.cmp(&a.ran_ns).then_with(|| a.comm.cmp(&b.comm)));
        others
    }

    /// Returns the table, which any thread can read.
    #[must_use]
    pub fn table(&self) -> Table {
        match self {
            Stands::Traced(_, table, _) => Table::Mapped(Arc::clone(table)),
            Stands::Polled(polled) => Table::Polled(polled.rows()),
        }
    }
}

impl Table {
    /// Like [`Table::read`], but if reading costs a system call, returns the last value that was read.
    #[must_use]
    pub fn known(&self, number: usize) -> Option<Stand> {
        match self {
            Table::Mapped(mapped) => mapped.read(number),
            Table::Polled(rows) => rows.known(number),
        }
    }

    /// Returns the snapshot with a number below [`Stands::given`]; `None` while its thread is being enrolled.
    #[must_use]
    pub fn read(&self, number: usize) -> Option<Stand> {
        match self {
            Table::Mapped(mapped) => mapped.read(number),
            Table::Polled(rows) => rows.read(number),
        }
    }
}

/// Returns the run time of a thread up to `now_ns`, nanoseconds.
#[must_use]
pub fn run_ns(stand: &Stand, now_ns: u64) -> u64 {
    let stretch = if stand.since_ns == 0 { 0 } else { now_ns.saturating_sub(stand.since_ns) };
    stand.run_ns + stretch
}

/// Returns whether a thread has ended.
#[must_use]
pub fn has_ended(stand: &Stand) -> bool {
    State::from_wire(stand.state) == State::Dead
}
