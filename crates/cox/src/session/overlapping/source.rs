//! Where pages come from, and which processes have them.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use watch::umt::{Given, Pages, Umt};
use wire::umt::How;

use super::memory::Memory;
use super::sums::Sums;
use crate::ebpf;

/// Where pages come from.
pub struct Source {
    kind: Kind,
    /// By whom blocks are noticed.
    pub how: How,
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

impl Source {
    pub fn bpf() -> Result<Source> {
        let umt = Umt::new().map_err(ebpf::explained)?;
        Ok(Source::new(Kind::Bpf(Box::new(umt)), How::Bpf))
    }

    /// By the kernel's records of switches, if it lets this user have them.
    pub fn records(how: How) -> Result<Source> {
        signal::records::probe().context(
            "the kernel gives no records of a program's own switches (perf events). Fix: sysctl kernel.perf_event_paranoid=2, \
             or use --overlap=standby-idle",
        )?;
        Source::memory(how)
    }

    pub fn memory(how: How) -> Result<Source> {
        Ok(Source::new(Kind::Memory(Memory::new()?), how))
    }

    /// The best that works, and why not better.
    pub fn best() -> Result<(Option<Source>, Option<String>)> {
        let by_bpf = match Source::bpf() {
            Ok(source) => return Ok((Some(source), None)),
            Err(why) => format!("not by eBPF: {why:#}"),
        };
        match Source::records(How::Records) {
            Ok(source) => Ok((Some(source), Some(by_bpf))),
            Err(why) => Ok((Some(Source::memory(How::Sentinels)?), Some(format!("{by_bpf}; not by perf: {why:#}")))),
        }
    }

    fn new(kind: Kind, how: How) -> Source {
        Source { kind, how, ended: Vec::new(), guests: Vec::new(), past: Sums::default() }
    }

    /// A process asks; those that get nothing are counted.
    pub fn give_or_count(&mut self, pid: u32) -> Result<Given> {
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
    pub fn over(&mut self, process: u32) {
        if let Kind::Bpf(umt) = &self.kind {
            umt.over(process);
        }
        let mut over = self.guests.extract_if(.., |guest| guest.process == process).collect::<Vec<_>>();
        over.iter_mut().for_each(|guest| guest.hung_up = Some(Instant::now()));
        self.ended.append(&mut over);
    }

    /// Where there are no pages left, the next process gets those of one that is gone; what that one has said is kept.
    fn make_room(&mut self) {
        if !self.pages().is_full() {
            return;
        }
        let Some(at) = self.ended.iter().position(Guest::is_gone) else { return };
        let process = self.ended.swap_remove(at).process;
        let past = std::mem::take(&mut self.past);
        self.past = self.pages().of(process).into_iter().fold(past, Sums::add);
        match &mut self.kind {
            Kind::Bpf(umt) => umt.pages.clear(process),
            Kind::Memory(memory) => memory.pages.clear(process),
        }
    }

    /// The session is over: nobody counts any more. What all have said.
    pub fn end(&mut self) -> Sums {
        if let Kind::Bpf(umt) = &mut self.kind {
            umt.end();
        }
        let pages = self.pages();
        (0..pages.given()).filter_map(|process| pages.of(process)).fold(self.past.clone(), Sums::add)
    }

    /// Gets ready for the next one. Whoever comes when there are too many is told then.
    pub fn prepare(&mut self) {
        if let Kind::Bpf(umt) = &mut self.kind {
            let _ = umt.prepare();
        }
    }

    pub fn arrays(&self) -> [BorrowedFd<'_>; 2] {
        match &self.kind {
            Kind::Bpf(umt) => umt.arrays(),
            Kind::Memory(memory) => memory.arrays(),
        }
    }

    fn pages(&self) -> &Pages {
        match &self.kind {
            Kind::Bpf(umt) => &umt.pages,
            Kind::Memory(memory) => &memory.pages,
        }
    }
}
