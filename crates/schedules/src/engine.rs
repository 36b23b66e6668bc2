//! The engine: prepares the program, and reads the records at the end.

use std::ffi::{OsStr, OsString};
use std::fs;

use anyhow::{Context, Result, bail};
use loops::Timing;
use loops::options::{FROM, Options, Wanted};
use loops::saved::Saved;
use machine::{CpuSet, Root};
use report::loops::LoopsReport;
use session::launch::file_of;
use session::preload::LOOPS;
use session::{Ended, Engine, Launch, NoCommand, Subject, Target};
use wire::loop_records::FOLDER;

use crate::folder::Folder;
use crate::{fitness, section};

/// Environment variables of the library.
const SCHEDULE: &str = "COX_SCHEDULE";
const INPUTS: &str = "COX_SCHEDULE_INPUTS";
const TIMING: &str = "COX_TIMING";
const DELAYS: &str = "COX_LOOPS_DELAYS";
const ALONE: &str = "COX_SCHEDULE_ALONE";

/// What is asked for, as text and as options.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The schedule, as `all:fac2`.
    pub schedule: String,
    /// Facts about the loops, as `mean_ns=200`.
    pub inputs: Option<String>,
    options: Options,
    /// The schedules of single loops, from a file.
    saved: Option<Saved>,
}

impl Asked {
    /// Reads both texts.
    ///
    /// # Errors
    /// One line: what is wrong, and what to use.
    pub fn parse(schedule: &str, inputs: Option<&str>) -> Result<Asked, String> {
        let mut options = Options::parse(schedule, inputs)?;
        let (mut schedule, mut saved) = (schedule.to_owned(), None);
        if let Wanted::From(path) = &options.wanted {
            let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
            let read = Saved::parse(&text).map_err(|why| format!("{path}: {why}"))?;
            options.all = read.all;
            // The program may start in another folder.
            let path = fs::canonicalize(path).map_err(|error| format!("{path}: {error}"))?;
            schedule = format!("{FROM}{}", path.to_str().ok_or("the name of the file is not UTF-8")?);
            saved = Some(read);
        }
        Ok(Asked { schedule, inputs: inputs.map(ToOwned::to_owned), options, saved })
    }

    /// Lets adaptive schedules use this time; `None`: the one that fits the schedule.
    #[must_use]
    pub fn with_timing(mut self, timing: Option<Timing>) -> Asked {
        self.options.timing = timing;
        self
    }
}

/// The engine.
pub struct Scheduling {
    asked: Asked,
    /// Whether child processes get the schedule, too.
    children: bool,
    /// Whether to measure how long threads wait for CPUs.
    delays: bool,
    /// CPUs on which the program may run.
    allowed: Option<CpuSet>,
    folder: Option<Folder>,
    report: LoopsReport,
}

impl Scheduling {
    /// Makes the engine. `allowed`: the CPUs on which the program may run, if they are known.
    #[must_use]
    pub fn new(asked: Asked, children: bool, allowed: Option<CpuSet>) -> Scheduling {
        Scheduling { asked, children, delays: false, allowed, folder: None, report: LoopsReport::default() }
    }

    /// Also measures what the OS caused: how long threads wait for CPUs.
    #[must_use]
    pub fn with_delays(self) -> Scheduling {
        Scheduling { delays: true, ..self }
    }
}

impl Engine for Scheduling {
    const NAME: &'static str = "schedules";
    type Section = LoopsReport;
    type Command = NoCommand;

    fn probe(&mut self, target: &Target) -> Result<()> {
        let Target::Launch(launches) = target else {
            bail!("--schedule needs a program that cox starts: the loops of a running program cannot change")
        };
        let variable = |name: &str| std::env::var(name).ok();
        if let Some(why) = fitness::of_environment(&self.asked.options, variable, self.allowed.as_ref()) {
            bail!("--schedule {}: {why}", self.asked.schedule);
        }
        if let Some(why) = self.asked.saved.as_ref().and_then(fitness::of_file) {
            bail!("--schedule {}: {why}", self.asked.schedule);
        }
        let program = launches.first().and_then(|launch| launch.command.first());
        if let Some((program, why)) = program.and_then(|program| Some((program, fitness::of_program(program)?))) {
            bail!("the schedules of {} cannot change: {why}", program.display());
        }
        Ok(())
    }

    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        // A program that does not exist takes no library; the attempt to execute it reports that.
        let exists = launch.command.first().is_some_and(|program| file_of(program).is_some());
        if !LOOPS.add_to(launch) && exists {
            bail!("libcox_loops.so is not beside cox, nor in its folder lib/coxswain; COX_LOOPS_LIBRARY can name it");
        }
        let folder = Folder::make().context("making a folder for the records of loops")?;
        let mut set = |name: &str, value: &OsStr| launch.variables.push((name.into(), OsString::from(value)));
        set(FOLDER, folder.path().as_os_str());
        set(SCHEDULE, self.asked.schedule.as_ref());
        if let Some(inputs) = &self.asked.inputs {
            set(INPUTS, inputs.as_ref());
        }
        if let Some(timing) = self.asked.options.timing {
            set(TIMING, timing.name().as_ref());
        }
        if self.delays {
            set(DELAYS, "1".as_ref());
        }
        if !self.children {
            set(ALONE, "1".as_ref());
        }
        self.folder = Some(folder);
        Ok(())
    }

    fn apply(&mut self, _: &Subject) -> Result<()> {
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        // The folder is removed here.
        if let Some(folder) = self.folder.take() {
            self.report = section::of(&self.asked.options, &folder.contents(), &Root::live());
        }
        Ok(())
    }

    fn section(&mut self, _: &Ended) -> Result<LoopsReport> {
        Ok(std::mem::take(&mut self.report))
    }
}
