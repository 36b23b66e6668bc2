//! Scheduler events as the `perf` backend and trace readers deliver them; `ledger` turns them into
//! [`Clock`](crate::Clock)s.

use crate::{Cause, Migration};

/// One thing that happened to one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// To which thread.
    pub tid: u32,
    /// What.
    pub kind: EventKind,
}

/// How a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// Still runnable; `yielded` when it asked for it by sched_yield.
    Preempted {
        /// Began in sched_yield.
        yielded: bool,
    },
    /// Not runnable.
    Blocked(Cause),
    /// For the last time.
    Dead,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Created as a thread of process `tgid` by process `parent_tgid`.
    Born {
        /// Its process.
        tgid: u32,
        /// The process of its creator.
        parent_tgid: u32,
    },
    /// First met while alive: nothing is known of the time before.
    Enrolled {
        /// Its process.
        tgid: u32,
        /// Asleep, as the kernel said, and why; `None`: not told.
        blocked: Option<Cause>,
    },
    /// Its present block is by this cause, which was not known when it began.
    Why {
        /// The cause.
        cause: Cause,
    },
    /// Its process runs another program from here on, for which thread `caller` asked.
    Exec {
        /// Its id until now.
        caller: u32,
    },
    /// Becoming runnable, by `waker` (0: interrupt, idle, or not seen).
    Waking {
        /// Who.
        waker: u32,
    },
    /// Had `cpu` until now, as a switch says: nobody else did. Also of threads that are nobody's concern, and of the idle ones (0).
    Had {
        /// Which CPU.
        cpu: u16,
    },
    /// Switched in on `cpu`.
    In {
        /// Where.
        cpu: u16,
    },
    /// Switched out.
    Out {
        /// How.
        off: Off,
    },
    /// Moved to `cpu`.
    Migrated {
        /// Where to.
        cpu: u16,
        /// Why.
        kind: Migration,
    },
    /// Took another name, at exec (`exec`) or by itself.
    Named {
        /// The new name.
        comm: String,
        /// By exec.
        exec: bool,
    },
    /// Left by exit; its last switch-out may follow.
    Exit,
}
