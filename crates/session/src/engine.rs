//! The contract of an engine: what the session asks of it, in this order.
//!
//! 1. probe: can it work here, on this target; else why not. It loads what it needs; nothing is started or changed.
//! 2. prepare: it may add to the program that is to be started: environment, the preload library.
//! 3. apply: it takes hold of the target.
//! 4. tick: it does what is due. Between ticks it may be given commands, and asked for a snapshot.
//! 5. undo: it lets go, and puts back everything that it changed.
//! 6. section: it says what came of it.
//!
//! No engine knows another one. What an engine finds belongs to its type, and has its name wherever names are written.

use std::os::fd::BorrowedFd;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::target::{Exit, Launch, Subject, Target};

/// An engine of a session.
pub trait Engine {
    /// Its name: of its part in JSON, and of the socket at which it takes commands.
    const NAME: &'static str;

    /// What it found.
    type Section: 'static;

    /// What it can be told while it works, as one line of JSON; [`NoCommand`] where that is nothing.
    type Command: DeserializeOwned + 'static;

    /// Sees whether it can work here on this target, and loads what it needs for that.
    ///
    /// # Errors
    /// Why it cannot, and what to do: the session ends before anything is started.
    fn probe(&mut self, target: &Target) -> Result<()>;

    /// Adds to the first program, before that is started.
    ///
    /// # Errors
    /// As [`probe`](Engine::probe)'s.
    fn prepare(&mut self, _launch: &mut Launch) -> Result<()> {
        Ok(())
    }

    /// Takes hold of the target. A launched program has not run an instruction of its own yet.
    ///
    /// # Errors
    /// Why it cannot: the session ends, and nothing is started.
    fn apply(&mut self, subject: &Subject) -> Result<()>;

    /// Descriptors that become readable when `tick` should be called early.
    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Does what is due; called at least every 100 ms.
    ///
    /// # Errors
    /// What went wrong: the engine is left alone from then on, and the target goes on.
    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    /// Does what another process wants; the answer is one line.
    ///
    /// # Errors
    /// Why not, for that process. The engine goes on.
    fn command(&mut self, _command: Self::Command) -> Result<String> {
        bail!("{} takes no commands", Self::NAME)
    }

    /// Returns what it would find if the session ended now; `None` where it only knows at the end.
    ///
    /// # Errors
    /// As [`tick`](Engine::tick)'s.
    fn snapshot(&mut self) -> Result<Option<Self::Section>> {
        Ok(None)
    }

    /// Returns whether any thread of the target, or of what it started, is still there.
    /// An engine that does not follow what the target starts knows of none.
    ///
    /// # Errors
    /// As [`tick`](Engine::tick)'s.
    fn anything_alive(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Lets go of the target and puts back everything that was changed. Also called after a failure.
    ///
    /// # Errors
    /// What could not be put back.
    fn undo(&mut self) -> Result<()>;

    /// Returns what it found; asked once, after `undo`. Also asked after a failure: what is known then is still worth a section.
    ///
    /// # Errors
    /// Why there is no section.
    fn section(&mut self, ended: &Ended) -> Result<Self::Section>;
}

/// Of an engine that takes no commands.
#[derive(Debug, Deserialize)]
pub enum NoCommand {}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How the first program that was launched ended; `None` where none was.
    pub exit: Option<Exit>,
    /// Programs that were launched, in the order in which they were named.
    pub launched: Vec<Launched>,
    /// When the target got going, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When the main process ended (with `wait_all`: all that it started), or the session did.
    pub end_ns: u64,
    /// CPU time of the session's thread while the target ran: of all engines that have no threads of their own, as
    /// observing. Loading comes before and reading binaries for the report after: they disturb nobody.
    pub own_cpu_ns: u64,
    /// Whether somebody asked for the end: a signal that ends programs reached cox, or SIGINT ended the program.
    pub interrupted: bool,
}

/// A program that was launched, and has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its first process.
    pub pid: u32,
    /// How that ended.
    pub exit: Exit,
    /// When it got going, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended, as far as was looked: a tick later at most.
    pub end_ns: u64,
}
