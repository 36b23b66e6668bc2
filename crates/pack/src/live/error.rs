//! Why a program cannot be packed.

/// Why a program cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sensors do not work here.
    #[error(transparent)]
    Watch(#[from] watch::WatchError),
    /// Threads cannot be changed, or somebody else holds them.
    #[error(transparent)]
    Changes(#[from] changes::Error),
    /// Two controllers would undo one another's work.
    #[error("process {0} is packed already")]
    PackedAlready(u32),
    /// One of the threads cannot be steered.
    #[error("{0}")]
    Refused(String),
    /// Nobody was found in a process that is there.
    #[error("no thread of process {0} can be seen: is cox in a PID namespace of its own? Run it on the host")]
    Unseen(u32),
    /// A thread of cox's own could not be started.
    #[error("cannot start a controlling thread: {0}")]
    Thread(std::io::Error),
    /// A controlling thread has panicked.
    #[error("a controlling thread has failed")]
    Poisoned,
}
