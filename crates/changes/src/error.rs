//! What can go wrong: always the knob or path, and the reason.

use std::io;
use std::path::PathBuf;

use crate::knob::{Knob, Value};

/// A change that was not made, or not undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two engines of one session want different things, or one of them later than it could change its mind.
    #[error("{knob}: {one} wants {one_wants}, {other} wants {other_wants}; leave one of them out")]
    Conflict {
        /// What both want to change.
        knob: Box<Knob>,
        /// The engine that said so first.
        one: String,
        /// What it wants.
        one_wants: String,
        /// The other.
        other: String,
        /// What that wants.
        other_wants: String,
    },
    /// Another session holds the knob.
    #[error("{knob} is held by process {pid} ({command}); end it first, or see `cox changes status`")]
    Held {
        /// What is held.
        knob: Box<Knob>,
        /// The session's process.
        pid: u32,
        /// Its command line.
        command: String,
    },
    /// The kernel took the write but shows another value.
    #[error("{knob} was set to {wanted} but reads {found}: it has been put back")]
    NotTaken {
        /// What was written.
        knob: Box<Knob>,
        /// The value written.
        wanted: Box<Value>,
        /// The value read back.
        found: Box<Value>,
    },
    /// The thread or file is not there (any more).
    #[error("{0} does not exist (any more)")]
    Gone(Box<Knob>),
    /// A value outside of what was claimed.
    #[error("{knob}: {value} is not within {claim}")]
    NotClaimed {
        /// What was to be set.
        knob: Box<Knob>,
        /// The value.
        value: Box<Value>,
        /// What the session may set.
        claim: String,
    },
    /// A handle was wanted on something that the session has not taken.
    #[error("{0} has not been taken")]
    Untaken(Box<Knob>),
    /// The session has ended: nobody may change anything in its name any more.
    #[error("{0}: the session has ended")]
    Ended(Box<Knob>),
    /// The original could not be put back, so that the change must not be made.
    #[error("{knob}: from {wanted} there is no way back without CAP_SYS_NICE or a higher limit ({limit})")]
    OneWay {
        /// What was to be set.
        knob: Box<Knob>,
        /// The value.
        wanted: Box<Value>,
        /// The resource limit that would do, as prlimit(1) names it.
        limit: &'static str,
    },
    /// A knob could not be read or written.
    #[error("{knob}: {source}{}", right(knob, source))]
    Knob {
        /// Which.
        knob: Box<Knob>,
        /// The kernel's answer.
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
    /// A file in the journals' folder that this program has not made.
    #[error("{} was not made by cox ({why}): COX_CHANGES must name a folder that has only files of cox", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How it is told.
        why: String,
    },
    /// A later version of this program has a session.
    #[error("{} is of a running session of a later version of cox (format {format}): end that session first", path.display())]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// Something about the machine could not be read.
    #[error(transparent)]
    Machine(#[from] machine::Error),
}

impl Error {
    /// The kernel's answer; a thread or file that is not there is no failure of the machine.
    pub(crate) fn of(knob: &Knob, answer: io::Error) -> Error {
        match answer.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => Error::Gone(Box::new(knob.clone())),
            _ => Error::Knob { knob: Box::new(knob.clone()), source: answer },
        }
    }
}

/// Who may do what was not permitted.
fn right(knob: &Knob, answer: &io::Error) -> &'static str {
    match (knob, answer.raw_os_error()) {
        // sched_setaffinity(2), sched_setattr(2)
        (Knob::Affinity(_) | Knob::Scheduling(_), Some(libc::EPERM)) => {
            ". Fix: run as the user whose thread it is, or with CAP_SYS_NICE"
        }
        (Knob::File(_), Some(libc::EPERM | libc::EACCES)) => ". Fix: run as root",
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
