//! The `bpf` backend. The kernel keeps a clock (an account of time) for each tracked thread in task storage. When the thread dies, the BPF programs
//! write its final clock into a ring buffer. The clocks of living threads are read by a walk over all tasks.
//!
//! The life cycle of an observation, and the reasons for its order:
//! 1. load: the verifier accepts the programs; otherwise this kernel or user cannot use the backend.
//! 2. attach the tracepoints.
//! 3. enrol: a walk over all tasks finds the threads to track. If this came before step 2, a thread that is created between the two steps would be
//!    missed. In this order, either its creator is already tracked, or the walk finds it.
//! 4. tick: take final clocks and samples out of their rings.
//! 5. finish: read the clocks of living threads and then at once the histograms of interval lengths; detach only after that. If a thread dies
//!    between reading and detaching, it has a clock as a living thread and a final clock, and the final clock is used. In the opposite order, the
//!    account of such a thread would be lost.
//!
//! Nothing is pinned: when cox dies, by whatever signal, the kernel detaches and frees everything.

mod composite;
mod excerpt;
pub(crate) mod inner;
mod libbpf;
mod living;
mod maps;
mod parts;
mod programs;
mod sampler;
#[cfg(test)]
mod tests;
mod tracepoints;

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use arch::laps::{self, Part as Lap};
use bytemuck::AnyBitPattern;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use wire::latency::{LAST_PROGRAM, PROGRAM_SHIFT};
use wire::layout::LAUNCHED;
use wire::{Backend, Clock, Living, Record, Sample, TraceEvent, TrackedThreads};

use crate::observer::{Intake, Observer, WatchError};
use crate::online;
pub use composite::{Expectation, expect};
pub(crate) use libbpf::system;
pub use libbpf::{CANNOT, unavailable};
pub(crate) use parts::{INTERRUPTIONS, PLACES, Part, tracepoint};
pub use parts::{Noise, Parts, Settings, Snapshots};
pub(crate) use programs::Programs;
use sampler::FIRST_TURN;
pub(crate) use sampler::{Sampler, turn_without_rounds};

/// How long `finish` waits for tracked threads that have left the task list but not their CPU.
const LAST_SWITCHES: Duration = Duration::from_millis(50);

/// An observation by BPF. See the module's documentation for its life cycle.
pub struct BpfObserver {
    // Field order is drop order: readers and links before the object they point into.
    rings: RingBuffer<'static>,
    sampler: Option<Sampler>,
    /// The time of the last turn in which all CPUs took samples at the same time. It outlives the sampler.
    rounds: Range<u64>,
    programs: Programs,
    sample_period_ns: u64,
    finals: Rc<RefCell<Vec<Clock>>>,
    samples: Rc<RefCell<Vec<Sample>>>,
    trace_events: Rc<RefCell<Vec<TraceEvent>>>,
    /// Whether threads were enrolled while they ran. Those count as running only from their next switch on, so that no sample can say that its thread is the
    /// only one.
    has_enrolled: bool,
    /// Number of launched programs that were enrolled so far.
    launched: u32,
    start_ns: u64,
}

impl BpfObserver {
    /// Loads and attaches the programs; no thread is tracked yet. With an `owner`, only threads of that user are observed, and threads of other users
    /// are not named.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason if this kernel or user cannot run the programs.
    pub fn new(settings: &Settings, owner: Option<u32>) -> Result<BpfObserver, WatchError> {
        let parts = Parts { clocks: Some(settings.clone()), owner, ..Parts::default() };
        let programs = Programs::of(Part::Clocks, &parts)?;
        let sample_period_ns = settings.sample_period_ns;
        let [of_exited, of_samples, of_trace_events] =
            [programs.map("exited")?, programs.map("samples")?, programs.map("trace_events")?];
        let mut builder = RingBufferBuilder::new();
        let finals = gathered(&mut builder, &of_exited).map_err(unreadable)?;
        let samples = gathered(&mut builder, &of_samples).map_err(unreadable)?;
        let trace_events = gathered(&mut builder, &of_trace_events).map_err(unreadable)?;
        let rings = builder.build().map_err(unreadable)?;
        // The start is read before the programs are attached, so that no CPU's account contains more time than the observation lasted.
        let start_ns = arch::monotonic_ns();
        programs.attach(Part::Clocks)?;
        laps::done(Lap::Attaching);
        // A kernel that forbids perf events to this user may allow the rest. Spinning is then not observed, which the record shows by having no
        // sample period.
        let sampler = match sample_period_ns {
            0 => None,
            period_ns => {
                let program = programs.program("on_sample")?;
                online::cpus().and_then(|cpus| Sampler::start(&program, period_ns, &cpus, FIRST_TURN)).ok()
            }
        };
        laps::done(Lap::Sampling);
        Ok(BpfObserver {
            rings,
            rounds: sampler.as_ref().map_or(0..0, Sampler::rounds),
            sampler,
            programs,
            sample_period_ns,
            finals,
            samples,
            trace_events,
            has_enrolled: false,
            launched: 0,
            start_ns,
        })
    }

