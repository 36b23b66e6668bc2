//! The engine: chooses the CPUs, applies the plan to a program or to the machine, and restores everything.

use std::env;
use std::process;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use changes::guardian::Guardian;
use changes::undo::Undone;
use changes::{JournalFolder, Knob, LiveKnobIo, Name, Session};
use machine::{CpuSet, Root};
use report::quiet::{ChangedSetting, QuietReport, Restored, SCHEMA_VERSION, UnmovedInterrupt};
use session::{Ended, Engine, Launch, NoCommand, Subject, Target};

use crate::applied::Applied;
use crate::counting::Counting;
use crate::cpu_choice::{Chosen, check, choose};
use crate::facts::{Facts, Interrupt};
use crate::level::Level;
use crate::plan::{Extent, NOTHING, Plan, Step, plan};
use crate::tasks::Tasks;

/// How often cox looks for threads that have come to the root cpuset. It wakes up on a housekeeping CPU.
const SWEEP: Duration = Duration::from_secs(1);

/// The CPUs that the user wants to be quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuRequest {
    /// These CPUs.
    Named(CpuSet),
    /// This many, which cox chooses.
    Count(usize),
}

impl CpuRequest {
    /// Returns the CPUs that fit the request.
    ///
    /// # Errors
    /// [`Refusal`](crate::Refusal): the reason why they cannot become quiet.
    pub fn choose(&self, facts: &Facts) -> Result<Chosen, crate::Refusal> {
        match self {
            CpuRequest::Named(cpus) => check(facts, cpus),
            CpuRequest::Count(count) => choose(facts, *count),
        }
    }
}

/// The engine that keeps CPUs quiet.
pub struct Quieting {
    request: CpuRequest,
    extent: Extent,
    knob_io: &'static LiveKnobIo,
    /// The program, as text for the report.
    command: Vec<String>,
    plan: Option<Plan>,
    applied: Option<Applied<'static>>,
    /// What comes to the quiet CPUs.
    counting: Counting,
    /// The CPUs whose tick the kernel can stop.
    nohz_full: CpuSet,
    /// The device interrupts, as they were before.
    interrupts: Vec<Interrupt>,
    /// The report, as far as it is known.
    report: QuietReport,
}

impl Quieting {
    /// Makes an engine that keeps these CPUs quiet.
    #[must_use]
    pub fn new(request: CpuRequest, extent: Extent) -> Quieting {
        Quieting {
            request,
            extent,
            // A session borrows it until the process ends.
            knob_io: Box::leak(Box::new(LiveKnobIo::new(Root::live()))),
            command: Vec::new(),
            plan: None,
            applied: None,
            counting: Counting::default(),
            nohz_full: CpuSet::new(),
            interrupts: Vec::new(),
            report: QuietReport { schema_version: SCHEMA_VERSION, ..QuietReport::default() },
        }
    }

    /// Applies the plan, and leaves it to the machine. Returns it with the name by which it can be undone.
    ///
    /// # Errors
    /// As [`Engine::probe`] and [`Engine::apply`].
    pub fn keep(mut self) -> Result<(Plan, usize, Name)> {
        self.probe(&Target::Machine)?;
        self.apply(&Subject::Machine)?;
        let applied = self.applied.take().context("level pin changes nothing without a program")?;
        let (plan, moved) = (applied.plan().clone(), applied.moved());
        Ok((plan, moved, applied.keep()?))
    }

    /// Restores everything. Returns what could not be restored.
    fn finish(&mut self) -> Vec<String> {
        let Some(applied) = self.applied.take() else { return Vec::new() };
        self.report.threads_moved = applied.moved() as u64;
        self.report.settings = applied.changed().map(setting).collect();
        self.report.unmoved = applied.unmoved_interrupts().filter_map(|knob| self.unmoved(knob)).collect();
        let undone = applied.end();
        self.report.undone = restored(&undone);
        undone.failures().collect()
    }

    /// Returns an interrupt that the kernel did not let cox move; `None` for another knob.
    fn unmoved(&self, knob: &Knob) -> Option<UnmovedInterrupt> {
        let Knob::Interrupt { name, ordinal } = knob else { return None };
        let found = self.interrupts.iter().filter(|one| one.name == *name).nth(*ordinal as usize);
        Some(UnmovedInterrupt { name: name.clone(), is_managed: found.is_some_and(|one| one.is_message) })
    }
}

fn restored(undone: &Undone) -> Restored {
    Restored {
        restored: undone.restored as u64,
        born: undone.born as u64,
        gone: undone.gone as u64,
        held_by_others: undone.inherited as u64,
        left: undone.left.iter().map(ToString::to_string).collect(),
        troubles: undone.troubles.clone(),
    }
}

fn setting(step: &Step) -> ChangedSetting {
    ChangedSetting {
        level: step.level.to_string(),
        name: step.name.clone(),
        before: Some(step.now.clone()).filter(|now| now != NOTHING),
        value: step.wanted.clone(),
    }
}

