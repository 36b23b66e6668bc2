//! What noise a thread that computes meets on each CPU: the document of `cox noise`, as JSON and as text.

mod forecast;
mod phases;
mod program;
mod samples;
mod text;
mod ticks;

use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use forecast::{
    AtWork, FORECAST_SCHEMA_VERSION, ForecastReport, Leave, LeaveChoice, PhasesOf, Slowdown, Source, Without,
    forecast_text,
};
pub use phases::Phases;
pub use program::{Interrupted, ProgramNoise, TakenFromThreads, ThreadNoise};
pub(crate) use samples::small_percent;
pub use samples::{Loss, Peak, Spectrum};
pub use text::text;
pub(crate) use text::{answer, caused_by, check, conclusion, header, knobs};
pub(crate) use ticks::table as table_of_ticks;
pub use ticks::{TickGroup, TickPart};

/// Version of the JSON schema of [`NoiseReport`].
pub const SCHEMA_VERSION: u32 = 1;

/// The document of `cox noise --json`. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseReport {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// Where and when it was measured.
    pub provenance: Provenance,
    /// How it was measured.
    pub measurement: Measurement,
    /// The clock.
    pub clock: Clock,
    /// What the kernel told, and what it could not tell.
    pub events: Events,
    /// All causes; the other figures name them by their index.
    pub causes: Vec<Cause>,
    /// What was found on each CPU.
    pub cpus: Vec<Cpu>,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The loop: `detour`, `fwq`, `ftq` or `bsp`.
    pub measuring: String,
    /// The work of a quantum: `integer`, `fma` or `streaming`; null for loops without fixed work.
    pub work: Option<String>,
    /// Nominal length of a quantum; null for `detour`.
    pub quantum_ns: Option<u64>,
    /// Whether each thread stays on its CPU.
    pub pinned: bool,
    /// Nominal length of the measurement.
    pub length_ns: u64,
    /// Whether it was ended before that. False in documents of before.
    #[serde(default)]
    pub ended_early: bool,
    /// Whether a hypervisor runs the machine: the flag `hypervisor` of its CPUs. Null in documents of before.
    #[serde(default)]
    pub guest: Option<bool>,
    /// The shortest detour that is recorded.
    pub threshold_ns: u64,
    /// A second threshold, for comparison: figures above it vary less between measurements. Not below the first one.
    pub coarse_threshold_ns: u64,
    /// The smallest gap between two readings of the clock.
    pub smallest_gap_ns: u64,
    /// Begin of the time axis of all detours, CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// Number of CPUs of the machine that are online.
    pub online_cpus: u32,
}

/// The clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// The kernel's clock source.
    pub source: Option<String>,
    /// Rate of the CPUs' counter, ticks per microsecond.
    pub ticks_per_us: f64,
    /// Largest error of the rate, parts per million.
    pub error_ppm: f64,
    /// By how much the rate of the measurement differs from that of the warm-up, parts per million, if that is too much to compare the times of detours with
    /// those of events: detours without an event are then unknown. Else null.
    #[serde(default)]
    pub changed_ppm: Option<f64>,
}

/// What the kernel told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Why the kernel told nothing; null if it told causes.
    pub blind: Option<String>,
    /// Number of events.
    pub count: u64,
    /// Number of events that were lost.
    pub lost: u64,
    /// Tracepoints that did not report: this kernel does not have them, or they were left out.
    pub without: Vec<String>,
    /// Switches of the measuring threads: the kernel's count, and the events'. Null without events.
    pub switches: Option<[u64; 2]>,
    /// Page faults of the measuring threads: the kernel's count, and the events'. Null without events.
    pub page_faults: Option<[u64; 2]>,
}

/// A cause of detours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Its name.
    pub name: String,
    /// Its class: `tick`, `timer`, `device`, `softirq`, `ipi`, `page fault`, `thread`, `kworker`, `other interrupt`, `outside` or `unknown`.
    pub class: String,
    /// What silences it; null if nothing is known.
    pub knob: Option<String>,
    /// The function of the kernel that sent the interrupt; null if it is not known, and for other causes.
    pub call_site: Option<String>,
}

