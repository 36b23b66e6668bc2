//! Where and how the programs of this experiment run: on the CPU that cox chooses, pinned to it or under `cox quiet`.

use std::process::Command;

use anyhow::{Context, Result};
use machine::{CpuSet, Root};
use quiet::{Facts, Level, choose};

use crate::noise::field::{CoRunner, Field};

/// A load on all CPUs: a computing thread on each of two, one that maps memory, one that writes to the disk.
const LOAD: [&str; 9] = ["--cpu", "2", "--vm", "1", "--hdd", "1", "--quiet", "--timeout", "3600"];

/// Starts the load. Dropping the value ends it.
pub fn load(field: &Field<'_>) -> Result<CoRunner> {
    field.beside("stress-ng", &LOAD)
}

/// The CPU that cox chooses, and the others.
pub struct Place {
    pub cpu: u32,
    pub housekeeping: CpuSet,
}

impl Place {
    pub fn chosen() -> Result<Place> {
        let facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
        let cpu = choose(&facts, 1)?.cpus.iter().next().context("cox has chosen no CPU")?;
        let housekeeping = facts.topology.online.iter().filter(|other| *other != cpu).collect();
        Ok(Place { cpu, housekeeping })
    }

    /// Returns the CPU and the others.
    pub fn online(&self) -> CpuSet {
        self.housekeeping.iter().chain([self.cpu]).collect()
    }
}

/// What a program runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// Nothing: it may use all CPUs.
    Nothing,
    /// `taskset`: it may use one CPU only, and others may use that, too.
    Taskset,
    /// `cox quiet` with a level.
    Quiet(Level),
}

impl Under {
    pub fn name(self) -> String {
        match self {
            Under::Nothing => "no attempt".to_owned(),
            Under::Taskset => "taskset".to_owned(),
            Under::Quiet(level) => format!("cox quiet, level {level}"),
        }
    }

    /// Returns the command that runs a program on the place's CPU: the program and its arguments are to be appended.
    pub fn command(self, field: &Field<'_>, place: &Place) -> Command {
        let cpu = place.cpu.to_string();
        match self {
            Under::Nothing => Command::new("env"),
            Under::Taskset => {
                let mut command = Command::new("taskset");
                command.args(["-c", &cpu]);
                command
            }
            Under::Quiet(level) => {
                let mut command = Command::new(&field.cox);
                command.args(["quiet", "--quiet", "--cpus", &cpu, "--level", level.name(), "--"]);
                command
            }
        }
    }
}