    fn enrol_process(&mut self, pid: u32, flags: u32, otherwise: &str) -> Result<(), WatchError> {
        let before = self.programs.tracked().members;
        self.programs.enrol(Part::Clocks, &[process_key(pid)], flags)?;
        if self.programs.tracked().members > before {
            return Ok(());
        }
        Err(WatchError::NoTarget { pid, why: otherwise.into() })
    }

    /// Attaches or detaches the scheduler programs while threads stay tracked, to measure their cost within one run. The clocks are wrong
    /// afterwards.
    pub fn set_attached(&mut self, attached: bool) -> Result<(), WatchError> {
        if attached {
            self.programs.attach(Part::Clocks)
        } else {
            self.programs.detach(Part::Clocks);
            Ok(())
        }
    }

    /// Returns the final clocks (accounts of ended threads) that have arrived since the last call. `finish` does not return these clocks again.
    pub fn take_finals(&mut self) -> Vec<Clock> {
        self.finals.take()
    }

    /// Returns how many tracked threads have not died yet, according to the kernel's count.
    pub fn alive(&self) -> u64 {
        self.programs.tracked().alive
    }

    fn drain(&mut self) -> Result<(), WatchError> {
        self.rings.consume().map_err(unreadable)
    }

    /// Returns a record with the accounts of CPUs, the counters for all tracked threads, the histograms of interval lengths, and `living`, the clocks
    /// of living threads. The caller adds the threads that have ended.
    fn read_now(&self, living: Vec<Living>) -> Result<Record, WatchError> {
        let mut record = Record::new(Backend::Bpf, self.start_ns, self.start_ns);
        record.living = living;
        // Repeats the reading if a CPU was just starting or stopping to run a tracked thread.
        for _ in 0..living::RETRIES {
            record.end_ns = arch::monotonic_ns();
            record.cpus = self.programs.cpus();
            record.tracked = self.programs.tracked();
            if record.busy_more_than_ns().is_some() {
                break;
            }
        }
        // The threads continue to run, so the histograms are read as soon after the clocks as possible.
        let settings = self.programs.settings()?;
        record.latencies = maps::latencies(&self.programs)?;
        record.latencies_of_programs = settings.latencies.programs_with_histograms(settings.cpu_limit);
        record.latencies_of_threads = settings.latencies.threads;
        Ok(record)
    }

    /// Adds to `record` what is read after the living threads: `finals` (the final clocks of ended threads), preemptors, wake-ups and losses. If a
    /// thread has died since the living threads were read, its clock is replaced by its final clock.
    fn complete(&self, record: &mut Record, finals: Vec<Clock>, lost: &TrackedThreads) -> Result<(), WatchError> {
        let dead: HashSet<(u32, u64)> = finals.iter().map(|c| (c.tid, c.born_ns)).collect();
        record.living.retain(|l| !dead.contains(&(l.clock.tid, l.clock.born_ns)));
        record.clocks = finals;
        record.preemptors = maps::preemptors(&self.programs)?;
        record.own_processes = vec![std::process::id()];
        record.pairs = maps::pairs(&self.programs)?;
        record.unlisted = maps::unlisted(&self.programs)?;
        record.events = record.cpus.iter().map(|c| c.events).sum();
        record.kernel_cost_ns = cost_of_switches(&record.cpus);
        record.losses = maps::losses(lost, self.programs.missed_events());
        Ok(())
    }

