//! Scheduler events from the `perf` backend and from trace readers. `ledger` turns them into [`Clock`](crate::Clock)s.

use crate::{Cause, Left, Migration};

/// One event of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event, nanoseconds on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// The thread's id.
    pub tid: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The thread was created as a thread of process `tgid` by process `parent_tgid`.
    Born {
        /// The thread's process.
        tgid: u32,
        /// The creator's process.
        parent_tgid: u32,
    },
    /// The thread existed before cox began to track (enrolled) it. What it did before is unknown.
    Enrolled {
        /// The thread's process.
        tgid: u32,
        /// Why the thread is asleep, if the kernel says that it is; `None`: not known to be asleep.
        blocked: Option<Cause>,
    },
    /// The cause of the thread's present block, which was unknown when the block began.
    Why {
        /// The cause.
        cause: Cause,
    },
    /// The thread's process has executed another program.
    Exec {
        /// The previous id of the thread that called exec.
        caller: u32,
    },
    /// The thread is being woken.
    Waking {
        /// The waking thread; 0: an interrupt, the idle task, or unknown.
        waker: u32,
    },
    /// A switch record shows that the thread leaves `cpu`, so it had this CPU until now. Also reported for untracked threads and for the idle task
    /// (0).
    Had {
        /// The CPU.
        cpu: u16,
    },
    /// The thread was switched in.
    In {
        /// The CPU.
        cpu: u16,
    },
    /// The thread was switched out.
    Out {
        /// How the thread left the CPU.
        left: Left,
    },
    /// The thread was migrated.
    Migrated {
        /// The new CPU.
        cpu: u16,
        /// The reason.
        kind: Migration,
    },
    /// The thread changed its name.
    Named {
        /// The new name.
        comm: String,
        /// Whether an exec changed the name.
        exec: bool,
    },
    /// The thread has exited; its last switch-out may follow.
    Exit,
}
