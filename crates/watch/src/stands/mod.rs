//! Where each thread of a program stands now: running, queued or blocked, what it has run, and where in
//! its code it left its CPU last. For whoever steers threads and has to ask thousands of times a second.
//!
//! Two ways to see it:
//!
//! - `traced`: BPF writes a table on each switch. Exact, read without a system call; needs CAP_BPF and CAP_PERFMON, in this process or in the one of a [`Tracer`].
//! - `polled`: each stand is read from /proc when it is asked for. Any user's own programs; a thread that runs is
//!   seen as of its last switch or the kernel's last timer tick, and not where in its code it is.
//!
//! Accounts of where time *went* are [`crate::bpf`]'s; a stand keeps no history.

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

/// How threads are to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// By BPF, else by /proc.
    #[default]
    Best,
    /// By BPF or not at all.
    Traced,
    /// By /proc.
    Polled,
}

/// Programs in the kernel that keep stands: in this process ([`Traced`]), or in another that may load them.
pub trait Tracer {
    /// Gives all threads of a process a stand; those it makes from now on get theirs at birth.
    ///
    /// # Errors
    /// When the kernel refuses the walk over its tasks, or the process is not to be seen.
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError>;

    /// Begins or ends taking samples on these CPUs, each `mean_ns` on average; of no CPUs: ends.
    ///
    /// # Errors
    /// When the kernel refuses the events.
    fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError>;

    /// Samples of running members since this was asked last.
    ///
    /// # Errors
    /// When they cannot be had.
    fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError>;

    /// The table, for any thread to read.
    fn table(&self) -> Arc<Mapped>;

    /// What others ran on the pack's CPUs, by name; `None`: these programs do not count it.
    fn others(&self) -> Option<Vec<Other>> {
        None
    }
}

/// Starts another process' [`Tracer`], for one that may not load programs; told whether to follow children.
pub type Helping = fn(bool) -> Result<Box<dyn Tracer>, WatchError>;

/// The threads' stands, and who keeps them.
pub enum Stands {
    /// BPF does; /proc is asked for others where its programs are in another process.
    Traced(Box<dyn Tracer>, Arc<Mapped>, Option<Before>),
    /// /proc is asked.
    Polled(Box<Polled>),
}

/// All stands: can be read from any thread.
#[derive(Clone)]
pub enum Table {
    /// Written by BPF.
    Mapped(Arc<Mapped>),
    /// Read from /proc.
    Polled(Arc<Rows>),
}

impl Stands {
    /// Nobody has a stand yet. With `follow_children` the children of members become members.
    /// What others run on `cpus` is counted. `helping`: another process has the programs, as this one may not. Says why BPF was passed over, if it was.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason when this kernel or user cannot see threads like that.
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
                // What the better way needs is the better advice.
                Err(_) => Err(why),
            },
            Err(error) => Err(error),
        }
    }

    /// Who keeps them.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self {
            Stands::Traced(..) => Backend::Bpf,
            Stands::Polled(_) => Backend::Proc,
        }
    }

    /// Gives all threads of a process a stand; those it makes from now on get theirs at birth, or when
    /// [`Stands::poll`] finds them.
    ///
    /// # Errors
    /// When the kernel refuses the walk over its threads.
    pub fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        match self {
            Stands::Traced(traced, ..) => traced.enrol(pid),
            Stands::Polled(polled) => polled.enrol(pid),
        }
    }

    /// Looks for threads that have come, where nobody reports them. To be called every 10 to 20 ms.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn poll(&mut self) -> Result<(), WatchError> {
        match self {
            Stands::Traced(..) => Ok(()),
            Stands::Polled(polled) => polled.poll(),
        }
    }

    /// As [`Stands::poll`], however short ago the last one was: whoever is not found now is not found any more.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn poll_at_once(&mut self) -> Result<(), WatchError> {
        match self {
            Stands::Traced(..) => Ok(()),
            Stands::Polled(polled) => polled.poll_at_once(),
        }
    }

    /// How many stands have been given out; they are numbered from 0 and keep their number.
    #[must_use]
    pub fn given(&self) -> usize {
        match self {
            Stands::Traced(_, table, _) => table.given(),
            Stands::Polled(polled) => polled.given(),
        }
    }

    /// Threads that came when all places were given out.
    #[must_use]
    pub fn without_place(&self) -> u32 {
        match self {
            Stands::Traced(_, table, _) => table.without_place(),
            Stands::Polled(polled) => polled.without_place(),
        }
    }

    /// Begins or ends taking samples on these CPUs, each `mean_ns` on average; of no CPUs: ends. /proc has none.
    ///
    /// # Errors
    /// When the kernel refuses the events.
    pub fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError> {
        match self {
            Stands::Traced(traced, ..) => traced.sample_on(cpus, mean_ns),
            Stands::Polled(_) => Ok(()),
        }
    }

    /// Samples of running members since this was asked last.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        match self {
            Stands::Traced(traced, ..) => traced.take_samples(),
            Stands::Polled(_) => Ok(Vec::new()),
        }
    }

    /// CPU time that others had on the CPUs of [`Stands::new`], by name, the most first. By /proc it is the whole time of
    /// those that were there at both ends and ran on one of these CPUs last, wherever they ran before.
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

    /// The table, for any thread to read.
    #[must_use]
    pub fn table(&self) -> Table {
        match self {
            Stands::Traced(_, table, _) => Table::Mapped(Arc::clone(table)),
            Stands::Polled(polled) => Table::Polled(polled.rows()),
        }
    }
}

impl Table {
    /// As [`Table::read`], or as it was read last where that costs less.
    #[must_use]
    pub fn known(&self, number: usize) -> Option<Stand> {
        match self {
            Table::Mapped(mapped) => mapped.read(number),
            Table::Polled(rows) => rows.known(number),
        }
    }

    /// The stand with a number below [`Stands::given`]; `None` while its thread is being enrolled.
    #[must_use]
    pub fn read(&self, number: usize) -> Option<Stand> {
        match self {
            Table::Mapped(mapped) => mapped.read(number),
            Table::Polled(rows) => rows.read(number),
        }
    }
}

/// What a thread has run by `now_ns`.
#[must_use]
pub fn run_ns(stand: &Stand, now_ns: u64) -> u64 {
    let stretch = if stand.since_ns == 0 { 0 } else { now_ns.saturating_sub(stand.since_ns) };
    stand.run_ns + stretch
}

/// Whether a thread has ended.
#[must_use]
pub fn has_ended(stand: &Stand) -> bool {
    State::from_wire(stand.state) == State::Dead
}
