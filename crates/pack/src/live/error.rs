//! Reasons why a program cannot be packed.

/// The reason why a program cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The threads cannot be observed on this system (by BPF programs or /proc).
    #[error(transparent)]
    Watch(#[from] watch::WatchError),
    /// cox cannot change affinity masks, or another session has already changed those of the program.
    #[error(transparent)]
    Changes(#[from] changes::Error),
    /// The process is packed already. Two controllers would undo each other's changes of affinity masks.
    #[error("process {0} is packed already")]
    PackedAlready(u32),
    /// One of the threads cannot be moved.
    #[error("{0}")]
    Refused(String),
    /// The process exists, but none of its threads can be observed.
    #[error("no thread of process {0} can be seen: is cox in a PID namespace of its own? Run it on the host")]
    Unseen(u32),
    /// One of cox's own threads could not be started.
    #[error("cannot start a controlling thread: {0}")]
    Thread(std::io::Error),
    /// One of cox's controlling threads has panicked.
    #[error("a controlling thread has failed")]
    Poisoned,
}
