//! The engine: chooses the CPUs, applies the plan to a program or to the machine, and restores everything.

use std::env;
use std::process;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use changes::guardian::Guardian;
use changes::undo::Undone;
use changes::{JournalFolder, Knob, KnobIo, LiveKnobIo, Name, Session, inherited};
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
    /// Returns the CPUs that may become quiet: those that are named, or all.
    #[must_use]
    pub fn candidates(&self, facts: &Facts) -> CpuSet {
        match self {
            CpuRequest::Named(cpus) => cpus.clone(),
            CpuRequest::Count(_) => facts.topology.online.clone(),
        }
    }

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

/// Changes that were left to the machine.
pub struct Lasting {
    /// The plan.
    pub plan: Plan,
    /// How many threads were moved.
    pub moved: usize,
    /// The name by which the changes can be undone.
    pub name: Name,
    /// What could not be restored of the changes of sessions that were killed, one sentence each.
    pub diagnostics: Vec<String>,
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
    /// What could not be restored, one line each.
    unrestored: Vec<String>,
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
            unrestored: Vec::new(),
        }
    }

    /// Applies the plan, and leaves it to the machine.
    ///
    /// # Errors
    /// As [`Engine::probe`] and [`Engine::apply`].
    pub fn keep(mut self) -> Result<Lasting> {
        self.probe(&Target::Machine)?;
        self.apply(&Subject::Machine)?;
        let applied = self.applied.take().context("level pin changes nothing without a program")?;
        let (plan, moved) = (applied.plan().clone(), applied.moved());
        Ok(Lasting { plan, moved, name: applied.keep()?, diagnostics: self.report.diagnostics })
    }

    /// Restores what sessions have left that were killed: it would be taken for settings of the user. What could not be restored
    /// is told in the report, because the journals that name it are removed.
    fn settle_dead(&mut self, journals: &JournalFolder, knob_io: &dyn KnobIo) -> Result<()> {
        let lock = journals.lock()?;
        self.report.diagnostics.extend(inherited(&journals.settle_dead(&lock, knob_io)?));
        Ok(())
    }

    fn plan(&mut self, target: &Target) -> Result<()> {
        let mut facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
        if self.extent.level > Level::Pin {
            facts.probe_interrupts(self.knob_io, &self.request.candidates(&facts));
        }
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

    /// Restores everything.
    ///
    /// # Errors
    /// The first thread that could not be kept away from the quiet CPUs, and why.
    fn finish(&mut self) -> Result<()> {
        let Some(mut applied) = self.applied.take() else { return Ok(()) };
        self.report.threads_moved = applied.moved() as u64;
        self.report.settings = applied.changed().map(setting).collect();
        self.report.unmoved = applied.fixed_interrupts().filter_map(|knob| self.unmoved(knob)).collect();
        self.report.stays.extend(applied.unmoved());
        self.report.stays.extend_from_slice(applied.ticking());
        self.report.stays.extend(applied.unshrunk_cpusets());
        self.report.diagnostics.extend_from_slice(applied.inherited());
        let refused = applied.take_refused();
        let undone = applied.end();
        self.report.undone = restored(&undone);
        self.unrestored = undone.failures().collect();
        let why = "not every thread that began meanwhile was kept away from the quiet CPUs";
        refused.map_or(Ok(()), |error| Err(Error::from(error).context(why)))
    }

    /// Returns an interrupt that the kernel did not let cox move; `None` for another knob.
    fn unmoved(&self, knob: &Knob) -> Option<UnmovedInterrupt> {
        let Knob::Interrupt { name, ordinal } = knob else { return None };
        let found = self.interrupts.iter().filter(|one| one.name == *name).nth(*ordinal as usize);
        Some(UnmovedInterrupt { name: name.clone(), is_managed: found.is_some_and(|one| one.is_message) })
    }
}

/// Says why the plan was not applied. Only irqbalance is stopped.
fn not_applied(error: changes::Error) -> Error {
    match &error {
        changes::Error::Gone(knob) if matches!(**knob, Knob::Running(_)) => {
            anyhow!("irqbalance has ended or been restarted meanwhile. Fix: start cox again")
        }
        _ => Error::from(error),
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
            self.settle_dead(&JournalFolder::of_user(), self.knob_io)?;
        }
        // There will be no report then.
        let diagnostics = self.report.diagnostics.join("; ");
        self.plan(target).map_err(|error| if diagnostics.is_empty() { error } else { error.context(diagnostics) })
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
                let error = not_applied(error);
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
        self.applied.iter_mut().for_each(Applied::tick);
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        self.finish()
    }

    fn unrestored(&self) -> Vec<String> {
        self.unrestored.clone()
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
    use changes::recorder::{RecordedThread, Recorder, Refusal};
    use changes::{ChangeRequest, Claim, Value};

    use super::*;

    #[test]
    fn problems_with_the_journal_are_not_lost() {
        let undone = Undone { inherited: 2, troubles: vec!["no space left".to_owned()], ..Undone::default() };
        let restored = restored(&undone);
        assert_eq!((restored.held_by_others, restored.troubles), (2, vec!["no space left".to_owned()]));
    }

    #[test]
    fn irqbalance_that_is_gone_is_one_line() {
        let thread = changes::Thread { tid: 900, start_ns: 7 };
        let gone = |knob| not_applied(changes::Error::Gone(Box::new(knob)));
        let error = gone(Knob::Running(thread));
        assert_eq!(format!("{error:#}"), "irqbalance has ended or been restarted meanwhile. Fix: start cox again");
        assert!(gone(Knob::File("/proc/sys/x".into())).to_string().contains("/proc/sys/x does not exist"));
    }

    #[test]
    fn what_a_killed_session_left_and_cannot_be_restored_is_told() {
        let (folder, journals) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (path, text) in [
            ("proc/self/mountinfo", ""),
            ("proc/sys/kernel/random/boot_id", "this\n"),
            ("proc/sys/vm/stat_interval", "1\n"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = Recorder::at(folder.path()).unwrap();
        let journals = JournalFolder::at(journals.path());
        let mut killed = Session::begin(&machine, journals.clone(), 1000, "cox quiet -- ./app", |_| Ok(None)).unwrap();
        let claim = Claim::Exactly(Value::Text("120".into()));
        let knob = Knob::File("/proc/sys/vm/stat_interval".into());
        killed.take([ChangeRequest { engine: "quiet".into(), knob, claim, heir_of: Vec::new() }]).unwrap();
        std::mem::forget(killed);
        // Another process has its id.
        let cpu: CpuSet = [0].into_iter().collect();
        machine.add(
            1000,
            RecordedThread {
                start_ns: 9,
                mask: cpu,
                asked: None,
                creator: None,
                cgroups: std::collections::BTreeMap::new(),
                is_fixed: false,
                is_stopped: false,
            },
        );
        // The value is read, then written.
        machine.refuse(1, Refusal::Errno(libc::EIO));
        let mut quieting = Quieting::new(CpuRequest::Count(1), Extent { level: Level::Full, isolated: false });
        quieting.settle_dead(&journals, &machine).unwrap();
        let [said] = quieting.report.diagnostics.as_slice() else { panic!("{:?}", quieting.report.diagnostics) };
        for part in
            ["left by a session of cox quiet -- ./app that was killed", "stat_interval was not restored", "echo '1'"]
        {
            assert!(said.contains(part), "{said}");
        }
        // Its journal is removed, so nobody would tell this later.
        quieting.settle_dead(&journals, &machine).unwrap();
        assert_eq!(quieting.report.diagnostics.len(), 1);
    }
}
