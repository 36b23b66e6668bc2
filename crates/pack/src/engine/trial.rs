//! A trial as an engine of a session: the kernel and the policy place the program's threads in turn, to compare the
//! two. The engine also finds out whether the program uses an OpenMP runtime.

use anyhow::{Context, Result};
use machine::openmp;
use machine::process::{Mapping, Task};
use machine::{CpuSet, Root};
use session::{Ended, Engine, NoCommand, Subject, Target};
use watch::Sight;

use super::cpu_choice::Wanted;
use super::packing::Packing;
use crate::live::{How, Summary};

/// Maximum number of times that the program's maps are searched for an OpenMP runtime: once per tick of the session.
const ASKED: u32 = 50;

/// The trial engine.
pub struct OnTrial {
    packing: Packing,
    openmp: bool,
    main: Option<u32>,
    asked: u32,
}

/// The result of a trial.
pub struct Tested {
    /// The CPUs of the pack.
    pub cpus: CpuSet,
    /// The packer's summary.
    pub summary: Summary,
    /// True if the program has mapped an OpenMP runtime.
    pub openmp: bool,
}

impl OnTrial {
    /// Makes a trial of packing on the requested CPUs. `children`: child processes are packed too.
    #[must_use]
    pub fn new(wanted: Wanted, children: bool) -> OnTrial {
        let how = How { children, sight: Sight::Traced, trial: true, preload: false, ..How::default() };
        OnTrial { packing: Packing::new(wanted, &how), openmp: false, main: None, asked: 0 }
    }

    fn look_at_maps(&mut self) {
        let Some(pid) = self.main.filter(|_| !self.openmp && self.asked < ASKED) else { return };
        self.asked += 1;
        // A program that has ended meanwhile has no maps any more.
        let maps = Task::process(&Root::live(), pid).maps().unwrap_or_default();
        self.openmp = maps.iter().filter_map(Mapping::file_name).any(openmp::is_runtime);
    }
}

impl Engine for OnTrial {
    const NAME: &'static str = "trial";
    type Section = Tested;
    type Command = NoCommand;

    fn probe(&mut self, target: &Target) -> Result<()> {
        self.packing.probe(target)
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        if let Subject::Launched(pids) = subject {
            self.main = pids.first().copied();
        }
        self.packing.apply(subject)
    }

    fn tick(&mut self) -> Result<()> {
        self.look_at_maps();
        self.packing.tick()
    }

    fn undo(&mut self) -> Result<()> {
        self.packing.undo()
    }

    fn unrestored(&self) -> Vec<String> {
        self.packing.unrestored()
    }

    fn section(&mut self, ended: &Ended) -> Result<Tested> {
        let cpus = self.packing.cpus();
        let summary = self.packing.section(ended).context("the trial")?.summary;
        Ok(Tested { cpus, summary, openmp: self.openmp })
    }
}
