//! The observer as an engine.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use anyhow::{Context, Result, bail};
use arch::laps::{self, Part};
use ledger::replay::Replay;
use machine::cgroup::Cgroup;
use machine::limits::{Who, allowed_cpus};
use machine::openmp;
use machine::process::Task;
use machine::{CpuSet, Root};
use session::{Attached, Ended, Engine, NoCommand, Subject, Target};
use symbols::Symboliser;
use watch::{Intake, Observer, WatchError};
use wire::{Backend, Record, Waiting};

use crate::backend::{Asked, Choice};
use crate::hidden::why_hidden_from_perf;
use crate::recording::Recorder;

/// Threads whose affinity masks are read at each tick.
const MASKS_READ: usize = 64;

/// Events of different CPUs arrive at most this far out of order: two ticks.
const REORDER_NS: u64 = 200_000_000;

/// The observing engine.
pub struct Observing {
    asked: Asked,
    /// There once it is probed.
    observer: Option<Box<dyn Observer>>,
    passed_over: Vec<String>,
    symboliser: Symboliser,
    replay: Replay,
    intake: Intake,
    cgroup: Option<Cgroup>,
    enrolled: BTreeSet<u32>,
    /// First processes of programs, and the CPUs that each one's threads were allowed on when last looked at.
    mains: Vec<(u32, Option<CpuSet>)>,
    record: Option<Record>,
    recorder: Option<Recorder>,
}

/// What was observed.
pub struct Observed {
    /// Threads and CPUs.
    pub record: Record,
    /// Why better backends were passed over, the best first.
    pub passed_over: Vec<String>,
    /// Why threads waited at the places where they were sampled.
    pub waits: Vec<Option<Waiting>>,
    /// What was kept for traces.
    pub recorder: Option<Recorder>,
    /// CPUs that the threads of each program were allowed on, together, when its main process was last looked at: a program may
    /// narrow them itself, or be started by taskset(1). In the order in which programs were named.
    pub allowed: Vec<Option<CpuSet>>,
    /// The OpenMP runtime that a sampled process had mapped.
    pub openmp_runtime: Option<String>,
    /// CPU time of another process that observed for this one.
    pub cpu_elsewhere_ns: u64,
}

impl Observing {
    /// Observes by the backend that is wanted, `children` too. With a `recorder` it keeps what happened when, which only eBPF tells.
    #[must_use]
    pub fn new(choice: Choice, children: bool, recorder: Option<Recorder>) -> Observing {
        let moments_bytes = recorder.as_ref().map(|recorder| recorder.buffer);
        Observing {
            asked: Asked { choice, children, hidden: None, moments_bytes },
            observer: None,
            passed_over: Vec::new(),
            symboliser: Symboliser::new(Root::live()),
            replay: Replay::new(),
            intake: Intake::default(),
            cgroup: None,
            enrolled: BTreeSet::new(),
            mains: Vec::new(),
            record: None,
            recorder,
        }
    }

    fn observer(&mut self) -> Result<&mut Box<dyn Observer>> {
        loaded(&mut self.observer)
    }

