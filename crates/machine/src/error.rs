//! Failures when reading Linux. Each names the path or the call, and the reason.

use std::io;
use std::path::PathBuf;

use crate::cpulist::ParseCpuSetError;

/// A failure to read or understand something that the kernel shows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file, folder or link could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path as opened, the root's prefix included.
        path: PathBuf,
        /// The kernel's error code.
        source: io::Error,
    },
    /// A file was read but does not look as documented in proc(5) or the kernel's own documentation.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The path as opened, the root's prefix included.
        path: PathBuf,
        /// What was expected and what was found.
        reason: String,
    },
    /// A file should hold a CPU list, and its text is not one.
    #[error("{}: {source}", path.display())]
    CpuList {
        /// The path as opened, the root's prefix included.
        path: PathBuf,
        /// Which part of the list is wrong.
        source: ParseCpuSetError,
    },
    /// A cgroup that a user or a process names was not found.
    #[error("cgroup {}: {reason}", path.display())]
    Cgroup {
        /// The cgroup as the user or process named it.
        path: PathBuf,
        /// Why the cgroup cannot be used, and what was tried.
        reason: String,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    Call {
        /// The system call and its object, e.g. `sched_getaffinity of process 4711`.
        call: String,
        /// The kernel's error code.
        source: io::Error,
    },
}

impl Error {
    /// Returns whether the object does not exist (any more): a process that has ended, a cgroup that was removed.
    /// Processes come and go, so readers of /proc treat this as data, not as a failure.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Call { source, .. } => is_gone(source),
            Self::Format { .. } | Self::CpuList { .. } | Self::Cgroup { .. } => false,
        }
    }

    /// Returns the kernel's error code without the path. For malformed text, returns the reason as `InvalidData`.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Read { source, .. } | Self::Call { source, .. } => source,
            other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
        }
    }

    /// Returns whether the kernel refused for lack of privilege.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Call { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Format { .. } | Self::CpuList { .. } | Self::Cgroup { .. } => false,
        }
    }
}

/// Returns whether an object has gone. If it goes between open and read, /proc answers ESRCH, and cgroupfs and sysfs
/// answer ENODEV.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.kind() == io::ErrorKind::NotFound
        || matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::NODEV | Errno::NOENT | Errno::NOTDIR))
}
