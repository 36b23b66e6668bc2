//! What keeps the tick of a CPU on which the kernel could stop it (`nohz_full=`): how often each dependency of the tick
//! did, by the tracepoint `timer:tick_stop`.
//!
//! One perf event counts for each CPU and dependency, with a filter in the kernel. That takes six descriptors for each
//! CPU. Nothing is recorded, and nothing wakes up; the tracepoint is only passed when a tick could have been stopped.
//! The events end with this process, so there is nothing to restore.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use machine::tracepoints;
use machine::{CpuSet, Root};
use perf_event_open_sys::bindings as abi;
use perf_event_open_sys::bindings::perf_event_attr;
use perf_event_open_sys::ioctls;

use crate::observer::WatchError;
use crate::perf::event;

/// Bits of `dependency` in the tracepoint (`TICK_DEP_MASK_*` in include/linux/tick.h), with the kernel's name and what
/// it means.
const DEPENDENCIES: [(u32, &str, &str); 6] = [
    (1, "POSIX_TIMER", "a POSIX timer of CPU time (setitimer, timer_create, RLIMIT_CPU)"),
    (1 << 1, "PERF_EVENTS", "a perf event that samples by frequency"),
    (1 << 2, "SCHED", "more than one thread could run, or a deadline server"),
    (1 << 3, "CLOCK_UNSTABLE", "the clock is not stable"),
    (1 << 4, "RCU", "RCU waited for this CPU"),
    (1 << 5, "RCU_EXP", "an expedited RCU grace period waited for this CPU"),
];

/// Counts what keeps the ticks of some CPUs.
#[derive(Debug)]
pub struct TickDependencies {
    counters: Vec<Counter>,
}

/// Counts one dependency on one CPU.
#[derive(Debug)]
struct Counter {
    /// Its place in [`DEPENDENCIES`].
    dependency: usize,
    file: File,
    /// The count that is left out.
    before: u64,
}

impl Counter {
    /// Returns the count since the counter was opened. One that cannot be read has counted nothing.
    fn total(&self) -> u64 {
        let mut value = [0; 8];
        if (&self.file).read_exact(&mut value).is_ok() { u64::from_ne_bytes(value) } else { 0 }
    }
}

/// How often one dependency kept the tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The kernel's name of the dependency: `SCHED`.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// How often, on all CPUs.
    pub count: u64,
}

impl TickDependencies {
    /// Begins to count on these CPUs.
    ///
    /// # Errors
    /// If the tracepoint does not exist or may not be used: that takes CAP_PERFMON, and tracefs.
    pub fn on(root: &Root, cpus: &CpuSet) -> Result<TickDependencies, WatchError> {
        let unavailable = |why: String| WatchError::Unavailable { what: "tracepoint timer:tick_stop".to_owned(), why };
        let id =
            tracepoints::id(root, "timer", "tick_stop").ok_or_else(|| unavailable("tracefs has none".to_owned()))?;
        let mut counters = Vec::new();
        for (at, (bit, ..)) in DEPENDENCIES.iter().enumerate() {
            for cpu in cpus.iter() {
                let counter = counter(id, *bit, cpu).map_err(|error| unavailable(error.to_string()))?;
                counters.push(Counter { dependency: at, file: File::from(counter), before: 0 });
            }
        }
        Ok(TickDependencies { counters })
    }

    /// Leaves out what has been counted so far.
    pub fn restart(&mut self) {
        self.counters.iter_mut().for_each(|counter| counter.before = counter.total());
    }

    /// Returns how often each dependency has kept a tick, the most frequent first. Dependencies that kept none are left
    /// out.
    #[must_use]
    pub fn read(&self) -> Vec<Kept> {
        let mut counts = [0; DEPENDENCIES.len()];
        for counter in &self.counters {
            counts[counter.dependency] += counter.total().saturating_sub(counter.before);
        }
        let kept = DEPENDENCIES.iter().zip(counts).map(|((_, name, meaning), count)| Kept { name, meaning, count });
        let mut kept: Vec<Kept> = kept.filter(|kept| kept.count > 0).collect();
        kept.sort_by_key(|kept| std::cmp::Reverse(kept.count));
        kept
    }
}

/// Opens the counter of one dependency on one CPU.
fn counter(id: u64, dependency: u32, cpu: u32) -> io::Result<OwnedFd> {
    let attr = perf_event_attr {
        type_: abi::PERF_TYPE_TRACEPOINT,
        size: size_of::<perf_event_attr>() as u32,
        config: id,
        ..Default::default()
    };
    let counter = event::open(attr, None, Some(cpu))?;
    let filter = CString::new(format!("success == 0 && dependency == {dependency}"))?;
    // SAFETY: `counter` is an open perf event, and the kernel copies the text before the call returns.
    if unsafe { ioctls::SET_FILTER(counter.as_raw_fd(), filter.as_ptr().cast_mut()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(counter)
}
