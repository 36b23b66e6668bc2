//! The `bpf` backend: the kernel keeps each member's clock in task storage, and hands it over when
//! the thread dies; what lives is read by a walk over all tasks.
//!
//! Life cycle of an observation, and why in this order:
//! 1. load: the verifier accepts the programs, or this kernel or user cannot use the backend.
//! 2. attach the tracepoints, then
//! 3. enrol: were it the other way round, a thread created between the walk and the attachment
//!    would be missed; so its creator is a member already, or the walk meets it.
//! 4. tick: take final clocks and samples out of their rings.
//! 5. finish: read the living, *then* detach. A thread that dies in between is in both lists and its
//!    final clock wins; the other order would lose it.
//!
//! Nothing is pinned: when cox dies, by whatever signal, the kernel detaches and frees everything.

mod excerpt;
mod libbpf;
mod living;
mod maps;
mod program;
#[cfg(test)]
mod relocations;
mod sampler;

use std::cell::RefCell;
use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use arch::laps::{self, Part};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use wire::layout::LAUNCHED;
use wire::{Backend, Clock, Living, Moment, Record, Sample};

use crate::observer::{Intake, Observer, WatchError};
use crate::online;
pub(crate) use excerpt::{Excerpt, Read};
pub use libbpf::CANNOT;
pub(crate) use libbpf::{Libbpf, kernel_casts, own_namespace, refused, system, unavailable};
use program::Program;
pub use program::Settings;
pub(crate) use sampler::Sampler;

/// How long `finish` waits for members that have left the task list but not their CPU.
const LAST_SWITCHES: Duration = Duration::from_millis(50);

/// An observation by BPF. See the module's text for its life cycle.
pub struct BpfObserver {
    // Field order is drop order: readers and links before the object they point into.
    rings: RingBuffer<'static>,
    sampler: Option<Sampler>,
    program: Program,
    finals: Rc<RefCell<Vec<Clock>>>,
    samples: Rc<RefCell<Vec<Sample>>>,
    moments: Rc<RefCell<Vec<Moment>>>,
    start_ns: u64,
}

impl BpfObserver {
    /// Load the programs and attach them; nobody is a member yet.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason when this kernel or user cannot run them.
    pub fn new(settings: &Settings) -> Result<BpfObserver, WatchError> {
        let mut program = Program::load(settings)?;
        let finals = Rc::new(RefCell::new(Vec::new()));
        let samples = Rc::new(RefCell::new(Vec::new()));
        let moments = Rc::new(RefCell::new(Vec::new()));
        let rings = {
            let mut builder = RingBufferBuilder::new();
            let into = Rc::clone(&finals);
            builder.add(program.finals(), move |bytes| keep(&into, bytes)).map_err(unreadable)?;
            let into = Rc::clone(&samples);
            builder.add(program.samples(), move |bytes| keep(&into, bytes)).map_err(unreadable)?;
            let into = Rc::clone(&moments);
            builder.add(program.moments(), move |bytes| keep(&into, bytes)).map_err(unreadable)?;
            builder.build().map_err(unreadable)?
        };
        // Before attaching: no CPU can have more time than the window.
        let start_ns = arch::monotonic_ns();
        program.attach()?;
        laps::done(Part::Attaching);
        // A kernel that forbids perf events to this user may allow the rest: then spinning is not
        // seen, and the record says so by having no sample period.
        let sampler = match settings.sample_period_ns {
            0 => None,
            period_ns => {
                online::cpus().and_then(|cpus| Sampler::start(program.sampling_program(), period_ns, cpus)).ok()
            }
        };
        laps::done(Part::Sampling);
        Ok(BpfObserver { rings, sampler, program, finals, samples, moments, start_ns })
    }

    fn enrol_process(&mut self, pid: u32, flags: u32, otherwise: &str) -> Result<(), WatchError> {
        let before = self.program.crew().members;
        self.program.enrol(&[maps::process_key(pid)], flags)?;
        if self.program.crew().members > before {
            return Ok(());
        }
        Err(WatchError::NoTarget { pid, why: otherwise.into() })
    }

    /// Attach or detach the scheduler programs while membership and clocks stay: for measuring what
    /// they cost by switching them on and off inside one run. Clocks are wrong afterwards.
    pub fn set_attached(&mut self, attached: bool) -> Result<(), WatchError> {
        if attached { self.program.attach() } else { self.program.detach() }
    }

    /// Final clocks that have arrived and were not taken yet; `finish` has only the others.
    pub fn take_finals(&mut self) -> Vec<Clock> {
        self.finals.take()
    }

