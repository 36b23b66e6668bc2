//! Overlap as an engine: gives each process that asks for it the kernel's word on its blocked threads.
//!
//! The work is done elsewhere: in the program by `preload` and `tasks`, in the kernel by `watch::umt`. This engine loads the
//! kernel's part, answers processes at a socket ([`desk`]), and adds up in the end what all of them say.

mod desk;
pub mod fitness;
mod memory;

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use watch::umt::{Given, Umt};
use wire::umt::{DELAYS, How, Said, Seen};

use self::desk::Desk;
use self::memory::Memory;
use super::Subject;
use super::engine::Engine;
use crate::ebpf;

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

/// Where pages come from.
struct Source {
    kind: Kind,
    /// By whom blocks are noticed.
    how: How,
    /// Processes that have asked and got none.
    refused: u64,
}

enum Kind {
    Bpf(Box<Umt>),
    Memory(Memory),
}

/// The engine.
pub struct Overlapping {
    source: Option<Arc<Mutex<Source>>>,
    backend: &'static str,
    desk: Option<Desk>,
    /// Why blocked threads are not noticed, where they could not be.
    pub passed_over: Option<String>,
    /// Why the program's tasks cannot be taken over.
    pub unfit: Option<String>,
    /// What came of it; there after `undo`.
    pub sums: Option<Sums>,
}

/// What all processes of a session say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Processes that asked.
    pub processes: u64,
    /// Standbys that were made.
    pub standbys: u64,
    /// Tasks that they ran.
    pub ran: u64,
    /// Blocks of threads that count.
    pub blocks: u64,
    /// Rings by BPF, and by the programs themselves.
    pub rings: u64,
    /// … of these by the programs.
    pub own_rings: u64,
    /// Rings that found no task.
    pub empty: u64,
    /// Times that a standby left tasks to others because too many threads were runnable.
    pub surrendered: u64,
    /// CPUs that went idle while tasks were pending and no standby was parked.
    pub unheard: u64,
    /// Standbys that could not be made.
    pub failed: u64,
    /// Processes without standbys, since they have thread-local data of their own.
    pub thread_data: u64,
    /// … since their threads are bound to places.
    pub bound: u64,
    /// … since BPF knows their threads by other numbers.
    pub unseen: u64,
    /// Times that two tasks were given the same thread number.
    pub shared_numbers: u64,
    /// Teams whose queues BPF could not see.
    pub unshared: u64,
    /// Times that a scan found a task and a free CPU of which nobody was told.
    pub overlooked: u64,
    /// Processes that asked and got nothing.
    pub refused: u64,
    /// Rings by BPF, by time until the first task: class n begins at 2^(n/4) us.
    pub heard: Vec<u64>,
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
            Backend::StandbyIdle => (Some(Source::memory(How::Sentinels)?), None),
            Backend::Off => (None, None),
        };
        let backend = source.as_ref().map_or("off", |source| match source.how {
            How::Bpf => "bpf",
            How::Records => "perf",
            How::Sentinels => "standby-idle",
            How::Leader => "leader",
        });
        let source = source.map(|source| Arc::new(Mutex::new(source)));
        let desk = source.as_ref().map(|source| Desk::open(Arc::clone(source))).transpose()?;
        Ok(Overlapping { source, backend, desk, passed_over, unfit: None, sums: None })
    }

    /// How blocked threads are noticed.
    #[must_use]
    pub fn backend(&self) -> &'static str {
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
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            if let Kind::Bpf(umt) = &mut source.kind {
                umt.end();
            }
            let pages = (0..source.given()).filter_map(|process| source.pages(process));
            self.sums = Some(pages.fold(Sums { refused: source.refused, ..Sums::default() }, Sums::add));
        }
        Ok(())
    }
}

impl Source {
    fn bpf() -> Result<Source> {
        let umt = Umt::new().map_err(ebpf::explained)?;
        Ok(Source { kind: Kind::Bpf(Box::new(umt)), how: How::Bpf, refused: 0 })
    }

    /// By the kernel's records of switches, if it lets this user have them.
    fn records(how: How) -> Result<Source> {
        signal::records::probe().context(
            "the kernel gives no records of a program's own switches (perf events). Fix: sysctl kernel.perf_event_paranoid=2, \
             or use --overlap=standby-idle",
        )?;
        Source::memory(how)
    }

    fn memory(how: How) -> Result<Source> {
        Ok(Source { kind: Kind::Memory(Memory::new()?), how, refused: 0 })
    }

