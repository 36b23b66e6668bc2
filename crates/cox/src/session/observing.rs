//! The observer as an engine: it changes nothing, and its section is a [`Record`].

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use anyhow::{Context, Result, bail};
use ledger::replay::Replay;
use machine::cgroup::Cgroup;
use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
use machine::topology::Topology;
use machine::{CpuSet, Root};
use symbols::Symboliser;
use watch::{BpfObserver, Intake, Observer, Settings, WatchError};
use wire::{Backend, Record};

use super::Subject;
use super::engine::Engine;
use super::recording::Recorder;
use crate::ebpf;

/// Which backend the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// The best that works: bpf, then perf, then proc.
    #[default]
    Auto,
    /// eBPF on the scheduler's tracepoints: everything is seen.
    Bpf,
    /// perf context-switch records: no wake-ups, no causes.
    Perf,
    /// /proc, polled: sums only.
    Proc,
}

/// The observing engine.
pub struct Observing {
    choice: Choice,
    children: bool,
    observer: Watcher,
    /// Why better backends were passed over.
    pub passed_over: Vec<String>,
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

/// The backends; BPF has ways to enrol that the others lack.
enum Watcher {
    Bpf(Box<BpfObserver>),
    Other(Box<dyn Observer>),
}

impl Observing {
    /// Choose and load a backend. `auto` takes the best that works and remembers why better ones did
    /// not; a named one must work.
    ///
    /// With a `recorder` it keeps what happened when, which only eBPF tells.
    pub fn new(choice: Choice, children: bool, recorder: Option<Recorder>) -> Result<Observing> {
        let mut passed_over = Vec::new();
        let bpf = |children| bpf(children, recorder.as_ref().map(|recorder| recorder.buffer));
        let observer = match choice {
            Choice::Perf | Choice::Proc if recorder.is_some() => bail!(NEEDS_BPF),
            Choice::Bpf => bpf(children)?,
            Choice::Auto if recorder.is_some() => bpf(children).context(NEEDS_BPF)?,
            Choice::Perf => perf(children)?,
            Choice::Proc => proc(children)?,
            Choice::Auto => bpf(children)
                .or_else(|error| {
                    passed_over.push(error.to_string());
                    perf(children)
                })
                .or_else(|error| {
                    passed_over.push(error.to_string());
                    proc(children)
                })?,
        };
        Ok(Observing {
            choice,
            children,
            observer,
            passed_over,
            symboliser: Symboliser::new(Root::live()),
            replay: Replay::new(),
            intake: Intake::default(),
            cgroup: None,
            enrolled: BTreeSet::new(),
            mains: Vec::new(),
            record: None,
            recorder,
        })
    }

    /// What was seen; there once after `undo`.
    pub fn take_record(&mut self) -> Result<Record> {
        self.record.take().context("the observation has not ended")
    }

    /// What was kept for traces; there once after `undo`.
    pub fn take_recorder(&mut self) -> Option<Recorder> {
        self.recorder.take()
    }

    /// CPUs that the threads of the main process were allowed on, together, when it was last looked at:
    /// a program may narrow them itself, or be started by taskset(1).
    pub fn allowed(&self) -> Option<&CpuSet> {
        self.allowed_of(0)
    }

    /// The same of the program that was named as the n-th.
    pub fn allowed_of(&self, program: usize) -> Option<&CpuSet> {
        self.mains.get(program)?.1.as_ref()
    }

