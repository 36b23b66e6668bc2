//! The observer as an engine: it changes nothing, and its section is a [`Record`].

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use anyhow::{Context, Result, bail};
use arch::laps::{self, Part};
use broker::protocol::Wanted;
use ledger::replay::Replay;
use machine::cgroup::Cgroup;
use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
use machine::topology::Topology;
use machine::{CpuSet, Root};
use symbols::Symboliser;
use watch::{BpfObserver, Intake, Observer, Settings, WatchError};
use wire::{Backend, Record, Waiting};

use super::Subject;
use super::engine::Engine;
use super::recording::Recorder;
use crate::complaint;
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
    /// Why perf would see nothing of the target.
    hidden: Option<String>,
    observer: Box<dyn Observer>,
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

impl Observing {
    /// Choose and load a backend. `auto` takes the best that works and remembers why better ones did
    /// not; a named one must work.
    ///
    /// With a `recorder` it keeps what happened when, which only eBPF tells.
    /// `hidden`: why perf would see nothing of the target, where that is known beforehand.
    ///
    /// # Errors
    /// When the named backend cannot be used here, or none can.
    pub fn new(
        choice: Choice,
        children: bool,
        hidden: Option<String>,
        recorder: Option<Recorder>,
    ) -> Result<Observing> {
        let mut passed_over = Vec::new();
        let perf = |children| perf(children, hidden.as_deref());
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
            hidden: hidden.clone(),
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
    /// Why threads waited at the places where they were sampled, once the record is taken.
    pub fn waits(&self) -> &[Option<Waiting>] {
        self.symboliser.waits()
    }

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

    /// CPU time of another process that observed for this one; known after `undo`.
    pub fn cpu_elsewhere_ns(&self) -> u64 {
        self.observer.cpu_elsewhere_ns()
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

    /// Whatever has come into the watched cgroup since the last look.
    fn enrol_newcomers(&mut self) -> Result<()> {
        let Some(cgroup) = &self.cgroup else { return Ok(()) };
        let root = Root::live();
        if self.observer.backend() == Backend::Bpf {
            let new: Vec<u32> = cgroup.tids(&root)?.into_iter().filter(|tid| self.enrolled.insert(*tid)).collect();
            if !new.is_empty() {
                self.observer.enrol_threads(&new)?;
            }
            return Ok(());
        }
        for pid in cgroup.pids(&root)? {
            if self.enrolled.insert(pid) {
                match self.observer.enrol(pid) {
                    // Came and went between the list and now.
                    Ok(()) | Err(WatchError::NoTarget { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

impl Observing {
    /// The next weaker backend, where the user leaves the choice to cox and what is wanted can be had without eBPF.
    fn weaker(&self) -> Option<Result<Box<dyn Observer>, WatchError>> {
        if self.choice != Choice::Auto || self.recorder.is_some() {
            return None;
        }
        match self.observer.backend() {
            Backend::Bpf => Some(perf(self.children, self.hidden.as_deref()).or_else(|_| proc(self.children))),
            Backend::Perf => Some(proc(self.children)),
            _ => None,
        }
    }

    fn enrol(&mut self, subject: &Subject) -> Result<()> {
        match subject {
            Subject::Launched(pids) => {
                for pid in pids {
                    self.observer.enrol_launched(*pid)?;
                }
            }
            Subject::Processes(pids) => {
                for pid in pids {
                    self.observer.enrol(*pid)?;
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
            self.passed_over.push(complaint::chain(&error));
        }
        Ok(())
    }

    fn readiness(&self) -> Vec<BorrowedFd<'_>> {
        self.observer.readiness().into_iter().collect()
    }

    fn tick(&mut self) -> Result<()> {
        self.observer.tick(&mut self.intake)?;
        self.hand_on();
        self.look_at_masks();
        self.replay.advance(arch::monotonic_ns().saturating_sub(REORDER_NS));
        self.enrol_newcomers()
    }

    fn anything_alive(&mut self) -> Result<bool> {
        Ok(!self.observer.living()?.is_empty())
    }

    fn undo(&mut self) -> Result<()> {
        let mut record = self.observer.finish(&mut self.intake)?;
        self.hand_on();
        record.events += self.replay.events();
        let end_ns = record.end_ns;
        record.clocks.extend(self.replay.finish(end_ns));
        record.pairs.extend(self.replay.pairs());
        record.spots = self.symboliser.spots();
        laps::done(Part::Reading);
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

/// In this process where it may, else by the program that may.
fn bpf(children: bool, moments_bytes: Option<u32>) -> Result<Box<dyn Observer>, WatchError> {
    laps::done(Part::Preparing);
    if !ebpf::may_itself() {
        return ebpf::by_helper(Wanted { children, samples: true, moments_bytes });
    }
    Ok(Box::new(BpfObserver::new(&settings(children, moments_bytes)?).map_err(ebpf::explained)?))
}

/// What this process' eBPF programs are loaded with to observe.
pub fn settings(children: bool, moments_bytes: Option<u32>) -> Result<Settings, WatchError> {
    let topology = Topology::read(&Root::live()).map_err(unavailable)?;
    let limit = topology.possible.last().map_or(1, |last| last + 1);
    Ok(Settings { children, moments_bytes, ..Settings::new(topology.online.len() as u32, limit) })
}

fn perf(children: bool, hidden: Option<&str>) -> Result<Box<dyn Observer>, WatchError> {
    if let Some(why) = hidden {
        let why = format!("{why}. Fix: run it as a user who may read it, or use --backend proc");
        return Err(WatchError::Unavailable { what: "cannot observe by perf".into(), why });
    }
    Ok(Box::new(watch::perf::PerfObserver::new(watch::perf::Options { children })?))
}

fn proc(children: bool) -> Result<Box<dyn Observer>, WatchError> {
    Ok(Box::new(watch::proc::ProcObserver::new(watch::proc::Options { children })?))
}

fn unavailable(error: machine::Error) -> WatchError {
    WatchError::Unavailable { what: "cannot observe".into(), why: error.to_string() }
}
