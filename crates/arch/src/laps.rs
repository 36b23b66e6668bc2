//! A stopwatch for the fixed cost of a session: the time that cox takes for each part of its start and its end.
//!
//! The stopwatch is off, and costs one load, unless [`begin`] was called. `cox` calls [`begin`] if [`VARIABLE`] names a file; `cox-bench
//! overhead start` reads the file. Code that finishes a part calls [`done`]: the time since the previous call of [`done`], by any thread,
//! is added to this part. The parts of a session follow one another, even if different threads do them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::monotonic_ns;

/// Environment variable with the name of a file. When `cox` ends, it writes to this file how long each part of its run took.
pub const VARIABLE: &str = "COX_LAPS";

/// A part of a session, that is, of one run of cox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Reading options and the machine's properties, opening outputs.
    Preparing,
    /// Extracting from the kernel's type information (BTF) the structs that the BPF programs read.
    Types,
    /// Opening the BPF object and setting its options.
    Opening,
    /// Relocating, verifying and loading the BPF programs, and making their maps.
    Loading,
    /// Attaching the BPF programs to tracepoints.
    Attaching,
    /// Starting the perf events that take samples.
    Sampling,
    /// Forking the program's process, which then waits for cox before its exec.
    Forking,
    /// Writing the journal of changes to undo, and starting the guardian that undoes them if cox is killed.
    Guarding,
    /// Registering the program's threads; for packing, taking control of them.
    Enrolling,
    /// The program's process, which cox has let continue, calls exec.
    Starting,
    /// The program runs.
    Running,
    /// Reading the times of the threads that still live; for packing, restoring affinity masks.
    Closing,
    /// Detaching from tracepoints, and reading the rest of the ring buffers.
    Detaching,
    /// Reading the programs and libraries that contain sampled addresses.
    Reading,
    /// Making the account and writing the report.
    Reporting,
}

/// All parts of a run of cox and their names, in the order in which they take place.
pub const PARTS: [(Part, &str); 15] = [
    (Part::Preparing, "reading options, opening outputs"),
    (Part::Types, "reading the kernel's types"),
    (Part::Opening, "opening the BPF object"),
    (Part::Loading, "verifying and loading BPF programs"),
    (Part::Attaching, "attaching"),
    (Part::Sampling, "starting the sampling clocks"),
    (Part::Forking, "forking the program"),
    (Part::Guarding, "starting journal and guardian"),
    (Part::Enrolling, "registering the program's threads"),
    (Part::Starting, "its exec"),
    (Part::Running, "the program runs"),
    (Part::Closing, "reading clocks, restoring masks"),
    (Part::Detaching, "detaching"),
    (Part::Reading, "reading binaries"),
    (Part::Reporting, "account and report"),
];

/// Time of the last call of [`begin`] or [`done`], in nanoseconds on CLOCK_MONOTONIC; 0 if the stopwatch is off.
static LAST_NS: AtomicU64 = AtomicU64::new(0);
static TOOK_NS: [AtomicU64; PARTS.len()] = [const { AtomicU64::new(0) }; PARTS.len()];

/// Starts the stopwatch. Returns the current time in nanoseconds on CLOCK_MONOTONIC.
pub fn begin() -> u64 {
    let now_ns = monotonic_ns();
    LAST_NS.store(now_ns, Ordering::Relaxed);
    now_ns
}

/// Called when cox has finished a part of its run, such as loading BPF programs: adds the time since the previous call to the time of this part.
pub fn done(part: Part) {
    if LAST_NS.load(Ordering::Relaxed) == 0 {
        return;
    }
    let now_ns = monotonic_ns();
    let last_ns = LAST_NS.swap(now_ns, Ordering::Relaxed);
    TOOK_NS[part as usize].fetch_add(now_ns.saturating_sub(last_ns), Ordering::Relaxed);
}

/// Returns the name of each part of cox's run, such as "attaching", and the time that this part has taken so far, in nanoseconds.
pub fn taken() -> impl Iterator<Item = (&'static str, u64)> {
    PARTS.into_iter().zip(&TOOK_NS).map(|((_, name), took)| (name, took.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_time_between_and_nothing_is_kept_before_the_beginning() {
        // One test checks all of this, because a process has only one stopwatch.
        done(Part::Loading);
        assert!(taken().all(|(_, ns)| ns == 0));
        let begin_ns = begin();
        for part in [Part::Opening, Part::Loading, Part::Opening] {
            std::thread::sleep(std::time::Duration::from_millis(2));
            done(part);
        }
        let end_ns = monotonic_ns();
        let of = |part: Part| TOOK_NS[part as usize].load(Ordering::Relaxed);
        assert!(of(Part::Opening) >= 4_000_000 && of(Part::Loading) >= 2_000_000);
        let sum: u64 = taken().map(|(_, ns)| ns).sum();
        assert!(sum <= end_ns - begin_ns && sum >= 6_000_000, "{sum}");
    }

    #[test]
    fn every_part_is_at_its_own_place() {
        assert!(PARTS.iter().enumerate().all(|(at, (part, _))| *part as usize == at));
    }
}