    /// Reads the clocks of living threads by a walk over all tasks. Repeats the walk until it finds as many threads as the kernel's count of tracked
    /// threads that have not died, or until `LAST_SWITCHES` is over.
    fn settled_living(&mut self) -> Result<Vec<Living>, WatchError> {
        let deadline = arch::monotonic_ns() + LAST_SWITCHES.as_nanos() as u64;
        loop {
            let living = living::read(&self.programs)?;
            if self.alive() <= living.len() as u64 || arch::monotonic_ns() > deadline {
                return Ok(living);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

impl Drop for BpfObserver {
    fn drop(&mut self) {
        self.programs.detach(Part::Clocks);
    }
}

impl Observer for BpfObserver {
    fn backend(&self) -> Backend {
        Backend::Bpf
    }

    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        self.has_enrolled = true;
        self.enrol_process(pid, 0, "there is no such process, or it has just ended")
    }

    /// Enrols a child that still waits before its exec.
    fn enrol_launched(&mut self, pid: u32) -> Result<(), WatchError> {
        // Programs are enrolled in the order of their launch, which gives them their numbers.
        let flags = LAUNCHED | self.launched.min(LAST_PROGRAM) << PROGRAM_SHIFT;
        self.launched += 1;
        self.enrol_process(pid, flags, "the program that cox started was not found among the kernel's tasks")
    }

    fn enrol_threads(&mut self, tids: &[u32]) -> Result<bool, WatchError> {
        self.has_enrolled = true;
        let keys: Vec<u64> = tids.iter().map(|tid| u64::from(*tid)).collect();
        self.programs.enrol(Part::Clocks, &keys, 0)?;
        Ok(true)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring buffer owns the epoll descriptor and outlives the borrow of self.
        Some(unsafe { BorrowedFd::borrow_raw(self.rings.epoll_fd()) })
    }

    fn tick(&mut self, intake: &mut Intake) -> Result<(), WatchError> {
        self.drain()?;
        for sample in self.samples.borrow_mut().iter_mut().filter(|sample| self.rounds.contains(&sample.t_ns)) {
            sample.flags |= Sample::IN_ROUND;
        }
        if self.has_enrolled {
            self.samples.borrow_mut().iter_mut().for_each(|sample| sample.flags &= !Sample::ONLY);
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.tick();
            self.rounds = sampler.rounds();
        }
        intake.samples.append(&mut self.samples.borrow_mut());
        intake.trace_events.append(&mut self.trace_events.borrow_mut());
        Ok(())
    }

    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError> {
        let living = living::read(&self.programs)?;
        Ok(living.iter().map(|l| (l.clock.tgid, l.clock.tid, l.clock.comm())).collect())
    }

    fn snapshot(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        let mut record = self.read_now(living::read(&self.programs)?)?;
        self.tick(intake)?;
        record.sample_period_ns = if self.sampler.is_some() { self.sample_period_ns } else { 0 };
        let lost = record.tracked;
        self.complete(&mut record, self.finals.borrow().clone(), &lost)?;
        Ok(record)
    }

    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        let living = self.settled_living()?;
        let mut record = self.read_now(living)?;
        let end_ns = record.end_ns;
        laps::done(Lap::Closing);
        let sampled = self.sampler.take().is_some();
        self.programs.detach(Part::Clocks);
        self.tick(intake)?;
        laps::done(Lap::Detaching);
        // The counts of losses are read after detaching, and the gaps (events that report lost trace events) after that. So each trace event that was
        // lost before is in both.
        let lost = self.programs.tracked();
        intake
            .trace_events
            .extend(self.programs.gaps().into_iter().map(|gap| TraceEvent { t_ns: gap.t_ns.min(end_ns), ..gap }));

        record.sample_period_ns = if sampled { self.sample_period_ns } else { 0 };
        self.complete(&mut record, self.finals.take(), &lost)?;
        Ok(record)
    }
}

/// Returns the time spent in the switch handlers, extrapolated from the one event in 256 that is timed.
fn cost_of_switches(cpus: &[wire::Cpu]) -> Option<u64> {
    let timed: u64 = cpus.iter().map(|c| c.timed_events).sum();
    let timed_ns: u64 = cpus.iter().map(|c| c.timed_ns).sum();
    let events: u64 = cpus.iter().map(|c| c.events).sum();
    timed_ns.checked_mul(events).and_then(|product| product.checked_div(timed))
}

/// Adds `ring` to `reader`. Returns the list to which the reader will append the ring's records. Records that are too short for a `T` are dropped:
/// our own programs write none.
pub(crate) fn gathered<'m, T: AnyBitPattern>(
    reader: &mut RingBufferBuilder<'m, 'static>,
    ring: &'m dyn MapCore,
) -> libbpf_rs::Result<Rc<RefCell<Vec<T>>>> {
    let records = Rc::new(RefCell::new(Vec::new()));
    let into = Rc::clone(&records);
    reader.add(ring, move |bytes| {
        into.borrow_mut().extend(bytes.get(..size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>));
        0
    })?;
    Ok(records)
}

/// Returns the key that stands for a whole process in the enrolment map: the process id with bit 32 set. A key without this bit is a thread id.
pub(crate) fn process_key(pid: u32) -> u64 {
    1 << 32 | u64::from(pid)
}

fn unreadable(error: libbpf_rs::Error) -> WatchError {
    system("reading the BPF ring buffers", error)
}
