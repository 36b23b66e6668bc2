//! The host: starts ULPs in its address space, waits for them, and says how each one ended.

mod crowd;
mod error;
mod outputs;
mod space;
mod spawned;
mod ulp_memory;
mod ulps;
mod wanted;

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

pub use error::HostError;
pub use ulp_memory::read as read_memory;
pub use ulps::Ended;
pub use wanted::{Copies, OnCrash, Wanted};

use crowd::Crowd;
use outputs::Outputs;
use ulps::Ulps;

use crate::carriers::{self, Carriers, Crashes};
use crate::debugging::Nodes;
use crate::forwarding::Signals;
use crate::memory::arena::Arena;

/// What became of the ULPs.
#[derive(Debug)]
pub struct Outcome {
    /// How each one ended, by its number; without those that ULPs have started.
    pub ended: Vec<Ended>,
    /// Number of ULPs that ULPs have started.
    pub spawned: usize,
    /// Number of carriers.
    pub carriers: usize,
    /// Why there are none.
    pub coupled: Option<String>,
    /// What all ULPs together did.
    pub counts: carriers::Totals,
    /// Which system calls have sent ULPs home from carriers, by their numbers, and how often.
    pub calls: Vec<(usize, u64)>,
    /// What the carriers have used.
    pub used: carriers::Used,
    /// CPU time of the ULPs' kernel tasks, and of their children, ns.
    pub coupled_cpu_ns: u64,
    /// The most memory that the address space has had, bytes.
    pub peak_bytes: Option<u64>,
    /// The most ULPs that ran at once.
    pub at_once: usize,
    /// The time in which ULPs were loaded and started, without waiting for others.
    pub starting: Duration,
    /// How many were started.
    pub started: usize,
    /// The limit of the address space's mappings, if it was reached when a ULP failed.
    pub full_of_mappings: Option<usize>,
}

/// Starts the ULPs, and waits until all have ended.
///
/// When this is called, this process must not have children or threads. Nothing in it may change the break of the address space (all programs share it).
///
/// # Errors
/// When a ULP cannot be started. All others are killed then.
pub fn run(mut wanted: Wanted) -> Result<Outcome, HostError> {
    space::guard_break().map_err(|errno| HostError::Os { what: "cannot guard the break", source: errno.into() })?;
    let signals = Signals::block().map_err(|source| HostError::Os { what: "cannot block signals", source })?;
    let cpus =
        carriers::allowed_cpus().map_err(|source| HostError::Os { what: "cannot read the CPU affinity", source })?;
    let count = wanted.copies.iter().map(|copies| copies.count).sum();
    let vector = wanted.copies.first().map_or(&[][..], |copies| copies.loader.vector());
    let carriers = Carriers::start(count, (spawned::MOST, spawned::AT_ONCE), &cpus, vector, wanted.wish)
        .map_err(|source| HostError::Os { what: "cannot start carriers", source })?;
    carriers::show_calls(wanted.shows_calls);
    let room = count + spawned::MOST;
    let crashes = wanted.on_crash.take().map(|on_crash| Ok((carriers::note_crashes(room, vector)?, on_crash)));
    let crashes: Option<(Crashes, OnCrash)> =
        crashes.transpose().map_err(|source| HostError::Os { what: "no memory for crashes", source })?;
    let stack_bytes = crashes.as_ref().map_or(0, |(crashes, _)| crashes.stack_bytes());
    for copies in &mut wanted.copies {
        copies.loader.add_to_vector(carriers::auxiliary_entry());
        copies.loader.add_stack_for_handlers(stack_bytes);
    }
    let longest = wanted.copies.iter().map(|copies| copies.loader.bytes()).max();
    let arena = Arena::new(longest.unwrap_or(0), count + spawned::AT_ONCE)
        .map_err(|source| HostError::Os { what: "cannot find free addresses", source })?;
    let outputs = wanted.reader.as_deref().map(Outputs::of).transpose();
    let outputs = outputs.map_err(|source| HostError::Os { what: "no reader of the outputs", source })?;
    let descriptors = wanted.copies.iter().flat_map(|copies| copies.loader.descriptors());
    let descriptors = descriptors.chain(outputs.iter().flat_map(Outputs::descriptors));
    let mut ulps = Ulps {
        close: descriptors.chain([arena.descriptor()]).collect(),
        outputs,
        arena,
        alive: HashMap::new(),
        lingering: Vec::new(),
        ended: vec![Ended::Signal(libc::SIGKILL); count],
        carriers,
        full_of_mappings: None,
        failed: 0,
        is_told_to_end: false,
        newest: None,
        pending: Vec::new(),
        crashes,
        spawned: 0,
        is_given_up: false,
        starting: Duration::ZERO,
        started: 0,
        at_once: 0,
        nodes: Nodes::new(count, spawned::MOST)
            .map_err(|source| HostError::Os { what: "no memory for what debuggers see", source })?,
    };
    let mut crowd = Crowd::new(space::room());
    let mut all = wanted.copies.iter().flat_map(|copies| std::iter::repeat_n(copies, copies.count)).enumerate();
    let started = all.try_for_each(|(number, copies)| {
        ulps.make_room(&mut crowd, &signals)?;
        if ulps.is_told_to_end {
            return Ok(());
        }
        let begun = Instant::now();
        ulps.start(copies, &wanted, number, signals.mask_before())?;
        ulps.starting += begun.elapsed();
        ulps.started += 1;
        ulps.at_once = ulps.at_once.max(ulps.alive.len());
        Ok(())
    });
    if let Err(error) = started {
        ulps.is_given_up = true;
        ulps.send(libc::SIGKILL);
        ulps.reap(&signals)?;
        return Err(error);
    }
    // A ULP that runs may wait for one that is never started.
    (ulps.started..count).for_each(|number| ulps.carriers.never_started(number));
    ulps.reap(&signals)?;
    let Ulps { carriers, ended, lingering, full_of_mappings, starting, started, spawned, at_once, .. } = ulps;
    // A carrier may still run in it.
    std::mem::forget(lingering);
    Ok(Outcome {
        ended,
        spawned,
        carriers: carriers.number(),
        coupled: carriers.coupled().map(ToString::to_string),
        counts: carriers.totals(),
        calls: carriers.calls(),
        used: carriers.used(),
        coupled_cpu_ns: cpu_ns_of_children(),
        peak_bytes: space::peak_bytes(),
        starting,
        started,
        at_once,
        full_of_mappings,
    })
}

/// Returns the CPU time of all children that have been waited for, and of their children, ns. Without the kernel's answer: 0.
fn cpu_ns_of_children() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the structure is valid for writing; a successful call initialises it.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) != 0 {
            return 0;
        }
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000)
        .sum()
}
