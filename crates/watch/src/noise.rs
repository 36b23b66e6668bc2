//! What the kernel does on a CPU instead of running a followed thread: the events of the noise part (`bpf/prog/noise.bpf.h`), and its counters.
//!
//! [`NoiseEvents`] is what an engine needs of a source of events. [`Interruptions`] is the source whose programs this process has loaded; the crate
//! `broker` has the one whose programs are in the process `cox-observe`.
//!
//! Life cycle:
//! 1. [`Interruptions::new`] loads and attaches the programs. Attaching changes kernel code, which interrupts every CPU, so it comes before any
//!    measurement.
//! 2. [`NoiseEvents::follow`] names the threads.
//! 3. [`NoiseEvents::drain`] takes the events out of the rings, of which each CPU has one. Nothing wakes the reader: it decides itself when it reads, so that it disturbs no
//!    CPU that is being measured.
//! 4. [`NoiseEvents::counts`] reads what happened on each CPU, for the comparison with the kernel's own counters.
//! 5. [`NoiseEvents::function`] names the kernel's functions in the events.

mod merge;
mod record;
mod rings;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore, MapFlags};
use perf_event_open_sys::bindings::{PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN};

pub use crate::bpf::Noise as Settings;
use crate::bpf::{INTERRUPTIONS, Part, Parts, Programs, process_key, system, tracepoint};
use crate::observer::WatchError;
use crate::online;
use crate::perf::event;
pub use record::Interruption;
use rings::Rings;

/// The tracepoints of the noise part, by name. A kernel need not have all of them.
pub const TRACEPOINTS: [&str; INTERRUPTIONS.len()] = {
    let mut names = [""; INTERRUPTIONS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = tracepoint(INTERRUPTIONS[at]);
        at += 1;
    }
    names
};

/// Which page faults are measured. The kernel counts faults for perf when it has handled them, and a program is attached to that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// The time of one page fault in this many, on every CPU. A fault that is measured costs as much again as a small fault, whichever thread it
    /// belongs to.
    OneIn(u64),
    /// The time of each page fault of the threads that [`NoiseEvents::follow_threads`] names. Faults of other threads cost nothing more.
    OfNamedThreads,
}

/// A source of events. Its programs are attached when it is made, and no thread is followed then.
pub trait NoiseEvents {
    /// Follows all threads of a process, and those that they create from now on. If the process does not exist, nothing is followed.
    ///
    /// # Errors
    /// `NoTarget` if the process may not be followed; another error if the kernel refuses.
    fn follow(&mut self, pid: u32) -> Result<(), WatchError>;

    /// Follows single threads.
    ///
    /// # Errors
    /// As [`follow`](NoiseEvents::follow).
    fn follow_threads(&mut self, tids: &[u32]) -> Result<(), WatchError>;

    /// Returns the events that have arrived since the last call, in order of time. An event of the last millisecond waits for the next call, because
    /// another CPU may still report an older one.
    ///
    /// # Errors
    /// If a ring cannot be read.
    fn drain(&mut self) -> Result<Vec<Interruption>, WatchError>;

    /// Returns the number of events that did not fit into the rings.
    fn lost(&self) -> u64;

    /// Returns the tracepoints that are not attached, by name: the kernel does not have them, or the user has left them out.
    fn without(&self) -> Vec<&'static str>;

    /// Reads what has happened on each CPU so far.
    ///
    /// # Errors
    /// If the counters cannot be read.
    fn counts(&mut self) -> Result<Counts, WatchError>;

    /// Returns the name of a function of the kernel by the number that an event has for it (an address, if this process has loaded the programs).
    /// `None` if the kernel does not know it.
    fn function(&mut self, number: u64) -> Option<String>;

    /// Detaches the programs. Events that are in the rings can still be read, and none of them waits any longer.
    fn end(&mut self);
}

/// The programs that report what interrupts threads. Dropping this value detaches and frees them.
pub struct Interruptions {
    // Field order is drop order: links and readers before the programs and maps they belong to.
    /// The kernel's counts of page faults, with the programs that run when they are raised.
    faults: Vec<OwnedFd>,
    measures: Faults,
    rings: Rings,
    is_over: bool,
    programs: Programs,
}

/// What happened on each CPU since the programs were attached: one list of `wire::noise::count::ALL` numbers for each possible CPU.
pub type Counts = Vec<Vec<u64>>;