    /// The best that works, and why not better.
    fn best() -> Result<(Option<Source>, Option<String>)> {
        let by_bpf = match Source::bpf() {
            Ok(source) => return Ok((Some(source), None)),
            Err(why) => format!("not by eBPF: {why:#}"),
        };
        match Source::records(How::Records) {
            Ok(source) => Ok((Some(source), Some(by_bpf))),
            Err(why) => Ok((Some(Source::memory(How::Sentinels)?), Some(format!("{by_bpf}; not by perf: {why:#}")))),
        }
    }

    /// A process asks; those that get nothing are counted.
    fn give_or_count(&mut self, pid: u32) -> Result<Given> {
        let given = match &mut self.kind {
            Kind::Bpf(umt) => umt.give(pid).map_err(Into::into),
            Kind::Memory(memory) => memory.give(),
        };
        self.refused += u64::from(given.is_err());
        given
    }

    /// A process has ended.
    fn over(&self, process: u32) {
        if let Kind::Bpf(umt) = &self.kind {
            umt.over(process);
        }
    }

    /// Gets ready for the next one. Whoever comes when there are too many is told then.
    fn prepare(&mut self) {
        if let Kind::Bpf(umt) = &mut self.kind {
            let _ = umt.prepare();
        }
    }

    fn arrays(&self) -> [BorrowedFd<'_>; 2] {
        match &self.kind {
            Kind::Bpf(umt) => umt.arrays(),
            Kind::Memory(memory) => memory.arrays(),
        }
    }

    fn given(&self) -> u32 {
        match &self.kind {
            Kind::Bpf(umt) => umt.given(),
            Kind::Memory(memory) => memory.given(),
        }
    }

    fn pages(&self, process: u32) -> Option<(&Said, &Seen)> {
        match &self.kind {
            Kind::Bpf(umt) => umt.pages(process),
            Kind::Memory(memory) => memory.pages(process),
        }
    }
}

impl Sums {
    fn add(mut self, (said, seen): (&Said, &Seen)) -> Sums {
        let counts = &said.counts.0;
        self.processes += 1;
        for (sum, word) in [
            (&mut self.standbys, &counts.standbys),
            (&mut self.ran, &counts.ran),
            (&mut self.blocks, &seen.blocks),
            (&mut self.rings, &seen.rings),
            (&mut self.own_rings, &counts.own_rings),
            (&mut self.empty, &counts.empty),
            (&mut self.surrendered, &counts.surrendered),
            (&mut self.unheard, &seen.unheard),
            (&mut self.failed, &counts.failed),
            (&mut self.thread_data, &counts.thread_data),
            (&mut self.bound, &counts.bound),
            (&mut self.unseen, &counts.unseen),
            (&mut self.shared_numbers, &counts.shared_numbers),
            (&mut self.unshared, &counts.unshared),
            (&mut self.overlooked, &counts.overlooked),
        ] {
            *sum = sum.saturating_add(word.load(Ordering::Relaxed));
        }
        self.rings = self.rings.saturating_add(counts.own_rings.load(Ordering::Relaxed));
        self.heard.resize(DELAYS, 0);
        for (sum, word) in self.heard.iter_mut().zip(&said.heard.0) {
            *sum = sum.saturating_add(word.load(Ordering::Relaxed));
        }
        self
    }

    /// A quantile of the time from a ring to the first task, in microseconds; `None`: nobody was rung.
    #[must_use]
    pub fn delay_us(&self, part: f64) -> Option<f64> {
        let all: u64 = self.heard.iter().sum();
        let mut left = (all as f64 * part).ceil() as u64;
        let class = self.heard.iter().position(|count| {
            let here = left <= *count && *count > 0;
            left = left.saturating_sub(*count);
            here
        })?;
        // The middle of the class.
        Some(2f64.powf((class as f64 + 0.5) / 4.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_their_class() {
        let mut sums = Sums { heard: vec![0; DELAYS], ..Sums::default() };
        assert_eq!(sums.delay_us(0.5), None);
        sums.heard[8] = 3;
        sums.heard[20] = 1;
        assert_eq!(sums.delay_us(0.5).map(f64::round), Some(4.0));
        assert_eq!(sums.delay_us(0.75).map(f64::round), Some(4.0));
        assert_eq!(sums.delay_us(0.99).map(f64::round), Some(35.0));
    }
}
