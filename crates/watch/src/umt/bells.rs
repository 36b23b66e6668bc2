//! Doorbells of a session, whichever process has the programs that ring them.

use std::os::fd::BorrowedFd;

use super::{Given, Umt};
use crate::observer::WatchError;

/// Counts the runnable threads of processes that ask, and rings their standbys.
pub trait Doorbells: Send {
    /// See [`Umt::give`].
    ///
    /// # Errors
    /// When there are too many, when no thread of it may be taken in, or the kernel refuses.
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

    /// What hangs up when the process that has the programs ends; `None`: it is this one.
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