/// What was found on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The CPU. Of a thread that is not pinned, only a number.
    pub cpu: u32,
    /// The measuring thread.
    pub tid: u32,
    /// Begin of the measurement, on the time axis of the detours.
    pub begin_ns: u64,
    /// Length of the measurement.
    pub length_ns: u64,
    /// Length of the part of the measurement whose detours are listed; `length_ns` if none is missing. 0 in documents of before.
    #[serde(default)]
    pub listed_ns: u64,
    /// Number of readings of the clock, quanta or steps.
    pub readings: u64,
    /// The shortest quantum or step; null for `detour` and `ftq`.
    pub quiet_ns: Option<u64>,
    /// Mean time of a step with its barrier; null for other loops.
    pub step_ns: Option<f64>,
    /// Detours above the threshold, also those that are not listed. `ftq` finds none.
    pub fine: Above,
    /// Detours above the coarse threshold, also those that are not listed. `ftq` finds none.
    pub coarse: Above,
    /// Whether some detours are counted but not listed, because there was no room for them.
    pub truncated: bool,
    /// Time that was stolen with a known cause; null without events, and for `ftq`. What detours are charged with, and the times of ticks, concern `listed_ns`.
    pub caused_ns: Option<u64>,
    /// Time that was stolen without an event, and by something else during an event's detour; null like `caused_ns`. Of detours, that is outside this kernel. Quanta and steps may also have been slower
    /// without an interruption.
    pub outside_ns: Option<u64>,
    /// Time that was stolen by unknown causes; null like `caused_ns`.
    pub unknown_ns: Option<u64>,
    /// What each cause took, the most first.
    pub by_cause: Vec<Taken>,
    /// The comparison with the kernel's counters.
    pub check: Check,
    /// Time that the hypervisor gave to others, by the kernel's clock. It is shown beside, never subtracted.
    pub steal_ns: u64,
    /// The listed detours: begin, length, index of the cause.
    pub detours: Vec<(u64, u64, u32)>,
    /// What ticks did: detours that contain the timer tick, grouped by what else they contain. The most frequent groups come first, and rare
    /// ones are one group, the last. Empty without events.
    #[serde(default)]
    pub ticks: Vec<TickGroup>,
    /// Histogram of the detours of `detour` by length, also of those that are not listed: the shortest length of a bucket, and the number of detours in it.
    /// Each power of two has sixteen buckets. Null for other loops.
    #[serde(default)]
    pub lengths: Option<Vec<(u64, u64)>>,
    /// Histogram of the quanta of `fwq`: the shortest length of a bucket, and the number of quanta in it. Null for other loops.
    #[serde(default)]
    pub quanta: Option<Vec<(u64, u64)>>,
    /// Histogram of the steps of `bsp`, with their barriers, like `quanta`. Null for other loops.
    #[serde(default)]
    pub steps: Option<Vec<(u64, u64)>>,
    /// Histogram of the work of the steps of `bsp`, the time up to the barrier, like `quanta`. Null for other loops.
    #[serde(default)]
    pub until_barrier: Option<Vec<(u64, u64)>>,
    /// How much of each quantum of `ftq` was lost. Null for other loops.
    #[serde(default)]
    pub loss: Option<Loss>,
    /// Which disturbances of `ftq` are periodic. Null for other loops, and if there are fewer than 128 quanta.
    #[serde(default)]
    pub spectrum: Option<Spectrum>,
}

/// Detours above a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Above {
    /// Number.
    pub count: u64,
    /// Sum of their lengths. For quanta and steps, what they took longer than the shortest one.
    pub stolen_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

/// What one cause took on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taken {
    /// Index of the cause.
    pub cause: u32,
    /// Number of times that it interrupted the thread, whether or not that made a detour above the threshold.
    pub count: u64,
    /// Net time, as the kernel's events tell it: without entering and leaving the kernel, and without other causes within.
    pub inside_ns: u64,
    /// Time of the detours that it is charged with, which includes entering and leaving the kernel.
    pub stolen_ns: u64,
    /// Median of the net times; of `outside` and `unknown`, of what detours are charged with.
    pub median_ns: u64,
    /// Longest net time; of `outside` and `unknown`, most that a detour is charged with.
    pub longest_ns: u64,
}

/// The comparison with the kernel's counters on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Rows of /proc/interrupts and /proc/softirqs: name, the kernel's count, and the events' count (null: no tracepoint).
    pub rows: Vec<(String, u64, Option<u64>)>,
    /// Number of rows that agree.
    pub agreeing: u64,
    /// What the kernel counted and no event told, as "number × row".
    pub not_seen: Vec<String>,
}

