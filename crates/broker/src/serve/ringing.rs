//! Doorbells: which processes have which numbers, as this side knows it.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use watch::WatchError;
use watch::umt::Doorbells;

use super::{Broken, Send, World};
use crate::caller::Held;
use crate::protocol::Reply;

/// The programs that ring, and those that they ring for.
pub struct Ringing {
    bells: Box<dyn Doorbells>,
    /// By number.
    given: BTreeMap<u32, Held>,
}

impl Ringing {
    pub(super) fn new(bells: Box<dyn Doorbells>) -> Ringing {
        Ringing { bells, given: BTreeMap::new() }
    }

    /// Sends pages and bells for a process that may be observed. They are cox's to hand over: whoever gets them is told when this process' threads block.
    pub(super) fn give(
        &mut self,
        pid: u32,
        world: &dyn World,
        send: Send<'_>,
    ) -> Result<Result<(), WatchError>, Broken> {
        let no_target = |why| WatchError::NoTarget { pid, why };
        let held = match world.hold(pid) {
            Ok(held) => held,
            Err(why) => return Ok(Err(no_target(why))),
        };
        let given = match self.bells.give(pid) {
            Ok(given) => given,
            Err(error) => return Ok(Err(error)),
        };
        // Checks again after the walk. eBPF lets go of a process that executes later; this check finds one that executed before.
        // Another process may have its number by now; it is counted where nobody looks.
        if let Err(why) = world.may_observe(pid).and_then(|()| held.lives()) {
            self.bells.over(given.process);
            return Ok(Err(no_target(why)));
        }
        self.given.insert(given.process, held);
        let descriptors: Vec<BorrowedFd<'_>> = given.descriptors().collect();
        send(&Reply::Given(given.process).encode(), &descriptors)?;
        Ok(Ok(()))
    }

    /// A process that was given pages has hung up.
    pub(super) fn over(&mut self, process: u32) -> Result<(), Broken> {
        if !self.given.contains_key(&process) {
            return Err(Broken::Malformed);
        }
        self.bells.over(process);
        Ok(())
    }

    /// One has ended, says cox: its number is given to another only if that is so.
    pub(super) fn gone(&mut self, process: u32) -> Result<Result<(), WatchError>, Broken> {
        let held = self.given.get(&process).ok_or(Broken::Malformed)?;
        if !held.has_ended() {
            return Ok(Err(WatchError::NoTarget { pid: process, why: "it has not ended".into() }));
        }
        self.given.remove(&process);
        self.bells.gone(process);
        Ok(Ok(()))
    }

    /// Gets ready for the next one, while nobody waits. If there are too many, the next `give` says so.
    pub(super) fn prepare(&mut self) {
        let _ = self.bells.prepare();
    }

    pub(super) fn end(&mut self) {
        self.bells.end();
    }
}
