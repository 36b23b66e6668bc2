//! Why the host fails.

use std::io;

use crate::program::image::LoadError;

/// Why ULPs could not be started, or waited for. Those that ran have been killed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel refuses another process.
    #[error("ULP {number} cannot be started: {why}{}", hint(why))]
    Start {
        /// The number of the ULP.
        number: usize,
        /// The reason.
        why: io::Error,
    },
    /// A system call failed.
    #[error("{what}")]
    Os {
        /// What failed.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// Returns what to do about a process that cannot be started.
fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::WouldBlock {
        " (the limit of processes: ulimit -u, pids.max of the control group)"
    } else {
        ""
    }
}
