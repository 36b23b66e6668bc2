//! Overlap as an engine: gives each process that asks for it the kernel's word on its blocked threads.
//!
//! The work is done elsewhere: in the program by `preload` and `tasks`, in the kernel by `watch::umt`. This engine loads the
//! kernel's part, answers processes at a socket ([`desk`]), and adds up in the end what all of them say.

mod desk;
pub mod fitness;
mod memory;
mod source;
mod sums;

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use report::overlap::Noticed;
use wire::umt::How;

use self::desk::Desk;
use self::source::Source;
#[cfg(test)]
pub use self::sums::Reasons;
pub use self::sums::Sums;
use super::Subject;
use super::engine::Engine;

/// How blocked threads are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// The best that works
    #[default]
    Auto,
    /// eBPF rings a doorbell when a thread blocks while tasks are pending
    Bpf,
    /// The kernel's records of the program's own switches wake one of those that wait for work: without privileges
    Perf,
    /// A thread of the idle class on each CPU notices when nobody else wants it: without privileges
    StandbyIdle,
    /// One thread is woken at every switch and rings, as in the UMT paper: for comparison
    Leader,
    /// They are not: tasks are run by cox's runtime instead of libgomp's, and nothing more
    Off,
}

/// What the preload library reads to know what is wanted of it.
const VARIABLE: &str = "COX_OVERLAP";

/// The engine.
pub struct Overlapping {
    source: Option<Arc<Mutex<Source>>>,
    backend: Noticed,
    desk: Option<Desk>,
    /// Why blocked threads are not noticed, where they could not be.
    pub passed_over: Option<String>,
    /// Why the program's tasks cannot be taken over.
    pub unfit: Option<String>,
    /// What came of it; there after `undo`.
    pub sums: Option<Sums>,
}

impl Overlapping {
    /// Loads what the backend needs.
    ///
    /// # Errors
    /// When a named backend cannot work here.
    pub fn new(backend: Backend) -> Result<Overlapping> {
        let (source, passed_over) = match backend {
            Backend::Auto => Source::best()?,
            Backend::Bpf => (Some(Source::bpf()?), None),
            Backend::Perf => (Some(Source::records(How::Records)?), None),
            Backend::Leader => (Some(Source::records(How::Leader)?), None),
            Backend::StandbyIdle => (Some(Source::memory(How::Sentinels)), None),
            Backend::Off => (None, None),
        };
        let backend = source.as_ref().map_or(Noticed::Off, |source| match source.how {
            How::Bpf => Noticed::Bpf,
            How::Records => Noticed::Perf,
            How::Sentinels => Noticed::StandbyIdle,
            How::Leader => Noticed::Leader,
        });
        let source = source.map(|source| Arc::new(Mutex::new(source)));
        let desk = source.as_ref().map(|source| Desk::open(Arc::clone(source))).transpose()?;
        Ok(Overlapping { source, backend, desk, passed_over, unfit: None, sums: None })
    }

    /// How blocked threads are noticed.
    #[must_use]
    pub fn backend(&self) -> Noticed {
        self.backend
    }

    /// Whether processes can ask for doorbells.
    #[must_use]
    pub fn has_doorbells(&self) -> bool {
        self.source.is_some()
    }

    /// What the program is started with, beside the preload library.
    #[must_use]
    pub fn variable(&self) -> (OsString, OsString) {
        let mut value = OsString::from("off");
        if let Some(desk) = &self.desk {
            value = "on,".into();
            value.push(desk.path());
            value.push(OsStr::new(","));
            value.push(desk.nonce());
        }
        (VARIABLE.into(), value)
    }
}

impl Engine for Overlapping {
    fn apply(&mut self, _: &Subject) -> Result<()> {
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        // First the desk: a process that still runs learns by its socket that nobody counts any more.
        self.desk = None;
        if let Some(source) = &self.source {
            self.sums = Some(source.lock().unwrap_or_else(PoisonError::into_inner).end());
        }
        Ok(())
    }
}