    /// Members that have not died yet, by the kernel's count.
    pub fn alive(&self) -> u64 {
        self.program.crew().alive
    }

    fn drain(&mut self) -> Result<(), WatchError> {
        self.rings.consume().map_err(unreadable)
    }

    /// The living, once the count of members that have not died agrees with the walk.
    fn settled_living(&mut self) -> Result<Vec<Living>, WatchError> {
        let deadline = arch::monotonic_ns() + LAST_SWITCHES.as_nanos() as u64;
        loop {
            let living = living::read(&self.program)?;
            if self.alive() <= living.len() as u64 || arch::monotonic_ns() > deadline {
                return Ok(living);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

impl Observer for BpfObserver {
    fn backend(&self) -> Backend {
        Backend::Bpf
    }

    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        self.enrol_process(pid, 0, "there is no such process, or it has just ended")
    }

    /// The child waits, before its exec, to be let go.
    fn enrol_launched(&mut self, pid: u32) -> Result<(), WatchError> {
        self.enrol_process(pid, LAUNCHED, "the kernel did not find the program that was started")
    }

    fn enrol_threads(&mut self, tids: &[u32]) -> Result<bool, WatchError> {
        let keys: Vec<u64> = tids.iter().map(|tid| u64::from(*tid)).collect();
        self.program.enrol(&keys, 0)?;
        Ok(true)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring buffer owns the epoll descriptor and outlives the borrow of self.
        Some(unsafe { BorrowedFd::borrow_raw(self.rings.epoll_fd()) })
    }

    fn tick(&mut self, intake: &mut Intake) -> Result<(), WatchError> {
        self.drain()?;
        if let Some(sampler) = &mut self.sampler {
            sampler.tick();
        }
        intake.samples.append(&mut self.samples.borrow_mut());
        intake.moments.append(&mut self.moments.borrow_mut());
        Ok(())
    }

    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError> {
        let living = living::read(&self.program)?;
        Ok(living.iter().map(|l| (l.clock.tgid, l.clock.tid, l.clock.comm())).collect())
    }

    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        let mut living = self.settled_living()?;
        let end_ns = arch::monotonic_ns();
        let cpus = self.program.cpus();
        let crew = self.program.crew();
        laps::done(Part::Closing);
        let sampled = self.sampler.take().is_some();
        self.program.detach()?;
        self.tick(intake)?;
        laps::done(Part::Detaching);
        // What found no room until they were detached is in both: the count, and the marks.
        let lost = self.program.crew();
        intake.moments.extend(self.program.gaps().into_iter().map(|gap| Moment { t_ns: gap.t_ns.min(end_ns), ..gap }));

        let mut record = Record::new(Backend::Bpf, self.start_ns, end_ns);
        record.clocks = self.finals.take();
        let dead: HashSet<(u32, u64)> = record.clocks.iter().map(|c| (c.tid, c.born_ns)).collect();
        living.retain(|l| !dead.contains(&(l.clock.tid, l.clock.born_ns)));
        record.living = living;
        record.takers = maps::takers(&self.program)?;
        record.pairs = maps::pairs(&self.program)?;
        record.unlisted = maps::unlisted(&self.program)?;
        record.events = cpus.iter().map(|c| c.events).sum();
        record.kernel_cost_ns = cost_of_switches(&cpus);
        record.sample_period_ns = if sampled { self.program.settings().sample_period_ns } else { 0 };
        record.losses = maps::losses(&lost, self.program.missed_events());
        record.cpus = cpus;
        record.crew = crew;
        Ok(record)
    }
}

/// Time in the switch handlers, from the one in 256 that was timed.
fn cost_of_switches(cpus: &[wire::Cpu]) -> Option<u64> {
    let timed: u64 = cpus.iter().map(|c| c.timed_events).sum();
    let timed_ns: u64 = cpus.iter().map(|c| c.timed_ns).sum();
    let events: u64 = cpus.iter().map(|c| c.events).sum();
    timed_ns.checked_mul(events).and_then(|product| product.checked_div(timed))
}

/// Keep one ring record; a record of a foreign size cannot come from our own programs.
pub(crate) fn keep<T: bytemuck::AnyBitPattern>(into: &RefCell<Vec<T>>, bytes: &[u8]) -> i32 {
    if let Some(bytes) = bytes.get(..size_of::<T>()) {
        into.borrow_mut().push(bytemuck::pod_read_unaligned(bytes));
    }
    0
}

fn unreadable(error: libbpf_rs::Error) -> WatchError {
    WatchError::System { what: "reading the BPF ring buffers".into(), source: std::io::Error::other(error) }
}
