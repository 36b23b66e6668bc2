//! A stopwatch for the fixed cost of a session: how long cox takes for each part of its start and its end.
//!
//! It is off unless [`begin`] was called, and costs a load then. `cox` begins it when [`VARIABLE`] names a file; `cox-bench overhead
//! start` reads that file. Code that finishes a part calls [`done`]: the time since the last such call, of whatever thread, was
//! for this part. The parts of a session follow one another, also where threads of their own do them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::monotonic_ns;

/// Names the file that `cox` writes its parts to when it ends.
pub const VARIABLE: &str = "COX_LAPS";

/// A part of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Reading options and the machine, opening outputs.
    Preparing,
    /// Cutting an excerpt of the kernel's types.
    Types,
    /// Opening the BPF object, and its settings.
    Opening,
    /// Relocating, verifying and loading the BPF programs, and making their maps.
    Loading,
    /// Attaching them to tracepoints.
    Attaching,
    /// Starting the clocks that take samples.
    Sampling,
    /// Forking the program, to its gate.
    Forking,
    /// A journal of what is to be put back, and the process that does it when cox is killed.
    Guarding,
    /// Enrolling its threads; for a pack, taking hold of them.
    Enrolling,
    /// From opening the gate to the exec.
    Starting,
    /// The program runs.
    Running,
    /// The last clocks of threads; for a pack, putting masks back.
    Closing,
    /// Detaching from tracepoints, and what was left in rings.
    Detaching,
    /// Reading the binaries that samples are in.
    Reading,
    /// Making the account and writing the report.
    Reporting,
}

/// All parts, in the order in which a session has them.
pub const ALL: [Part; 15] = [
    Part::Preparing,
    Part::Types,
    Part::Opening,
    Part::Loading,
    Part::Attaching,
    Part::Sampling,
    Part::Forking,
    Part::Guarding,
    Part::Enrolling,
    Part::Starting,
    Part::Running,
    Part::Closing,
    Part::Detaching,
    Part::Reading,
    Part::Reporting,
];

impl Part {
    /// As it is written and printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Preparing => "options, machine, outputs",
            Part::Types => "reading the kernel's types",
            Part::Opening => "opening the BPF object",
            Part::Loading => "verifying and loading",
            Part::Attaching => "attaching",
            Part::Sampling => "starting sampling clocks",
            Part::Forking => "forking the program",
            Part::Guarding => "journal and guardian",
            Part::Enrolling => "enrolling its threads",
            Part::Starting => "its exec",
            Part::Running => "the program runs",
            Part::Closing => "last clocks, masks",
            Part::Detaching => "detaching",
            Part::Reading => "reading binaries",
            Part::Reporting => "account and report",
        }
    }
}

/// When the last part was done, nanoseconds on CLOCK_MONOTONIC; 0: the stopwatch is off.
static LAST_NS: AtomicU64 = AtomicU64::new(0);
static TOOK_NS: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// Starts the stopwatch. Returns when, on CLOCK_MONOTONIC.
pub fn begin() -> u64 {
    let now_ns = monotonic_ns();
    LAST_NS.store(now_ns, Ordering::Relaxed);
    now_ns
}

/// Says that a part is done. Of a part that comes twice the times are added.
pub fn done(part: Part) {
    if LAST_NS.load(Ordering::Relaxed) == 0 {
        return;
    }
    let now_ns = monotonic_ns();
    let last_ns = LAST_NS.swap(now_ns, Ordering::Relaxed);
    TOOK_NS[part as usize].fetch_add(now_ns.saturating_sub(last_ns), Ordering::Relaxed);
}

/// How long each part took so far, nanoseconds.
pub fn taken() -> impl Iterator<Item = (Part, u64)> {
    ALL.into_iter().zip(&TOOK_NS).map(|(part, took)| (part, took.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_time_between_and_nothing_is_kept_before_the_beginning() {
        // One test, because the stopwatch is the process's.
        done(Part::Loading);
        assert!(taken().all(|(_, ns)| ns == 0));
        let begin_ns = begin();
        for part in [Part::Opening, Part::Loading, Part::Opening] {
            std::thread::sleep(std::time::Duration::from_millis(2));
            done(part);
        }
        let end_ns = monotonic_ns();
        let of = |wanted| taken().find(|(part, _)| *part == wanted).unwrap().1;
        assert!(of(Part::Opening) >= 4_000_000 && of(Part::Loading) >= 2_000_000);
        let sum: u64 = taken().map(|(_, ns)| ns).sum();
        assert!(sum <= end_ns - begin_ns && sum >= 6_000_000, "{sum}");
    }

    #[test]
    fn every_part_is_at_its_own_place() {
        assert!(ALL.iter().enumerate().all(|(at, part)| *part as usize == at));
    }
}
