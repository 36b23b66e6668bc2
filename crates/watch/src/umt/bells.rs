//! The doorbells of a session, independent of the process that loaded the programs that ring them.

use std::os::fd::BorrowedFd;

use super::{Given, Umt};
use crate::observer::WatchError;

/// Counts the runnable threads of each process that has asked for doorbells, and rings its standbys.
pub trait Doorbells: Send {
    /// See [`Umt::give`].
    ///
    /// # Errors
    /// If too many processes have asked, if no thread of the process may be tracked, or if the kernel refuses.
    fn give(&mut self, pid: u32) -> Result<Given, WatchError>;

    /// See [`Umt::prepare`].
    ///
    /// # Errors
    /// As [`give`](Doorbells::give).
    fn prepare(&mut self) -> Result<(), WatchError>;

    /// See [`Umt::over`].
    fn over(&mut self, process: u32);

    /// See [`Umt::gone`].
    fn gone(&mut self, process: u32);

    /// See [`Umt::end`].
    fn end(&mut self);

    /// Returns a descriptor whose other end is closed when the process that loaded the programs ends; `None` if that is this process.
    fn lifeline(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Doorbells for Umt {
    fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        Umt::give(self, pid)
    }

    fn prepare(&mut self) -> Result<(), WatchError> {
        Umt::prepare(self)
    }

    fn over(&mut self, process: u32) {
        Umt::over(self, process);
    }

    fn gone(&mut self, process: u32) {
        Umt::gone(self, process);
    }

    fn end(&mut self) {
        Umt::end(self);
    }
}
