//! The engine: chooses the CPUs, applies the plan to a program or to the machine, and restores everything.

use std::env;
use std::process;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use changes::guardian::Guardian;
use changes::undo::Undone;
use changes::{JournalFolder, LiveKnobIo, Name, Session};
use machine::{CpuSet, Root};
use report::quiet::{QuietReport, SCHEMA_VERSION, Setting, Undone as Restored};
use session::{Ended, Engine, Launch, NoCommand, Subject, Target};
use watch::ticks::{Kept, TickDependencies};

use crate::applied::Applied;
use crate::census::Census;
use crate::cpu_choice::{Chosen, check, choose};
use crate::facts::Facts;
use crate::level::Level;
use crate::plan::{Extent, NOTHING, Plan, What, plan};
use crate::tasks::Tasks;

/// How often cox looks for threads that have come to the root cpuset. It wakes up on a housekeeping CPU.
const SWEEP: Duration = Duration::from_secs(1);

/// The row of /proc/interrupts with the local timer's interrupts.
const TICK: &str = "LOC";
/// Interrupts of the local timer that a CPU without tick has each second: timers that the kernel binds to it.
const TICKS_PER_S: f64 = 2.0;

/// The CPUs that the user wants to be quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// These CPUs.
    Named(CpuSet),
    /// This many, which cox chooses.
    Count(usize),
}

impl Wanted {
    /// Returns the CPUs that may become quiet: those that are named, or all.
    #[must_use]
    pub fn candidates(&self, facts: &Facts) -> CpuSet {
        match self {
            Wanted::Named(cpus) => cpus.clone(),
            Wanted::Count(_) => facts.topology.online.clone(),
        }
    }

    /// Returns the CPUs that fit the request.
    ///
    /// # Errors
    /// [`Refusal`](crate::Refusal): the reason why they cannot become quiet.
    pub fn choose(&self, facts: &Facts) -> Result<Chosen, crate::Refusal> {
        match self {
            Wanted::Named(cpus) => check(facts, cpus),
            Wanted::Count(count) => choose(facts, *count),
        }
    }
}

/// The engine that keeps CPUs quiet.
pub struct Quieting {
    wanted: Wanted,
    extent: Extent,
    knob_io: &'static LiveKnobIo,
    /// The program, as text for the report.
    command: Vec<String>,
    plan: Option<Plan>,
    applied: Option<Applied<'static>>,
    before: Option<Census>,
    /// What keeps the ticks that could be stopped; `None` if there are none, or the kernel does not say.
    ticks: Option<TickDependencies>,
    /// When that was taken, CLOCK_MONOTONIC.
    begin_ns: u64,
    /// The CPUs whose tick the kernel can stop.
    nohz_full: CpuSet,
    /// The report, as far as it is known.
    report: QuietReport,
}

