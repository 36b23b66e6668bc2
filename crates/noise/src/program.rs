//! What takes time from the threads of a program, as an engine of a session: no loop, only the kernel's events.
//!
//! The events are read and summed while the program runs, so the memory does not grow with time.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use interference::{Account, Causes, Interference};
use machine::Root;
use machine::cgroup::Cgroup;
use session::{Attached, Ended, Engine, NoCommand, Subject, Target};
use watch::noise::{Interruptions, Settings};

/// The time of one page fault in this many is measured: the kernel's counter for perf, to which the program is attached, costs each fault that is
/// measured as much as a small fault itself.
const FAULT_PERIOD: u64 = 11;
/// Size of the ring for events, bytes. It is emptied ten times a second.
const RING_BYTES: u32 = 32 << 20;

/// The engine.
pub struct OfProgram {
    settings: Settings,
    interruptions: Option<Interruptions>,
    interference: Interference,
    account: Account,
    cgroup: Option<Cgroup>,
    followed: BTreeSet<u32>,
    lost: u64,
    events: u64,
}

/// What was taken from the threads of a program.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The causes, by number.
    pub causes: Causes,
    /// What each cause took from each thread. The page faults are those whose time was measured.
    pub account: Account,
    /// For each thread, the number of its page faults.
    pub faults: Vec<(u32, u64)>,
    /// Tracepoints that did not report, by name.
    pub without: Vec<String>,
    /// Number of events.
    pub events: u64,
    /// Number of events that did not fit into the ring.
    pub lost: u64,
}

/// Returns the settings of the events for a program.
#[must_use]
pub fn settings(children: bool) -> Settings {
    Settings { children, ring_bytes: RING_BYTES, without: Vec::new() }
}

impl OfProgram {
    /// Makes the engine. `children`: whether child processes are followed too.
    #[must_use]
    pub fn new(children: bool) -> OfProgram {
        OfProgram {
            settings: settings(children),
            interruptions: None,
            interference: Interference::default(),
            account: Account::new(0, u64::MAX),
            cgroup: None,
            followed: BTreeSet::new(),
            lost: 0,
            events: 0,
        }
    }

    fn take(&mut self) -> Result<()> {
        let Some(interruptions) = &mut self.interruptions else { return Ok(()) };
        for (event, named) in interruptions.drain()? {
            self.events += 1;
            for interval in self.interference.push(&event, named.as_ref()) {
                self.account.take(&interval);
            }
        }
        Ok(())
    }

    /// Follows processes that have joined the control group.
    fn follow_members(&mut self) -> Result<()> {
        let (Some(cgroup), Some(interruptions)) = (&self.cgroup, &mut self.interruptions) else { return Ok(()) };
        let members = cgroup.pids(&Root::live())?;
        for pid in members.difference(&self.followed) {
            interruptions.follow(*pid)?;
        }
        self.followed.extend(members);
        Ok(())
    }
}

impl Engine for OfProgram {
    const NAME: &'static str = "noise of the program";
    type Section = Taken;
    type Command = NoCommand;

    fn probe(&mut self, _: &Target) -> Result<()> {
        let interruptions = Interruptions::new(&self.settings, None, FAULT_PERIOD);
        self.interruptions = Some(interruptions.context("--noise needs eBPF")?);
        Ok(())
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        let Some(interruptions) = &mut self.interruptions else { bail!("the engine was not probed") };
        match subject {
            Subject::Launched(pids) | Subject::Attached(Attached::Processes(pids)) => {
                pids.iter().try_for_each(|pid| interruptions.follow(*pid))?;
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
        Duration::from_millis(100)
    }

    fn tick(&mut self) -> Result<()> {
        self.follow_members()?;
        self.take()
    }

    fn undo(&mut self) -> Result<()> {
        if let Some(interruptions) = &mut self.interruptions {
            interruptions.end();
        }
        self.take()?;
        self.lost = self.interruptions.as_ref().map_or(0, Interruptions::lost);
        Ok(())
    }

    fn section(&mut self, _: &Ended) -> Result<Taken> {
        let without = self.interruptions.as_ref().map_or_else(Vec::new, Interruptions::without);
        let threads = self.account.threads();
        Ok(Taken {
            causes: self.interference.causes().clone(),
            faults: threads.iter().map(|tid| (*tid, self.interference.faults_of(*tid))).collect(),
            account: std::mem::take(&mut self.account),
            without: without.into_iter().map(str::to_owned).collect(),
            events: self.events,
            lost: self.lost,
        })
    }
}
