//! The packer on trial, as an engine that also finds out which runtime the program uses.

use anyhow::{Context, Result};
use machine::openmp;
use machine::process::{Backing, Task};
use machine::{CpuSet, Root};
use session::{Ended, Engine, NoCommand, Subject, Target};
use watch::Sight;

use super::cpu_choice::Wanted;
use super::packing::{How, Packing};
use crate::live::Summary;

/// Ticks after which a program that has not mapped a runtime is not asked any more.
const ASKED: u32 = 50;

/// The trial.
pub struct OnTrial {
    packing: Packing,
    openmp: bool,
    main: Option<u32>,
    asked: u32,
}

/// What came of it.
pub struct Tested {
    /// The CPUs.
    pub cpus: CpuSet,
    /// What the packer saw on trial.
    pub summary: Summary,
    /// CPU time that other programs had on these CPUs; `None` where it was not measured.
    pub others_ns: Option<u64>,
    /// Whether the program has mapped an OpenMP runtime.
    pub openmp: bool,
}

impl OnTrial {
    /// A trial on the CPUs that are wanted, with child processes or without.
    #[must_use]
    pub fn new(wanted: Wanted, children: bool) -> OnTrial {
        let how = How { children, sight: Sight::Traced, trial: true, preload: false, ..How::default() };
        OnTrial { packing: Packing::new(wanted, &how), openmp: false, main: None, asked: 0 }
    }

    fn look_at_maps(&mut self) {
        let Some(pid) = self.main.filter(|_| !self.openmp && self.asked < ASKED) else { return };
        self.asked += 1;
        // A program that ends meanwhile has none any more.
        let maps = Task::process(&Root::live(), pid).maps().unwrap_or_default();
        let names = maps.iter().filter_map(|mapping| match &mapping.backing {
            Backing::File { path, .. } => path.file_name()?.to_str(),
            _ => None,
        });
        self.openmp = names.into_iter().any(openmp::is_runtime);
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

    fn section(&mut self, ended: &Ended) -> Result<Tested> {
        let cpus = self.packing.cpus();
        let packed = self.packing.section(ended).context("the trial")?;
        Ok(Tested { cpus, summary: packed.summary, others_ns: packed.others_ns, openmp: self.openmp })
    }
}
