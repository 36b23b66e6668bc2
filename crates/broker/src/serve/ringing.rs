//! Doorbells (they wake standby threads) on the server side: the list of processes that have doorbells, by number.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use watch::WatchError;
use watch::umt::Doorbells;

use super::{Failure, Send, World};
use crate::caller::Pidfd;
use crate::protocol::{Malformed, Reply};

/// The eBPF programs that ring doorbells, and the processes that they serve.
pub struct Ringing {
    bells: Box<dyn Doorbells>,
    /// Processes that have pages and doorbells, by number.
    given: BTreeMap<u32, Pidfd>,
    /// Processes that were refused after eBPF had tagged their threads with the process's number. The threads may keep
    /// this tag until the process ends, so no other process gets the number before then.
    refused: Vec<(u32, Pidfd)>,
}

impl Ringing {
    pub(super) fn new(bells: Box<dyn Doorbells>) -> Ringing {
        Ringing { bells, given: BTreeMap::new(), refused: Vec::new() }
    }

    /// Sends pages and doorbells for a process that may be observed. cox passes them on to the process, which thereby
    /// learns when its threads block.
    pub(super) fn give(&mut self, pid: u32, world: &dyn World, send: Send<'_>) -> Result<(), Failure> {
        for (number, _) in self.refused.extract_if(.., |(_, pidfd)| pidfd.has_ended()) {
            self.bells.gone(number);
        }
        let no_target = |why| WatchError::NoTarget { pid, why };
        let pidfd = world.hold(pid).map_err(no_target)?;
        let given = self.bells.give(pid)?;
        // Check again, because the process may meanwhile have executed a program that may not be observed. If it did so
        // before eBPF tracked its threads (`give`), this check finds it. If it does so later, eBPF stops tracking it. The
        // pid may also belong to another process by now; then the counts of that process go to pages that nobody reads.
        if let Err(why) = world.may_observe(pid).and_then(|()| pidfd.lives()) {
            self.bells.over(given.process);
            self.refused.push((given.process, pidfd));
            return Err(no_target(why).into());
        }
        self.given.insert(given.process, pidfd);
        let descriptors: Vec<BorrowedFd<'_>> = given.descriptors().collect();
        send(&Reply::Given(given.process).encode(), &descriptors)?;
        Ok(())
    }

    /// Called when a process with doorbells has closed its connection to cox.
    pub(super) fn over(&mut self, process: u32) -> Result<(), Failure> {
        self.pidfd(process)?;
        self.bells.over(process);
        Ok(())
    }

    /// Handles cox's message that a process has ended. The number becomes free only if the process has really ended.
    pub(super) fn gone(&mut self, process: u32) -> Result<(), Failure> {
        if !self.pidfd(process)?.has_ended() {
            return Err(WatchError::NoTarget { pid: process, why: "the process has not ended".into() }.into());
        }
        self.given.remove(&process);
        self.bells.gone(process);
        Ok(())
    }

    /// Returns the pidfd of the process with this number; cox must have received the pages of this process.
    fn pidfd(&self, process: u32) -> Result<&Pidfd, Failure> {
        self.given.get(&process).ok_or(Failure::Ended(Malformed.into()))
    }

    /// Prepares the pages and doorbells of the next process while no request waits. If there are too many processes, the
    /// next `give` returns the error.
    pub(super) fn prepare(&mut self) {
        let _ = self.bells.prepare();
    }

    pub(super) fn end(&mut self) {
        self.bells.end();
    }
}