    /// The OpenMP runtime that a sampled process had mapped: GCC's, LLVM's or Intel's.
    pub fn openmp_runtime(&self) -> Option<String> {
        let runtimes = ["libgomp.so", "libomp.so", "libiomp5.so"];
        let mut names = self.symboliser.module_names();
        names.find(|name| runtimes.iter().any(|runtime| name.starts_with(runtime))).map(str::to_owned)
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

    fn observer(&mut self) -> &mut dyn Observer {
        match &mut self.observer {
            Watcher::Bpf(bpf) => bpf.as_mut(),
            Watcher::Other(other) => other.as_mut(),
        }
    }

    /// Hand on what has arrived: events to the ledger, samples to the symboliser while the process
    /// that they belong to is (probably) still there to be asked for its maps.
    fn hand_on(&mut self) {
        for event in self.intake.events.drain(..) {
            self.replay.push(event);
        }
        self.symboliser.observe(&self.intake.samples);
        self.intake.samples.clear();
        self.recorder.iter_mut().for_each(|recorder| recorder.take(&mut self.intake.moments));
    }

    /// Whatever has come into the watched cgroup since the last look.
    fn enrol_newcomers(&mut self) -> Result<()> {
        let Some(cgroup) = &self.cgroup else { return Ok(()) };
        let root = Root::live();
        match &mut self.observer {
            Watcher::Bpf(bpf) => {
                let new: Vec<u32> = cgroup.tids(&root)?.into_iter().filter(|tid| self.enrolled.insert(*tid)).collect();
                if !new.is_empty() {
                    bpf.enrol_threads(&new)?;
                }
            }
            Watcher::Other(other) => {
                for pid in cgroup.pids(&root)? {
                    if self.enrolled.insert(pid) {
                        match other.enrol(pid) {
                            // Came and went between the list and now.
                            Ok(()) | Err(WatchError::NoTarget { .. }) => {}
                            Err(error) => return Err(error.into()),
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Observing {
    /// The next weaker backend, where the user leaves the choice to cox and what is wanted can be had without eBPF.
    fn weaker(&self) -> Option<Result<Watcher, WatchError>> {
        if self.choice != Choice::Auto || self.recorder.is_some() {
            return None;
        }
        match &self.observer {
            Watcher::Bpf(_) => Some(perf(self.children).or_else(|_| proc(self.children))),
            Watcher::Other(other) if other.backend() == Backend::Perf => Some(proc(self.children)),
            Watcher::Other(_) => None,
        }
    }

    fn enrol(&mut self, subject: &Subject) -> Result<()> {
        match subject {
            Subject::Launched(pids) => {
                for pid in pids {
                    match &mut self.observer {
                        Watcher::Bpf(bpf) => bpf.enrol_launched(*pid)?,
                        Watcher::Other(other) => other.enrol(*pid)?,
                    }
                }
            }
            Subject::Processes(pids) => {
                for pid in pids {
                    self.observer().enrol(*pid)?;
                }
            }
            Subject::Cgroup(cgroup) => {
                self.cgroup = Some(cgroup.clone());
                self.enrolled.clear();
                self.enrol_newcomers()?;
            }
        }
        Ok(())
    }
}

impl Engine for Observing {
    fn apply(&mut self, subject: &Subject) -> Result<()> {
        self.mains = match subject {
            Subject::Launched(pids) => pids.iter().map(|pid| (*pid, None)).collect(),
            Subject::Processes(pids) => pids.first().map(|pid| (*pid, None)).into_iter().collect(),
            Subject::Cgroup(_) => Vec::new(),
        };
        // That a backend can be loaded does not mean that it can see this target: of another user's process perf cannot.
        while let Err(error) = self.enrol(subject) {
            match self.weaker() {
                Some(weaker) => self.observer = weaker?,
                None => return Err(error),
            }
            self.passed_over.push(format!("{error:#}"));
        }
        Ok(())
    }

    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        let readiness = match &self.observer {
            Watcher::Bpf(bpf) => bpf.readiness(),
            Watcher::Other(other) => other.readiness(),
        };
        readiness.into_iter().collect()
    }

    fn tick(&mut self) -> Result<()> {
        let mut intake = std::mem::take(&mut self.intake);
        self.observer().tick(&mut intake)?;
        self.intake = intake;
        self.hand_on();
        self.look_at_masks();
        self.replay.advance(arch::monotonic_ns().saturating_sub(REORDER_NS));
        self.enrol_newcomers()
    }

    fn anything_alive(&mut self) -> Result<bool> {
        Ok(!self.observer().living()?.is_empty())
    }

    fn undo(&mut self) -> Result<()> {
        let mut intake = std::mem::take(&mut self.intake);
        let mut record = self.observer().finish(&mut intake)?;
        self.intake = intake;
        self.hand_on();
        record.events += self.replay.events();
        let end_ns = record.end_ns;
        record.clocks.extend(self.replay.finish(end_ns));
        record.pairs.extend(self.replay.pairs());
        record.spots = self.symboliser.spots();
        self.record = Some(record);
        Ok(())
    }
}

/// Why there is no trace.
const NEEDS_BPF: &str =
    "traces, pages and --also need eBPF (--backend bpf): other backends do not tell what happened when";

/// Threads whose affinity masks are read at each tick.
const MASKS_READ: usize = 64;

/// Events of different CPUs arrive at most this far out of order: two ticks.
const REORDER_NS: u64 = 200_000_000;

fn bpf(children: bool, moments_bytes: Option<u32>) -> Result<Watcher, WatchError> {
    let topology = Topology::read(&Root::live()).map_err(unavailable)?;
    let limit = topology.possible.last().map_or(1, |last| last + 1);
    let settings = Settings { children, moments_bytes, ..Settings::new(topology.online.len() as u32, limit) };
    Ok(Watcher::Bpf(Box::new(BpfObserver::new(&settings).map_err(ebpf::explained)?)))
}

fn perf(children: bool) -> Result<Watcher, WatchError> {
    Ok(Watcher::Other(Box::new(watch::perf::PerfObserver::new(watch::perf::Options { children })?)))
}

fn proc(children: bool) -> Result<Watcher, WatchError> {
    Ok(Watcher::Other(Box::new(watch::proc::ProcObserver::new(watch::proc::Options { children })?)))
}

fn unavailable(error: machine::Error) -> WatchError {
    WatchError::Unavailable { what: "cannot observe".into(), why: error.to_string() }
}
