//! The overlap engine of a session: when a thread of the program blocks, a standby thread runs tasks in its place.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use outputs::diagnostics::say;
use report::overlap::Noticed;
use session::{Ended, Engine, Launch, NoCommand, Subject, Target, preload};
use wire::umt::How;

use crate::fitness;
use crate::registration::{REQUEST_LIMIT, RegistrationServer};
use crate::source::{Source, lock};
use crate::sums::Sums;

/// How blocked threads are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Backend {
    /// The best backend that works here: bpf, else perf, else standby-idle.
    #[default]
    Auto,
    /// eBPF wakes a standby (a sleeping worker) when a thread blocks while tasks are pending.
    Bpf,
    /// The kernel writes a perf record at each switch-out, and that wakes a standby (a sleeping worker). Needs no privileges.
    Perf,
    /// On each CPU, a thread of the idle class runs when no other thread wants the CPU, and wakes a standby. Needs no privileges.
    StandbyIdle,
    /// The kernel wakes one leader thread at every switch, and the leader wakes standbys, as in the UMT paper. For comparison.
    Leader,
    /// cox's runtime runs the tasks, but blocked threads are not noticed. For comparison.
    Off,
}

/// Environment variable for the preload library in the program: the address of this session, which decides how blocked threads are noticed, or `off`.
const VARIABLE: &str = "COX_OVERLAP";

/// The overlap engine.
pub struct Overlapping {
    backend: Backend,
    /// Whether cox also runs the tasks of child processes.
    children: bool,
    source: Option<Arc<Mutex<Source>>>,
    server: Option<RegistrationServer>,
    /// Why a better backend is not used; `None` if the best one is used, or if the user has chosen the backend.
    passed_over: Option<String>,
    /// Why cox's runtime cannot run the program's tasks.
    unfit: Option<String>,
    sums: Option<Sums>,
}

/// The engine's results.
pub struct Counted {
    /// How blocked threads were noticed.
    pub noticed: Noticed,
    /// Whether processes could ask cox for doorbells, the descriptors through which cox wakes standby threads.
    pub has_doorbells: bool,
    /// Why a better backend was not used; `None` if the best one was used, or if the user had chosen the backend.
    pub passed_over: Option<String>,
    /// Why cox's runtime could not run the program's tasks.
    pub unfit: Option<String>,
    /// Sums over all processes.
    pub sums: Sums,
}

impl Overlapping {
    /// Makes the engine. `backend`: how it notices blocked threads. `children`: whether cox also runs the tasks of child
    /// processes.
    #[must_use]
    pub fn new(backend: Backend, children: bool) -> Overlapping {
        Overlapping { backend, children, source: None, server: None, passed_over: None, unfit: None, sums: None }
    }

    fn noticed(&self) -> Noticed {
        self.source.as_ref().map_or(Noticed::Off, |source| match lock(source).how {
            How::Bpf => Noticed::Bpf,
            How::Records => Noticed::Perf,
            How::Sentinels => Noticed::StandbyIdle,
            How::Leader => Noticed::Leader,
        })
    }

    /// Returns the environment variable that the program gets in addition to those of the preload library.
    fn variable(&self) -> (OsString, OsString) {
        let mut value = OsString::from(if self.server.is_some() { "on," } else { "off" });
        self.server.iter().for_each(|server| value.push(server.address()));
        (VARIABLE.into(), value)
    }
}

impl Engine for Overlapping {
    const NAME: &'static str = "overlap";
    type Section = Counted;
    type Command = NoCommand;

    /// If the user names a backend, it has to work here. Otherwise the best one that works is chosen.
    fn probe(&mut self, target: &Target) -> Result<()> {
        if !matches!(target, Target::Launch(_)) {
            bail!("overlap needs a program that cox starts: the tasks of a running program cannot be taken over");
        }
        let (source, passed_over) = match self.backend {
            Backend::Auto => Source::best()?,
            Backend::Bpf => (Some(Source::bpf()?), None),
            Backend::Perf => (Some(Source::records(How::Records)?), None),
            Backend::Leader => (Some(Source::records(How::Leader)?), None),
            Backend::StandbyIdle => (Some(Source::memory(How::Sentinels)), None),
            Backend::Off => (None, None),
        };
        (self.source, self.passed_over) = (source.map(|source| Arc::new(Mutex::new(source))), passed_over);
        Ok(())
    }

    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        self.unfit = launch.command.first().and_then(|program| fitness::why_not(program));
        if let Some(why) = &self.unfit {
            say(why);
            return Ok(());
        }
        self.server = self.source.clone().map(|source| RegistrationServer::open(source, REQUEST_LIMIT)).transpose()?;
        preload::add_to(launch, !self.children);
        launch.variables.push(self.variable());
        Ok(())
    }

    fn apply(&mut self, _: &Subject) -> Result<()> {
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        // Close the server first: a process that still runs learns from its closed socket that blocks are no longer counted.
        self.server = None;
        self.sums = Some(self.source.as_ref().map_or_else(Sums::default, |source| lock(source).end()));
        Ok(())
    }

    fn section(&mut self, _: &Ended) -> Result<Counted> {
        Ok(Counted {
            noticed: self.noticed(),
            has_doorbells: self.source.is_some(),
            passed_over: self.passed_over.take(),
            unfit: self.unfit.take(),
            sums: self.sums.take().context("the session has not ended")?,
        })
    }
}
