//! What takes time from the threads of a program, as an engine of a session: no loop, only the kernel's events.
//!
//! The events are read and summed while the program runs, so the memory does not grow with their number, but with the number of threads and causes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use interference::{Account, Causes, Interference, Listing};
use machine::Root;
use machine::cgroup::Cgroup;
use machine::topology::Topology;
use session::{Attached, Ended, Engine, NoCommand, Pauses, Subject, Target};
use watch::WatchError;
use watch::noise::{Faults, Settings};

use crate::source::{Functions, Source};

/// The time of one page fault in this many is measured: the kernel's counter for perf, to which the program is attached, costs each fault that is
/// measured as much as a small fault itself.
pub const FAULT_PERIOD: u64 = 11;
/// Size of the rings for events together, bytes. Each CPU has one of them, and each event takes up to 72.
const RING_BYTES: u32 = 32 << 20;
/// Largest size of an event in a ring, bytes.
const EVENT_BYTES: u64 = 72;

/// Largest number of intervals that are listed. They take 48 MB: two hours of the ticks of one CPU, or a minute of a hundred CPUs.
const LISTED: usize = 1_000_000;

/// The engine.
pub struct OfProgram {
    settings: Settings,
    source: Source,
    interference: Interference,
    account: Account,
    listing: Listing,
    cgroup: Option<Cgroup>,
    followed: BTreeSet<u32>,
    events: u64,
    /// With more events than this at a tick, the rings are emptied again soon.
    many_events: u64,
    pauses: Pauses,
}

/// What was taken from the threads of a program.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Why the kernel told nothing; `None` if it did.
    pub blind: Option<String>,
    /// The causes, by number.
    pub causes: Causes,
    /// Names of the kernel's functions in the causes.
    pub functions: Functions,
    /// What each cause took from each thread. The page faults are those whose time was measured.
    pub account: Account,
    /// The intervals themselves, if they were asked for: as many as there was room for. Of page faults, those whose time was measured.
    pub listing: Listing,
    /// Tracepoints that did not report, by name.
    pub without: Vec<String>,
    /// Number of events.
    pub events: u64,
    /// Number of events that did not fit into the rings.
    pub lost: u64,
}

/// Returns the settings of the events for a program.
#[must_use]
pub fn settings(children: bool) -> Settings {
    Settings { children, ring_bytes: RING_BYTES, without: Vec::new() }
}

/// Returns a tenth of the events that surely fit into the ring of one CPU: all may come on one, and the time between two ticks grows tenfold. A ring has
/// at least half of its share, since its size is a power of two.
fn many_events(cpus: u64) -> u64 {
    u64::from(RING_BYTES) / cpus.max(1) / 2 / EVENT_BYTES / 10
}

impl OfProgram {
    /// Makes the engine. `children`: whether child processes are followed too.
    #[must_use]
    pub fn new(children: bool) -> OfProgram {
        OfProgram {
            settings: settings(children),
            source: Source::none("the kernel was not asked"),
            interference: Interference::default(),
            account: Account::new(0, u64::MAX),
            listing: Listing::default(),
            cgroup: None,
            followed: BTreeSet::new(),
            events: 0,
            many_events: many_events(Topology::read_online(&Root::live()).map_or(1, |online| online.len() as u64)),
            pauses: Pauses::default(),
        }
    }

    /// Returns the engine with a list of the first intervals, for pictures over time.
    #[must_use]
    pub fn with_list(mut self) -> OfProgram {
        self.listing = Listing::with_room_for(LISTED);
        self
    }

    fn take(&mut self) -> Result<()> {
        for (event, named) in self.source.drain()? {
            self.events += 1;
            for interval in self.interference.push(&event, named.as_ref()) {
                self.account.take(&interval);
                self.listing.take(&interval);
            }
        }
        Ok(())
    }

    /// Follows processes that have joined the control group, but not those of other users that this user may not observe.
    fn follow_members(&mut self) -> Result<()> {
        let Some(cgroup) = &self.cgroup else { return Ok(()) };
        let members = cgroup.pids(&Root::live())?;
        for pid in members.difference(&self.followed) {
            self.source.follow(|events| match events.follow(*pid) {
                Err(WatchError::NoTarget { .. }) => Ok(()),
                followed => followed,
            })?;
        }
        self.followed = members;
        Ok(())
    }
}

impl Engine for OfProgram {
    const NAME: &'static str = "noise of the program";
    type Section = Taken;
    type Command = NoCommand;

    /// Without a source of events, the program runs all the same, and the report says why it has no figures of noise.
    fn probe(&mut self, _: &Target) -> Result<()> {
        self.source = Source::open(&self.settings, Faults::OneIn(FAULT_PERIOD));
        Ok(())
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        match subject {
            Subject::Launched(pids) | Subject::Attached(Attached::Processes(pids)) => {
                self.source.follow(|events| pids.iter().try_for_each(|pid| events.follow(*pid)))?;
            }
            Subject::Attached(Attached::Cgroup(cgroup)) => {
                self.cgroup = Some(cgroup.clone());
                self.follow_members()?;
            }
            Subject::Machine => {}
        }
        Ok(())
    }

    fn tick_every(&self) -> Duration {
        self.pauses.length()
    }

    fn tick(&mut self) -> Result<()> {
        self.follow_members()?;
        let before = self.events;
        self.take()?;
        self.pauses.ticked(self.events - before > self.many_events);
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        self.source.end();
        self.take()
    }

    fn section(&mut self, _: &Ended) -> Result<Taken> {
        Ok(Taken {
            blind: self.source.blind(),
            functions: self.source.functions(self.interference.causes()),
            causes: self.interference.causes().clone(),
            account: std::mem::take(&mut self.account),
            listing: std::mem::take(&mut self.listing),
            without: self.source.without(),
            events: self.events,
            lost: self.source.lost(),
        })
    }
}
