//! The contract of an engine: the calls that the session makes, in this order.
//!
//! 1. probe: the engine says whether it can work with this target, or why not. It loads what it needs; it starts and
//!    changes nothing.
//! 2. prepare: the engine may add to the program that will be started: environment variables, the preload library.
//! 3. apply: the engine attaches to the target.
//! 4. `on_start`: all engines have attached, and the target starts now.
//! 5. tick: the engine does the work that is due. Between ticks, it may receive commands and be asked for a snapshot.
//! 6. `on_end`: the target has ended, and no engine has detached yet.
//! 7. undo: the engine detaches and reverts everything that it changed.
//! 8. section: the engine returns its result.
//!
//! Engines do not know each other. The type of an engine determines the type of its result, and its name identifies it
//! in all output.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::target::{Exit, Launch, Subject, Target};

/// An engine of a session.
pub trait Engine {
    /// Name of the engine, used in JSON and for the socket that receives its commands.
    const NAME: &'static str;

    /// Result of the engine.
    type Section: 'static;

    /// A command to the running engine, sent as one line of JSON. [`NoCommand`] if the engine takes no commands.
    type Command: DeserializeOwned + 'static;

    /// Checks whether the engine can work with this target, and loads what it needs.
    ///
    /// # Errors
    /// The reason why the engine cannot work, and the remedy. The session ends before it starts anything.
    fn probe(&mut self, target: &Target) -> Result<()>;

    /// Adds environment variables or the preload library to the first program, before it is started.
    ///
    /// # Errors
    /// Same as [`probe`](Engine::probe).
    fn prepare(&mut self, _launch: &mut Launch) -> Result<()> {
        Ok(())
    }

    /// Attaches to the target. A launched program has not yet executed an instruction of its own.
    ///
    /// # Errors
    /// The reason why the engine cannot attach. The session ends, and no program is started.
    fn apply(&mut self, subject: &Subject) -> Result<()>;

    /// Reads what must not include the attaching of the engines, such as counters of the machine.
    fn on_start(&mut self) {}

    /// Reads what must not include the detaching of the engines. Not called if the start fails.
    fn on_end(&mut self) {}

    /// Returns the descriptors that become readable when `tick` should be called early.
    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Returns the maximum time between two calls of `tick`. Each of them wakes cox up, which can move a thread of the
    /// program to another CPU, so an engine that has nothing to do should return a long time.
    fn tick_every(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Does the work that is due.
    ///
    /// # Errors
    /// The failure. The session then stops ticking the engine, and the target continues.
    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    /// Executes a command from another process. Returns an answer of one line.
    ///
    /// # Errors
    /// The reason, which the other process receives. The engine continues.
    fn command(&mut self, _command: Self::Command) -> Result<String> {
        bail!("the engine {} accepts no commands", Self::NAME)
    }

    /// Returns the result that the engine would have if the session ended now; `None` if the result is known only at
    /// the end.
    ///
    /// # Errors
    /// Same as [`tick`](Engine::tick).
    fn snapshot(&mut self) -> Result<Option<Self::Section>> {
        Ok(None)
    }

    /// Returns whether a thread of the target, or of a process that the target started, still exists. An engine that
    /// does not follow child processes always returns false, which is the default.
    ///
    /// # Errors
    /// Same as [`tick`](Engine::tick).
    fn anything_alive(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Detaches from the target and restores all changes. Also called after a failure.
    ///
    /// # Errors
    /// The failure. A change that could not be restored is not an error: [`unrestored`](Engine::unrestored) names it.
    fn undo(&mut self) -> Result<()>;

    /// Returns the changes that could not be restored, one line each. Called after `undo` and before `section`, also after
    /// a failure. Empty for an engine that changes nothing, which is the default.
    fn unrestored(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the result. Called once, after `undo`. Also called after a failure, because a partial result is still
    /// useful.
    ///
    /// # Errors
    /// The reason why there is no result.
    fn section(&mut self, ended: &Ended) -> Result<Self::Section>;
}

/// The command type of an engine that takes no commands.
#[derive(Debug, Deserialize)]
pub enum NoCommand {}

/// The end of a session, and of the programs that it launched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Exit of the first launched program; `None` if the session launched none.
    pub exit: Option<Exit>,
    /// The launched programs, in the order in which they were named.
    pub launched: Vec<Launched>,
    /// Start of the target on CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: u64,
    /// End of the main process on CLOCK_MONOTONIC, nanoseconds. With `wait_all`, the end of all processes that it
    /// started. Without a main process, the end of the session.
    pub end_ns: u64,
    /// CPU time of the session's thread while the target ran, nanoseconds. It includes all engines without threads of
    /// their own, such as the observer. It excludes loading before the start and reading binaries for the report, which
    /// do not disturb the target.
    pub own_cpu_ns: u64,
    /// Whether the end was requested: cox received a signal that ends programs, or SIGINT ended the program.
    pub interrupted: bool,
}

/// A launched program that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Process id of the program's first process.
    pub pid: u32,
    /// How the first process ended.
    pub exit: Exit,
    /// Start on CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: u64,
    /// Time when cox noticed the end, nanoseconds: at most one tick after it.
    pub end_ns: u64,
    /// CPU time of the first process and of all descendants that were waited for, nanoseconds (getrusage(2)).
    pub cpu_ns: u64,
}
