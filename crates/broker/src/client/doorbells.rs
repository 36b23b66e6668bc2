//! Doorbells (they wake standby threads) whose eBPF programs were loaded by the helper process.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use watch::WatchError;
use watch::umt::{Doorbells, Given};
use wire::umt::BELLS;

use super::{Answer, Helper, SHORT_PATIENCE_S, malformed};
use crate::protocol::Request;

/// The doorbells of a session, with which eBPF wakes standby threads. The helper process creates their pages and ring
/// buffers.
pub struct RemoteDoorbells {
    helper: Helper,
}

impl RemoteDoorbells {
    /// Starts the helper, which loads and attaches its eBPF programs. No process is registered yet.
    ///
    /// # Errors
    /// `Unavailable`, with the reason, when the helper cannot be started or refuses.
    pub fn new(program: &Path) -> Result<RemoteDoorbells, WatchError> {
        let mut helper = Helper::start(program)?;
        helper.ask(&Request::Doorbells, None)?;
        Ok(RemoteDoorbells { helper })
    }

    /// Sends a request, with the short time limit: all processes of the session that register wait for the answer.
    fn ask(&mut self, request: &Request, pid: Option<u32>) -> Result<Answer, WatchError> {
        self.helper.ask_within(SHORT_PATIENCE_S, request, pid)
    }
}

impl Doorbells for RemoteDoorbells {
    fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        let answer = self.ask(&Request::Give(pid), Some(pid))?;
        let process = answer.given.ok_or_else(malformed)?;
        let mut descriptors = answer.descriptors.into_iter();
        let (Some(program_page), Some(kernel_page)) = (descriptors.next(), descriptors.next()) else {
            return Err(malformed());
        };
        let bells: Vec<_> = descriptors.collect();
        if bells.len() != BELLS {
            return Err(malformed());
        }
        Ok(Given { process, program_page, kernel_page, bells })
    }

    /// Does nothing: the helper prepares the pages of the next process by itself after each answer.
    fn prepare(&mut self) -> Result<(), WatchError> {
        Ok(())
    }

    // Errors are ignored: if the helper has ended, no doorbell rings anyway, and the next process that registers gets
    // the error.
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