impl Interruptions {
    /// Loads and attaches the programs; no thread is followed yet. With an `owner`, only threads of that user can be followed, and no thread of
    /// another user is named.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason if this kernel or user cannot run the programs.
    pub fn new(settings: &Settings, owner: Option<u32>, measures: Faults) -> Result<Interruptions, WatchError> {
        let parts = Parts { noise: Some(settings.clone()), owner, ..Parts::default() };
        let programs = Programs::of(Part::Noise, &parts)?;
        let rings = Rings::new(&programs, settings.ring_bytes)?;
        let faults = match measures {
            Faults::OneIn(period) => {
                let of_cpu = |cpu: u32| ends_of_faults(&programs, period, None, Some(cpu));
                online::cpus()?.into_iter().map(of_cpu).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
            Faults::OfNamedThreads => Vec::new(),
        };
        programs.attach(Part::Noise)?;
        Ok(Interruptions { faults, measures, rings, is_over: false, programs })
    }

    /// Returns the oldest of the events that [`drain`](NoiseEvents::drain) would return: some `most`, and none only if there are none.
    ///
    /// # Errors
    /// If a ring cannot be read.
    pub fn take(&mut self, most: usize) -> Result<Vec<Interruption>, WatchError> {
        self.rings.take(most, self.is_over)
    }
}

impl NoiseEvents for Interruptions {
    fn follow(&mut self, pid: u32) -> Result<(), WatchError> {
        self.programs.enrol(Part::Noise, &[process_key(pid)], 0).map(drop)
    }

    fn follow_threads(&mut self, tids: &[u32]) -> Result<(), WatchError> {
        let keys: Vec<u64> = tids.iter().copied().map(u64::from).collect();
        self.programs.enrol(Part::Noise, &keys, 0)?;
        if self.measures == Faults::OfNamedThreads {
            for tid in tids {
                self.faults.extend(ends_of_faults(&self.programs, 1, Some(*tid), None)?);
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<Vec<Interruption>, WatchError> {
        self.take(usize::MAX)
    }

    fn lost(&self) -> u64 {
        self.programs.lost_interruptions()
    }

    fn without(&self) -> Vec<&'static str> {
        self.programs.without()
    }

    fn counts(&mut self) -> Result<Counts, WatchError> {
        let map = self.programs.map("noise_counts")?;
        let of_cpus =
            map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| system("reading counters", e))?;
        let words = |bytes: &Vec<u8>| bytes.chunks_exact(size_of::<u64>()).map(bytemuck::pod_read_unaligned).collect();
        let counts: Counts = of_cpus.unwrap_or_default().iter().map(words).collect();
        Ok(counts)
    }

    fn function(&mut self, number: u64) -> Option<String> {
        self.programs.function(number)
    }

    fn end(&mut self) {
        self.faults.clear();
        self.programs.interruptions_over().store(true, Ordering::Relaxed);
        self.programs.detach(Part::Noise);
        self.is_over = true;
    }
}

impl Drop for Interruptions {
    fn drop(&mut self) {
        self.end();
    }
}

/// Attaches the programs that run when the kernel has handled a page fault of a thread, or on a CPU. The kernel counts faults for perf at that
/// moment. A program stays attached as long as its descriptor is open. (A BPF link would take a second descriptor for each, and large machines have
/// hundreds of CPUs.)
fn ends_of_faults(
    programs: &Programs,
    period: u64,
    tid: Option<u32>,
    cpu: Option<u32>,
) -> Result<Vec<OwnedFd>, WatchError> {
    let mut counters = Vec::new();
    for (name, counter) in
        [("on_minor_fault", PERF_COUNT_SW_PAGE_FAULTS_MIN), ("on_major_fault", PERF_COUNT_SW_PAGE_FAULTS_MAJ)]
    {
        let program = programs.program(name)?;
        let what = || match (tid, cpu) {
            (Some(tid), _) => format!("counting the page faults of thread {tid}"),
            (None, cpu) => format!("counting the page faults of CPU {}", cpu.unwrap_or_default()),
        };
        let event = event::open(event::every(period, counter), tid, cpu);
        let event = event.map_err(|source| WatchError::system(what(), source))?;
        event::run(event.as_fd(), program.as_fd()).map_err(|source| WatchError::system(what(), source))?;
        counters.push(event);
    }
    Ok(counters)
}
