//! The observer as an engine of a session.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use arch::laps::{self, Part};
use ledger::replay::Replay;
use machine::cgroup::Cgroup;
use machine::limits::{Who, allowed_cpus};
use machine::openmp;
use machine::process::Task;
use machine::{CpuSet, Root};
use session::{Attached, Ended, Engine, NoCommand, Pauses, Subject, Target};
use symbols::Symboliser;
use watch::{Intake, Observer, WatchError};
use wire::latency::Scope;
use wire::{Backend, Record, Waiting};

use crate::backend::{Asked, Choice};
use crate::hidden::why_hidden_from_perf;
use crate::recording::Recorder;

/// Number of threads of a process whose affinity masks are read at each tick of cox's session.
const MASKS_READ: usize = 64;

/// Largest time by which events of different CPUs arrive out of order: two ticks of cox's session (100 ms each).
const REORDER_NS: u64 = 200_000_000;

/// The engine (a part of a session) that observes the target's threads.
pub struct Observing {
    asked: Asked,
    /// The loaded backend; `None` before `probe`.
    observer: Option<Box<dyn Observer>>,
    passed_over: Vec<String>,
    symboliser: Symboliser,
    replay: Replay,
    intake: Intake,
    cgroup: Option<Cgroup>,
    enrolled: BTreeSet<u32>,
    /// The main process of each program, and the CPUs that the program's threads were allowed to use when last read.
    mains: Vec<(u32, Option<CpuSet>)>,
    record: Option<Record>,
    recorder: Option<Recorder>,
    pauses: Pauses,
}

/// The results of an observation.
pub struct Observed {
    /// The times of threads and CPUs.
    pub record: Record,
    /// Why better backends were passed over, the best first.
    pub passed_over: Vec<String>,
    /// For each sampled place in the code (the index is the place's number): why a thread waits there; `None` if a thread works there.
    pub waits: Vec<Option<Waiting>>,
    /// The recorder, with the trace events.
    pub recorder: Option<Recorder>,
    /// For each program, in the user's order: the CPUs that the threads of its main process were allowed to use when this was last read. A program
    /// may narrow its own affinity mask, or be started by taskset(1).
    pub allowed: Vec<Option<CpuSet>>,
    /// The OpenMP runtime that a sampled process had mapped.
    pub openmp_runtime: Option<String>,
    /// CPU time of the helper process, in nanoseconds; 0 without a helper process.
    pub cpu_elsewhere_ns: u64,
}

impl Observing {
    /// Makes the engine. `choice`: the wanted backend. `children`: whether child processes are observed too. With a `recorder`, trace
    /// events are kept; this needs eBPF. `latencies`: which programs and threads get histograms of interval lengths.
    #[must_use]
    pub fn new(choice: Choice, children: bool, recorder: Option<Recorder>, latencies: Scope) -> Observing {
        let trace_bytes = recorder.as_ref().map(|recorder| recorder.buffer);
        Observing {
            asked: Asked { choice, children, hidden: None, trace_bytes, latencies, samples: true },
            observer: None,
            passed_over: Vec::new(),
            symboliser: Symboliser::new(Root::live()),
            replay: Replay::new().with_latencies(latencies.threads),
            intake: Intake::default(),
            cgroup: None,
            enrolled: BTreeSet::new(),
            mains: Vec::new(),
            record: None,
            recorder,
            pauses: Pauses::default(),
        }
    }

    /// Returns the engine without samples: the timer that takes them interrupts the program.
    #[must_use]
    pub fn without_samples(mut self) -> Observing {
        self.asked.samples = false;
        self
    }

    fn observer(&mut self) -> Result<&mut Box<dyn Observer>> {
        loaded(&mut self.observer)
    }

    /// Calls `ask` with the observer. Then passes the events and samples that the observer delivered during the call to the ledger and to the
    /// symboliser.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut dyn Observer, &mut Intake) -> Result<T, WatchError>) -> Result<T> {
        let answer = ask(loaded(&mut self.observer)?.as_mut(), &mut self.intake)?;
        self.hand_on();
        Ok(answer)
    }

    fn look_at_masks(&mut self) {
        let root = Root::live();
        for (pid, allowed) in &mut self.mains {
            let main = Task::process(&root, *pid);
            // In a zombie, only the main thread is left. Its mask may be narrower than those of the threads that have ended, so keep the last value.
            if main.stat().is_ok_and(|stat| stat.state == 'Z') {
                continue;
            }
            // Reading the masks of the first threads is enough: it is unlikely that the other threads may use CPUs that none of the first may use.
            let threads = main.threads().unwrap_or_default().into_iter().take(MASKS_READ);
            let masks = threads.filter_map(|tid| allowed_cpus(&root, Who::Task(tid)).ok());
            // If all threads have ended, keep the last value.
            *allowed = masks.reduce(|a, b| a.union(&b)).or(allowed.take());
        }
    }

    /// Passes the events that have arrived to the ledger, and the samples to the symboliser. This is done while the sampled process probably still
    /// lives, so that its maps can be read.
    fn hand_on(&mut self) {
        for event in self.intake.events.drain(..) {
            self.replay.push(event);
        }
        let recorder = &mut self.recorder;
        self.symboliser.observe(&self.intake.samples, |sample, place| {
            recorder.iter_mut().for_each(|recorder| recorder.sample(sample, place));
        });
        self.intake.samples.clear();
        self.recorder.iter_mut().for_each(|recorder| recorder.take(&mut self.intake.trace_events));
    }

    /// Adds to `record` what this engine has computed from events and samples, except the times of threads, which the caller adds.
    fn add_to(&mut self, record: &mut Record) {
        if record.backend != Backend::Bpf {
            record.latencies = self.replay.latencies();
            record.latencies_of_programs = u32::from(record.backend != Backend::Proc);
            record.latencies_of_threads = self.asked.latencies.threads;
        }
        record.levels = self.replay.levels().clone();
        record.events += self.replay.events();
        record.pairs.extend(self.replay.pairs());
        record.sample_sites = self.symboliser.sample_sites();
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

    /// Enrols the threads or processes that have entered the watched control group since the last call.
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
                    // The process has ended since the list was read.
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
            Target::Machine => bail!("cannot observe the whole machine: name a program, a process or a control group"),
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
        // A backend that can be loaded may still be unable to see this target: perf cannot see another user's process.
        while let Err(error) = self.enrol(subject) {
            let failed = self.observer()?.backend();
            self.observer = Some(self.asked.load_weaker(failed, error, &mut self.passed_over)?);
        }
        Ok(())
    }

    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        self.observer.iter().filter_map(|observer| observer.readiness()).collect()
    }

    fn tick_every(&self) -> Duration {
        // Other backends need to be asked ten times a second: perf for the order of its events, /proc to see changes at all.
        let keeps_clocks = self.observer.as_ref().is_some_and(|observer| observer.backend() == Backend::Bpf);
        if keeps_clocks && !self.asked.samples { self.pauses.length() } else { Pauses::SHORTEST }
    }

    fn tick(&mut self) -> Result<()> {
        self.pauses.ticked(false);
        self.ask(|observer, intake| observer.tick(intake))?;
        self.look_at_masks();
        self.replay.advance(arch::monotonic_ns().saturating_sub(REORDER_NS));
        self.enrol_newcomers()
    }

    /// Returns the results so far. The recorder is not part of them, because it continues to record.
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