impl NoiseReport {
    /// Makes a report from the text of the JSON of `cox noise`. A recording can have a million detours, so the text is not
    /// made a tree of values first; only for one that cannot be read, to say why.
    ///
    /// # Errors
    /// Why it is none, as a sentence.
    pub fn of_json(bytes: &[u8]) -> Result<NoiseReport, String> {
        match serde_json::from_slice::<NoiseReport>(bytes) {
            Ok(report) if report.schema_version == SCHEMA_VERSION => Ok(report),
            _ => NoiseReport::read(serde_json::from_slice(bytes).map_err(|error| error.to_string())?),
        }
    }

    /// Makes a report from the JSON of `cox noise`.
    ///
    /// # Errors
    /// Why it is none, as a sentence.
    pub fn read(value: serde_json::Value) -> Result<NoiseReport, String> {
        match value.get("schema_version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(SCHEMA_VERSION) => {}
            Some(version) => {
                return Err(format!("its schema_version is {version}, and this cox reads {SCHEMA_VERSION}"));
            }
            None => return Err("it has no schema_version".to_owned()),
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}

impl Measurement {
    /// Returns whether the loop repeats work of a fixed size. Its quanta also take longer if the work is slower, without any interruption.
    pub(crate) fn has_fixed_work(&self) -> bool {
        matches!(self.measuring.as_str(), "fwq" | "bsp")
    }
}

impl Check {
    /// Returns whether all rows agree.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.not_seen.is_empty()
    }
}

impl NoiseReport {
    /// Returns the mean over the measured CPUs of: the share of the time that was stolen; its parts, which are ticks, this kernel otherwise, and the rest;
    /// and the share of the steal clock. Ticks and other causes have their net times: a detour that contains a tick may be long because the
    /// hypervisor took the CPU meanwhile.
    #[must_use]
    pub fn shares(&self) -> [f64; 5] {
        let mut sums = [0.0; 5];
        for cpu in &self.cpus {
            let of_class = |is_tick: bool| {
                let is_in = |taken: &&Taken| {
                    let class = self.causes.get(taken.cause as usize).map_or("", |cause| cause.class.as_str());
                    !matches!(class, "outside" | "unknown") && (class == "tick") == is_tick
                };
                let net_ns: u64 = cpu.by_cause.iter().filter(is_in).map(|taken| taken.inside_ns).sum();
                net_ns as f64 / cpu.listed_ns().max(1) as f64
            };
            let (stolen, ticks, kernel) = (cpu.stolen(), of_class(true), of_class(false));
            let steal = cpu.steal_ns as f64 / cpu.length_ns.max(1) as f64;
            let shares = [stolen, ticks, kernel, (stolen - ticks - kernel).max(0.0), steal];
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        }
        sums.map(|sum| sum / self.cpus.len().max(1) as f64)
    }
}

impl Cpu {
    /// Returns the share of the measurement that was stolen.
    #[must_use]
    pub fn stolen(&self) -> f64 {
        self.fine.stolen_ns as f64 / self.length_ns.max(1) as f64
    }

    /// Returns the time that a detour took: of quanta and steps, what they took longer than the shortest one.
    #[must_use]
    pub fn lost_ns(&self, length_ns: u64) -> u64 {
        length_ns.saturating_sub(self.quiet_ns.unwrap_or(0))
    }

    /// Returns a time in each second of the measurement, µs.
    #[must_use]
    pub fn us_per_s(&self, ns: u64) -> f64 {
        ns as f64 / 1e3 / self.seconds()
    }

    /// Returns the length of the part of the measurement whose detours are listed, ns.
    #[must_use]
    pub fn listed_ns(&self) -> u64 {
        let end_of_list = || self.detours.last().map_or(0, |(begin, length, _)| begin + length);
        match self.listed_ns {
            0 if self.truncated => end_of_list().saturating_sub(self.begin_ns),
            0 => self.length_ns,
            listed_ns => listed_ns,
        }
    }

    /// Returns [`listed_ns`](Cpu::listed_ns) in seconds.
    #[must_use]
    pub fn listed_seconds(&self) -> f64 {
        self.listed_ns().max(1) as f64 / 1e9
    }

    /// Returns the length of the measurement, s.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.length_ns.max(1) as f64 / 1e9
    }
}