    /// Asks the observer, and hands on what it gives beside its answer.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut dyn Observer, &mut Intake) -> Result<T, WatchError>) -> Result<T> {
        let answer = ask(loaded(&mut self.observer)?.as_mut(), &mut self.intake)?;
        self.hand_on();
        Ok(answer)
    }

    fn look_at_masks(&mut self) {
        let root = Root::live();
        for (pid, allowed) in &mut self.mains {
            let main = Task::process(&root, *pid);
            // A zombie has only its leader left to ask, which may be bound more narrowly than the rest were.
            if main.stat().is_ok_and(|stat| stat.state == 'Z') {
                continue;
            }
            // A program with more threads than this has not pinned them all elsewhere than the first.
            let threads = main.threads().unwrap_or_default().into_iter().take(MASKS_READ);
            let masks = threads.filter_map(|tid| allowed_cpus(&root, Who::Task(tid)).ok());
            // Gone meanwhile: the last answer stands.
            *allowed = masks.reduce(|a, b| a.union(&b)).or(allowed.take());
        }
    }

    /// Hand on what has arrived: events to the ledger, samples to the symboliser while the process
    /// that they belong to is (probably) still there to be asked for its maps.
    fn hand_on(&mut self) {
        for event in self.intake.events.drain(..) {
            self.replay.push(event);
        }
        let recorder = &mut self.recorder;
        self.symboliser.observe_each(&self.intake.samples, |sample, place| {
            recorder.iter_mut().for_each(|recorder| recorder.sample(sample, place));
        });
        self.intake.samples.clear();
        self.recorder.iter_mut().for_each(|recorder| recorder.take(&mut self.intake.moments));
    }

    /// Adds what samples and events tell to a record, but clocks.
    fn add_to(&mut self, record: &mut Record) {
        record.events += self.replay.events();
        record.pairs.extend(self.replay.pairs());
        record.spots = self.symboliser.spots();
    }

    fn observed(&mut self, record: Record, recorder: Option<Recorder>) -> Result<Observed> {
        let cpu_elsewhere_ns = self.observer()?.cpu_elsewhere_ns();
        Ok(Observed {
            record,
            passed_over: self.passed_over.clone(),
            waits: self.symboliser.waits().to_vec(),
            recorder,
            allowed: self.mains.iter().map(|(_, allowed)| allowed.clone()).collect(),
            openmp_runtime: self.symboliser.module_names().find(|name| openmp::is_runtime(name)).map(str::to_owned),
            cpu_elsewhere_ns,
        })
    }

    /// Whatever has come into the watched cgroup since the last look.
    fn enrol_newcomers(&mut self) -> Result<()> {
        let (Some(cgroup), Some(observer)) = (&self.cgroup, &mut self.observer) else { return Ok(()) };
        let root = Root::live();
        if observer.backend() == Backend::Bpf {
            let new: Vec<u32> = cgroup.tids(&root)?.into_iter().filter(|tid| self.enrolled.insert(*tid)).collect();
            if !new.is_empty() {
                observer.enrol_threads(&new)?;
            }
            return Ok(());
        }
        for pid in cgroup.pids(&root)? {
            if self.enrolled.insert(pid) {
                match observer.enrol(pid) {
                    // Came and went between the list and now.
                    Ok(()) | Err(WatchError::NoTarget { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn enrol(&mut self, subject: &Subject) -> Result<()> {
        match subject {
            Subject::Launched(pids) => {
                for pid in pids {
                    self.observer()?.enrol_launched(*pid)?;
                }
            }
            Subject::Attached(Attached::Processes(pids)) => {
                for pid in pids {
                    self.observer()?.enrol(*pid)?;
                }
            }
            Subject::Attached(Attached::Cgroup(cgroup)) => {
                self.cgroup = Some(cgroup.clone());
                self.enrolled.clear();
                self.enrol_newcomers()?;
            }
            Subject::Machine => {}
        }
        Ok(())
    }
}

fn loaded(observer: &mut Option<Box<dyn Observer>>) -> Result<&mut Box<dyn Observer>> {
    observer.as_mut().context("no backend is loaded")
}

impl Engine for Observing {
    const NAME: &'static str = "observe";
    type Section = Observed;
    type Command = NoCommand;

    fn probe(&mut self, target: &Target) -> Result<()> {
        self.asked.hidden = match target {
            Target::Launch(launches) => launches.first().and_then(|launch| launch.command.first()),
            Target::Attach(_) => None,
            Target::Machine => bail!("threads are observed of a program, a process or a control group"),
        }
        .and_then(|program| why_hidden_from_perf(program));
        self.observer = Some(self.asked.load(&mut self.passed_over)?);
        Ok(())
    }

    fn apply(&mut self, subject: &Subject) -> Result<()> {
        self.mains = match subject {
            Subject::Launched(pids) => pids.iter().map(|pid| (*pid, None)).collect(),
            Subject::Attached(Attached::Processes(pids)) => pids.first().map(|pid| (*pid, None)).into_iter().collect(),
            Subject::Attached(Attached::Cgroup(_)) | Subject::Machine => Vec::new(),
        };
        // That a backend can be loaded does not mean that it can see this target: of another user's process perf cannot.
        while let Err(error) = self.enrol(subject) {
            let failed = self.observer()?.backend();
            self.observer = Some(self.asked.load_weaker(failed, error, &mut self.passed_over)?);
        }
        Ok(())
    }

    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        self.observer.iter().filter_map(|observer| observer.readiness()).collect()
    }

    fn tick(&mut self) -> Result<()> {
        self.ask(|observer, intake| observer.tick(intake))?;
        self.look_at_masks();
        self.replay.advance(arch::monotonic_ns().saturating_sub(REORDER_NS));
        self.enrol_newcomers()
    }

    /// What was kept for traces stays with the engine.
    fn snapshot(&mut self) -> Result<Option<Observed>> {
        let mut record = self.ask(|observer, intake| observer.snapshot(intake))?;
        let end_ns = record.end_ns;
        record.clocks.extend(self.replay.snapshot(end_ns));
        self.add_to(&mut record);
        Ok(Some(self.observed(record, None)?))
    }

    fn anything_alive(&mut self) -> Result<bool> {
        Ok(!self.observer()?.living()?.is_empty())
    }

    fn undo(&mut self) -> Result<()> {
        let mut record = self.ask(|observer, intake| observer.finish(intake))?;
        let end_ns = record.end_ns;
        record.clocks.extend(self.replay.finish(end_ns));
        self.add_to(&mut record);
        laps::done(Part::Reading);
        self.record = Some(record);
        Ok(())
    }

    fn section(&mut self, _: &Ended) -> Result<Observed> {
        let record = self.record.take().context("the observation has not ended")?;
        let recorder = self.recorder.take();
        self.observed(record, recorder)
    }
}
