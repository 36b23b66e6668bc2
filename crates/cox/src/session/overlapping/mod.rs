//! Overlap as an engine: gives each process that asks for it the kernel's word on its blocked threads.
//!
//! The work is done elsewhere: in the program by `preload` and `tasks`, in the kernel by `watch::umt`. This engine loads the
//! kernel's part, answers processes at a socket ([`desk`]), and adds up in the end what all of them say.

mod desk;
mod memory;

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use watch::umt::{Given, Umt};
use wire::umt::{DELAYS, Said, Seen};

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
    /// A thread of the idle class on each CPU notices when nobody else wants it: without privileges
    StandbyIdle,
    /// They are not: tasks are run by cox's runtime instead of libgomp's, and nothing more
    Off,
}

/// What the preload library reads to know what is wanted of it.
const VARIABLE: &str = "COX_OVERLAP";

/// Where pages come from.
struct Source {
    kind: Kind,
    /// Those that have hung up, and those that have not.
    ended: Vec<Guest>,
    guests: Vec<Guest>,
    /// What they and those refused have said whose pages others have now.
    past: Sums,
}

/// A process that was given pages.
struct Guest {
    process: u32,
    /// `None`: it was gone before it could be asked for.
    pidfd: Option<OwnedFd>,
    hung_up: Option<Instant>,
}

/// Between a process' last thread being gone, as it says, and that thread's last switch being counted lies less than this.
const LAST_SWITCH: Duration = Duration::from_millis(100);

impl Guest {
    fn new(process: u32, pid: u32) -> Guest {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Guest { process, pidfd, hung_up: None }
    }

    /// Whether none of its threads is left.
    fn is_gone(&self) -> bool {
        let has_ended = self.pidfd.as_ref().is_none_or(|pidfd| {
            let mut wanted = [PollFd::new(pidfd, PollFlags::IN)];
            poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
        });
        has_ended && self.hung_up.is_some_and(|since| since.elapsed() > LAST_SWITCH)
    }
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
        let mut passed_over = None;
        let source = match backend {
            Backend::Off => None,
            Backend::Bpf => Some(Kind::Bpf(Box::new(Umt::new().map_err(ebpf::explained)?))),
            Backend::StandbyIdle => Some(Kind::Memory(Memory::new()?)),
            Backend::Auto => Some(match Umt::new() {
                Ok(umt) => Kind::Bpf(Box::new(umt)),
                Err(error) => {
                    passed_over = Some(ebpf::explained(error).to_string());
                    Kind::Memory(Memory::new()?)
                }
            }),
        };
        let backend = match &source {
            None => "off",
            Some(Kind::Bpf(_)) => "bpf",
            Some(Kind::Memory(_)) => "standby-idle",
        };
        let source = source.map(|kind| Arc::new(Mutex::new(Source::new(kind))));
        let desk = source.as_ref().map(|source| Desk::open(Arc::clone(source))).transpose()?;
        Ok(Overlapping { source, backend, desk, passed_over, sums: None })
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
            self.sums = Some(pages.fold(source.past.clone(), Sums::add));
        }
        Ok(())
    }
}

impl Source {
    fn new(kind: Kind) -> Source {
        Source { kind, ended: Vec::new(), guests: Vec::new(), past: Sums::default() }
    }

    /// A process asks; those that get nothing are counted.
    fn give_or_count(&mut self, pid: u32) -> Result<Given> {
        self.make_room();
        let given = match &mut self.kind {
            Kind::Bpf(umt) => umt.give(pid).map_err(Into::into),
            Kind::Memory(memory) => memory.give(),
        };
        match &given {
            Ok(given) => self.guests.push(Guest::new(given.process, pid)),
            Err(_) => self.past.refused += 1,
        }
        given
    }

    /// A process has hung up: it has ended, or wants no more.
    fn over(&mut self, process: u32) {
        if let Kind::Bpf(umt) = &self.kind {
            umt.over(process);
        }
        let mut over = self.guests.extract_if(.., |guest| guest.process == process).collect::<Vec<_>>();
        over.iter_mut().for_each(|guest| guest.hung_up = Some(Instant::now()));
        self.ended.append(&mut over);
    }

    /// Where there are no pages left, the next process gets those of one that is gone; what that one has said is kept.
    fn make_room(&mut self) {
        let is_full = match &self.kind {
            Kind::Bpf(umt) => umt.is_full(),
            Kind::Memory(memory) => memory.is_full(),
        };
        let Some(at) = self.ended.iter().position(Guest::is_gone).filter(|_| is_full) else { return };
        let process = self.ended.swap_remove(at).process;
        let past = std::mem::take(&mut self.past);
        self.past = self.pages(process).into_iter().fold(past, Sums::add);
        match &mut self.kind {
            Kind::Bpf(umt) => umt.clear(process),
            Kind::Memory(memory) => memory.clear(process),
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