impl Quieting {
    /// Makes an engine that keeps these CPUs quiet.
    #[must_use]
    pub fn new(wanted: Wanted, extent: Extent) -> Quieting {
        Quieting {
            wanted,
            extent,
            // A session borrows it until the process ends.
            knob_io: Box::leak(Box::new(LiveKnobIo::new(Root::live()))),
            command: Vec::new(),
            plan: None,
            applied: None,
            before: None,
            ticks: None,
            begin_ns: 0,
            nohz_full: CpuSet::new(),
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

    /// Returns the quiet CPUs whose tick the kernel can stop.
    fn tickless(&self) -> CpuSet {
        self.plan.as_ref().map(|plan| plan.chosen.cpus.intersection(&self.nohz_full)).unwrap_or_default()
    }

    /// Restores everything. Returns what could not be restored.
    fn finish(&mut self) -> Vec<String> {
        let now = Census::take(&Root::live()).ok();
        if let (Some(now), Some(before), Some(plan)) = (now, self.before.take(), &self.plan) {
            self.report.interrupts = now.since(&before, &plan.chosen.cpus);
            let seconds = arch::monotonic_ns().saturating_sub(self.begin_ns) as f64 / 1e9;
            let tickless = self.tickless();
            let ticks = now.since(&before, &tickless).iter().find(|row| row.row == TICK).map_or(0, |row| row.count);
            let kept = self.ticks.take().map(|ticks| ticks.read()).unwrap_or_default();
            self.report.stays.extend(kept_ticks(&tickless, ticks as f64 / seconds.max(f64::MIN_POSITIVE), &kept));
        }
        let Some(applied) = self.applied.take() else { return Vec::new() };
        self.report.threads_moved = applied.moved() as u64;
        let unmoved = applied.unmoved_interrupts().into_iter();
        self.report.stays.extend(unmoved.map(|name| format!("{name} cannot be moved: the kernel manages it")));
        self.report.stays.extend(applied.unshrunk_cpusets());
        let undone = applied.end();
        self.report.undone = restored(&undone);
        undone.failures().collect()
    }
}

/// Returns a sentence about ticks that went on although the kernel could have stopped them; `None` if there were next to none.
fn kept_ticks(cpus: &CpuSet, per_s: f64, kept: &[Kept]) -> Option<String> {
    if cpus.is_empty() || per_s <= TICKS_PER_S * cpus.len() as f64 {
        return None;
    }
    let per_cpu = per_s / cpus.len() as f64;
    let reasons: Vec<String> =
        kept.iter().map(|kept| format!("{} ({}, {} times)", kept.meaning, kept.name, kept.count)).collect();
    let why = if reasons.is_empty() { "the kernel does not say why".to_owned() } else { reasons.join(", ") };
    Some(format!("the tick of CPUs {cpus}, {per_cpu:.1} times a second on each: {why}"))
}

fn restored(undone: &Undone) -> Restored {
    Restored {
        restored: undone.restored as u64,
        born: undone.born as u64,
        gone: undone.gone as u64,
        held_by_others: undone.inherited as u64,
        left: undone.left.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the settings of a plan that have another value before.
fn settings(plan: &Plan) -> Vec<Setting> {
    let changes = plan.steps.iter().filter(|step| step.is_change() && matches!(step.what, What::Settings(_)));
    let setting = |step: &crate::Step| Setting {
        level: step.level.to_string(),
        name: step.name.clone(),
        before: Some(step.now.clone()).filter(|now| now != NOTHING),
        value: step.wanted.clone(),
    };
    changes.map(setting).collect()
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
        let mut facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
        if self.extent.level > Level::Pin {
            facts.probe_interrupts(self.knob_io, &self.wanted.candidates(&facts));
        }
        let plan = plan(&facts, &self.wanted.choose(&facts)?, self.extent);
        if self.extent.level > Level::Pin && plan.cpusets.is_none() {
            let why = plan.obstacles.iter().find(|obstacle| obstacle.level == Level::Cgroup);
            bail!("{}", why.map_or_else(String::new, |why| format!("{}. Fix: {}", why.what, why.instead)));
        }
        self.command = target.words();
        self.nohz_full = facts.nohz_full.clone().unwrap_or_default();
        let obstacles = plan.obstacles.iter().map(|obstacle| format!("{} → {}", obstacle.what, obstacle.instead));
        self.report.stays = plan.chosen.prices.iter().cloned().chain(obstacles).collect();
        self.plan = Some(plan);
        Ok(())
    }

    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        // The program asks for exactly these CPUs, whatever mask cox inherited: the kernel remembers a mask that was once
        // asked for, and applies it in each cpuset (Linux 6.2).
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
        let tickless = self.tickless();
        self.ticks = (!tickless.is_empty()).then(|| TickDependencies::on(&Root::live(), &tickless).ok()).flatten();
        self.before = Census::take(&Root::live()).ok();
        self.begin_ns = arch::monotonic_ns();
        Ok(())
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
            settings: if is_changed { settings(&plan) } else { Vec::new() },
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
    fn ticks_that_go_on_are_named_with_their_reason() {
        let cpus: CpuSet = "2-3".parse().unwrap();
        assert_eq!(kept_ticks(&cpus, 3.9, &[]), None);
        assert_eq!(kept_ticks(&CpuSet::new(), 250.0, &[]), None);
        let kept = [Kept { name: "SCHED", meaning: "more than one thread could run", count: 1255 }];
        let said = kept_ticks(&cpus, 502.0, &kept).unwrap();
        assert_eq!(
            said,
            "the tick of CPUs 2-3, 251.0 times a second on each: more than one thread could run (SCHED, 1255 times)"
        );
        assert!(kept_ticks(&cpus, 502.0, &[]).unwrap().ends_with("does not say why"));
    }
}
