//! Wording of the causes of blocking, for the text report, the HTML page and the documentation.

use wire::Cause;

/// Wording of a cause.
#[derive(Clone, Copy, Debug)]
pub struct Wording {
    /// Label of the time that a thread was blocked by the cause: `blocked on disk`.
    pub label: &'static str,
    /// Description of the cause, for tables.
    pub meaning: &'static str,
}

/// Returns the wording of a cause.
pub fn wording(cause: Cause) -> Wording {
    let (label, meaning) = match cause {
        Cause::Futex => {
            ("asleep on a futex", "futex: mutexes, condition variables, joins, barriers at which threads sleep")
        }
        Cause::Disk => ("blocked on disk", "storage: the kernel's I/O wait, or a call on a file or block device"),
        Cause::Network => ("blocked on the network", "a call on an internet socket"),
        Cause::Pipe => ("blocked on pipes", "pipes, FIFOs, UNIX sockets"),
        Cause::Poll => {
            ("waited for events (poll)", "poll, select, epoll, io_uring, eventfd: waiting for any of several events")
        }
        Cause::Sleep => ("slept", "nanosleep and timers"),
        Cause::PageFault => {
            ("blocked in page faults", "a page fault: reading the page, or waiting for the lock on the address space")
        }
        Cause::ChildWait => ("waited for children", "wait4, waitid, vfork"),
        Cause::Stopped => ("stopped", "SIGSTOP, a tracer, the freezer"),
        Cause::FileLock => ("blocked on file locks", "flock and fcntl locks"),
        Cause::Other => ("blocked otherwise", "anything else"),
        Cause::Unspecified => (
            "blocked, cause not seen",
            "unknown: the backend cannot see causes (`perf`, `proc`, a recording of perf), or this version of cox does not \
             know the cause",
        ),
    };
    Wording { label, meaning }
}

/// Causes of blocking that the program intends; this time does not count as lost.
pub const INTENDED: [Cause; 5] = [Cause::Sleep, Cause::Poll, Cause::Pipe, Cause::ChildWait, Cause::Stopped];
