//! Errors. Each names the knob or path, and the reason.

use std::io;
use std::path::PathBuf;

use crate::knob::Knob;
use crate::unmoved::Why;
use crate::value::Value;

/// A change that was not made, or not undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two engines of one session want different values, or an engine changes a request that the session has already
    /// carried out.
    #[error("{knob}: {one} wants {one_wants}, {other} wants {other_wants}; leave one of them out")]
    Conflict {
        /// The knob that both engines want to change.
        knob: Box<Knob>,
        /// The engine that asked first.
        one: String,
        /// The value that the first engine wants.
        one_wants: String,
        /// The other engine.
        other: String,
        /// The value that the other engine wants.
        other_wants: String,
    },
    /// Another session holds the knob.
    #[error("{knob} is held by process {pid} ({command}); end it first, or see `cox changes status`")]
    Held {
        /// The knob.
        knob: Box<Knob>,
        /// Process of the session that holds the knob.
        pid: u32,
        /// Command line of the session that holds the knob.
        command: String,
    },
    /// The kernel accepted the write but shows another value.
    #[error("{knob} was set to {wanted}, but the kernel shows {found}; the original value has been put back")]
    NotTaken {
        /// The knob.
        knob: Box<Knob>,
        /// The value that was written.
        wanted: Box<Value>,
        /// The value that was read back.
        found: Box<Value>,
    },
    /// The thread or file does not exist (any more).
    #[error("{0} does not exist (any more)")]
    Gone(Box<Knob>),
    /// The value is not one of those that the session may give this knob (its claim).
    #[error("{knob}: {value} is not within {claim}")]
    NotClaimed {
        /// The knob.
        knob: Box<Knob>,
        /// The value.
        value: Box<Value>,
        /// The claim.
        claim: String,
    },
    /// The session has not taken the knob: the knob is not in the session's journal.
    #[error("{0} is not in the journal of this session")]
    Untaken(Box<Knob>),
    /// The session has ended, so nothing may be changed through it any more.
    #[error("{0}: the session has ended")]
    Ended(Box<Knob>),
    /// The change must not be made, because the original value could not be restored afterwards.
    #[error(
        "{knob}: not set to {wanted}, because it could not be put back without CAP_SYS_NICE or a higher limit ({limit})"
    )]
    OneWay {
        /// The knob.
        knob: Box<Knob>,
        /// The value that was requested.
        wanted: Box<Value>,
        /// The resource limit that would have to be raised, as prlimit(1) names it.
        limit: &'static str,
    },
    /// The kernel does not let this thread or interrupt be moved.
    #[error("{knob} cannot be changed: {why}")]
    Unmovable {
        /// The knob.
        knob: Box<Knob>,
        /// The reason.
        why: Why,
    },
    /// A knob could not be read or written.
    #[error("{knob}: {source}{}", right(knob, source))]
    Knob {
        /// The knob.
        knob: Box<Knob>,
        /// The kernel's error.
        source: io::Error,
    },
    /// The journal or its folder cannot be used.
    #[error("{}: {source}", path.display())]
    Journal {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The journals' folder contains a file that cox has not created.
    #[error("{} was not made by cox ({why}): COX_CHANGES must name a folder that has only files of cox", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why the file is not one of cox's.
        why: String,
    },
    /// The changes belong to a running process, which restores them when it ends.
    #[error("the session of process {pid} ({command}) is running, and restores its changes when it ends: end it")]
    Running {
        /// Process of the session.
        pid: u32,
        /// Command line of the session.
        command: String,
    },
    /// A session of a later version of this program is running.
    #[error("{} belongs to a running session of a later version of cox (format {format}): end that session first", path.display())]
    Newer {
        /// The journal of the running session.
        path: PathBuf,
        /// The format of the journal.
        format: u32,
    },
    /// Something about the machine could not be read.
    #[error(transparent)]
    Machine(#[from] machine::Error),
}

impl Error {
    /// Converts the kernel's error. "Not found" means that the thread or file is gone.
    pub(crate) fn of(knob: &Knob, answer: io::Error) -> Error {
        match answer.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT | libc::ENODEV) => Error::Gone(Box::new(knob.clone())),
            _ => Error::Knob { knob: Box::new(knob.clone()), source: answer },
        }
    }

    /// Converts the kernel's error of a write. Some mean that the kernel leaves an interrupt or a thread where it is
    /// ([`Why`]): EPERM since Linux 6.12 and EIO before (`write_irq_affinity` in kernel/irq/proc.c); EINVAL for
    /// PF_NO_SETAFFINITY and kthreadd (cgroup_procs_write_start in kernel/cgroup/cgroup.c).
    pub(crate) fn of_write(knob: &Knob, answer: io::Error) -> Error {
        let why = match (knob, answer.raw_os_error()) {
            (Knob::Interrupt { .. }, Some(libc::EPERM | libc::EIO)) => Why::Managed,
            (Knob::Interrupt { .. }, Some(libc::ENOSPC)) => Why::NoVector,
            (Knob::Membership { .. }, Some(libc::EINVAL)) => Why::Bound,
            _ => return Error::of(knob, answer),
        };
        Error::Unmovable { knob: Box::new(knob.clone()), why }
    }
}

/// Returns a hint on which user or privilege could make a change that was not permitted.
fn right(knob: &Knob, answer: &io::Error) -> &'static str {
    match (knob, answer.raw_os_error()) {
        // sched_setaffinity(2), sched_setattr(2)
        (Knob::Affinity(_) | Knob::Scheduling(_), Some(libc::EPERM)) => {
            ". Fix: run as the user whose thread it is, or with CAP_SYS_NICE"
        }
        (Knob::Affinity(_) | Knob::Scheduling(_), _) => "",
        (_, Some(libc::EPERM | libc::EACCES)) => ". Fix: run as root",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Thread;

    #[test]
    fn what_is_not_permitted_names_the_right() {
        let said = |knob: &Knob, number| Error::of(knob, io::Error::from_raw_os_error(number)).to_string();
        let affinity = Knob::Affinity(Thread { tid: 5, start_ns: 1 });
        let why = said(&affinity, libc::EPERM);
        assert!(why.starts_with("affinity of thread 5: ") && why.ends_with("with CAP_SYS_NICE"), "{why}");
        assert!(said(&Knob::File("/proc/sys/x".into()), libc::EACCES).ends_with("Fix: run as root"));
        assert!(!said(&affinity, libc::EINVAL).contains("Fix"));
    }
}