impl Engine for Quieting {
    const NAME: &'static str = "quiet";
    type Section = QuietReport;
    type Command = NoCommand;

    fn probe(&mut self, target: &Target) -> Result<()> {
        if matches!(target, Target::Attach(_)) {
            bail!("only a program that cox starts can have quiet CPUs");
        }
        if self.extent.level > Level::Pin {
            privileged()?;
            // What a killed session left would be taken for settings of the user.
            let journals = JournalFolder::of_user();
            let lock = journals.lock()?;
            journals.settle_dead(&lock, self.knob_io)?;
        }
        let facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
        let plan = plan(&facts, &self.request.choose(&facts)?, self.extent);
        if self.extent.level > Level::Pin && plan.cpusets.is_none() {
            let why = plan.obstacles.iter().find(|obstacle| obstacle.level == Level::Cgroup);
            bail!("{}", why.map_or_else(String::new, |why| format!("{}. Fix: {}", why.what, why.instead)));
        }
        self.command = target.words();
        self.nohz_full = facts.nohz_full.clone().unwrap_or_default();
        self.interrupts.clone_from(&facts.interrupts);
        let obstacles = plan.obstacles.iter().map(ToString::to_string);
        self.report.stays = plan.chosen.prices.iter().cloned().chain(obstacles).collect();
        self.plan = Some(plan);
        Ok(())
    }

    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        // The program asks for exactly these CPUs, whatever mask cox inherited: the kernel remembers a mask that was
        // once asked for, and applies it in each cpuset (Linux 6.2).
        launch.cpus = self.plan.as_ref().map(|plan| plan.chosen.cpus.clone());
        Ok(())
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        let plan = self.plan.clone().context("the CPUs are not chosen")?;
        if plan.extent.level > Level::Pin {
            let root = Root::live();
            let tasks = Tasks::of(&root, plan.cpusets.as_ref().map(|own| own.hierarchy.as_path()))?;
            // The first program is the one that was prepared.
            let program: Vec<u32> = match subject {
                Subject::Launched(pids) => pids.first().copied().into_iter().collect(),
                _ => Vec::new(),
            };
            let words: Vec<String> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let guardian = |journal: &_| Guardian::of_this_program(journal, &[arch::laps::VARIABLE]).map(Some);
            let journals = JournalFolder::of_user();
            let session = Session::begin(self.knob_io, journals, process::id(), &words.join(" "), guardian)?;
            let applied = Applied::make(session, plan, Box::new(tasks), &program).map_err(|refused| {
                let (error, undone) = *refused;
                let failures: Vec<String> = undone.failures().collect();
                let error = Error::from(error);
                if failures.is_empty() { error } else { error.context(failures.join("; ")) }
            })?;
            self.applied = Some(applied);
        }
        let cpus = self.plan.as_ref().map(|plan| &plan.chosen.cpus);
        self.counting = cpus.map(|cpus| Counting::open(cpus, &self.nohz_full)).unwrap_or_default();
        Ok(())
    }

    fn on_start(&mut self) {
        self.counting.start();
    }

    fn on_end(&mut self) {
        let counted = self.counting.end();
        self.report.interrupts = counted.interrupts;
        self.report.counted_ns = counted.length_ns;
        self.report.ticks = counted.ticks;
    }

    fn tick_every(&self) -> Duration {
        SWEEP
    }

    fn tick(&mut self) -> Result<()> {
        self.applied.as_mut().map_or(Ok(()), |applied| Ok(applied.sweep()?))
    }

    fn undo(&mut self) -> Result<()> {
        let failures = self.finish();
        if failures.is_empty() { Ok(()) } else { bail!("{}", failures.join("; ")) }
    }

    fn section(&mut self, ended: &Ended) -> Result<QuietReport> {
        let plan = self.plan.take().context("the CPUs were not chosen")?;
        let is_changed = plan.extent.level > Level::Pin;
        Ok(QuietReport {
            cox_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: std::mem::take(&mut self.command),
            cpus: plan.chosen.cpus.to_string(),
            count: plan.chosen.cpus.len() as u64,
            housekeeping: plan.chosen.housekeeping.to_string(),
            level: plan.extent.level.to_string(),
            isolated: is_changed && plan.extent.isolated,
            length_ns: ended.end_ns.saturating_sub(ended.start_ns),
            ..std::mem::take(&mut self.report)
        })
    }
}

/// Refuses a user who may not change the machine's settings.
fn privileged() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "only root may change settings of the machine. Fix: sudo cox …, or --level pin, which needs no privilege"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_with_the_journal_are_not_lost() {
        let undone = Undone { inherited: 2, troubles: vec!["no space left".to_owned()], ..Undone::default() };
        let restored = restored(&undone);
        assert_eq!((restored.held_by_others, restored.troubles), (2, vec!["no space left".to_owned()]));
    }
}
