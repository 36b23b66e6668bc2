//! Doorbells that eBPF programs in the other process ring.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use watch::WatchError;
use watch::umt::{Doorbells, Given};
use wire::umt::BELLS;

use super::{Answer, Helper, SHORT_PATIENCE_S, malformed};
use crate::protocol::Request;

/// Doorbells of a session whose pages and rings the other process makes.
pub struct RemoteDoorbells {
    helper: Helper,
}

impl RemoteDoorbells {
    /// Starts the program, which loads its eBPF programs and attaches them; no process has asked yet.
    ///
    /// # Errors
    /// `Unavailable` with its reason when it cannot be started or refuses.
    pub fn new(program: &Path) -> Result<RemoteDoorbells, WatchError> {
        let mut helper = Helper::start(program)?;
        helper.ask(&Request::Doorbells, None)?;
        Ok(RemoteDoorbells { helper })
    }

    /// One answer is waited for by all processes of the session that ask.
    fn ask(&mut self, request: &Request, pid: Option<u32>) -> Result<Answer, WatchError> {
        self.helper.ask_within(SHORT_PATIENCE_S, request, pid)
    }
}

impl Doorbells for RemoteDoorbells {
    fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        let answer = self.ask(&Request::Give(pid), Some(pid))?;
        let process = answer.given.ok_or_else(malformed)?;
        let mut descriptors = answer.descriptors.into_iter();
        let (Some(said), Some(seen)) = (descriptors.next(), descriptors.next()) else { return Err(malformed()) };
        let bells: Vec<_> = descriptors.collect();
        if bells.len() != BELLS {
            return Err(malformed());
        }
        Ok(Given { process, said, seen, bells })
    }

    /// The other process does so by itself, when it has answered.
    fn prepare(&mut self) -> Result<(), WatchError> {
        Ok(())
    }

    // If the other process has ended, nobody is rung any more, and the next process that asks is told.
    fn over(&mut self, process: u32) {
        let _ = self.ask(&Request::Over(process), None);
    }

    fn gone(&mut self, process: u32) {
        let _ = self.ask(&Request::Gone(process), None);
    }

    fn end(&mut self) {
        let _ = self.ask(&Request::Finish, None);
    }

    fn lifeline(&self) -> Option<BorrowedFd<'_>> {
        Some(self.helper.socket.as_fd())
    }
}
