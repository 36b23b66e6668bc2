//! What a backend does, the counts of a CPU, and the choice of the CPUs that a descriptor covers.

use std::ffi::CStr;
use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;

/// A backend: it counts how often threads block and unblock. [`Monitor`](crate::Monitor) documents the functions.
pub(crate) trait Backend: Debug + Send + Sync {
    fn name(&self) -> &'static CStr;
    /// Starts the backend. From now on, the events in `tells` (a set of [`Tells`](crate::Tells) bits) make descriptors ready.
    fn begin(&self, tells: u32);
    /// Unregisters all threads and closes all descriptors.
    fn end(&self);
    fn descriptor(&self, of: Of) -> io::Result<RawFd>;
    fn read(&self, cpu: usize) -> io::Result<Option<Counts>>;
    fn ready(&self, cpu: usize) -> u32;
    fn register(&self) -> io::Result<()>;
    fn unregister(&self);
    /// Closes the copies of the descriptors in a child after fork.
    fn leave_to_parent(&self);
}

/// The CPUs whose counts make a descriptor ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// This CPU.
    Cpu(usize),
    /// All CPUs: the descriptor is ready while one of them has unread counts.
    Any,
}

/// The counts of a CPU since the last read. Mirror of `struct cox_umt_counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Threads that blocked, ended, were unregistered, or moved to another CPU while ready.
    pub blocked: u32,
    /// Threads that unblocked, were registered, or moved to this CPU while ready.
    pub unblocked: u32,
    /// How often records of a thread, on any CPU, were overwritten: the thread switched more often between two reads than its log has room
    /// for. Lost records contain equally many blocks and unblocks, which are missing from `blocked` and from `unblocked`. So the
    /// difference between `unblocked` and `blocked` is still correct.
    pub lost: u32,
}

const _: () = assert!(size_of::<Counts>() == 12);
