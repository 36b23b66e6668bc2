//! The result of packing, as text and as JSON.

use advise::Confidence;
use advise::forecast::measured::MEETING_AT_MOST;
use advise::numbers::{counted, milliseconds, seconds};
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Backend;

use crate::style::Style;

/// Version of the JSON schema of [`PackReport`].
pub const SCHEMA_VERSION: u32 = 2;

/// The document of `cox pack --json`, from which its text is made. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PackReport {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// The program.
    pub command: Vec<String>,
    /// Where and when the program was packed; null in a section of a report, because the report itself says this.
    #[serde(default)]
    pub provenance: Option<Provenance>,
    /// The program's exit code; absent if cox attached to it.
    pub exit_code: Option<i32>,
    /// CPUs of the pack, as a list: `0-3,8`. If they were changed: the CPUs at the end.
    pub cpus: String,
    /// Number of CPUs of the pack. If it was changed: the number at the end.
    #[serde(alias = "seats")]
    pub slots: u64,
    /// CPU time that the pack offered: the number of its CPUs, times the time for which it had that number.
    #[serde(alias = "seats_ns")]
    pub slots_ns: u64,
    /// When `cox pack set` changed the pack's CPUs (`after_ns`), and to which (`cpus`), in order.
    pub repacked: Vec<Repacked>,
    /// Threads that were packed.
    pub threads: u64,
    /// From the first thread's packing to the end.
    pub wall_ns: u64,
    /// The part of `wall_ns` in which cox rotated the threads, so that they took turns on the CPUs. In the rest the kernel placed them, as with
    /// taskset.
    pub rotating_ns: u64,
    /// The last scheduling period; 0 if cox did not rotate the threads.
    #[serde(alias = "turn_ns")]
    pub period_ns: u64,
    /// CPU time of the threads.
    pub run_ns: u64,
    /// True if packing never began, because cox never saw more threads run than the pack has CPUs, because these threads promised no gain (see
    /// `profiles` and `short_bursts`), or because it failed (see `diagnostics`). The program had the pack's mask, as with taskset, and cox only read its CPU times
    /// in /proc.
    #[serde(default)]
    pub only_watched: bool,
    /// How often cox sampled the threads for 10 ms to see whether packing might help, before it began. It does so while more threads run than the pack
    /// has CPUs.
    #[serde(default)]
    pub profiles: u64,
    /// How often cox saw more threads run than the pack has CPUs, but did not sample them, because they slept or yielded after bursts too short for
    /// rotation to help.
    #[serde(default)]
    pub short_bursts: u64,
    /// The part (0 to 1) of the time of the pack's CPUs that other programs used, according to /proc/stat. Absent if it was not measured, and for
    /// runs below 100 ms, because the kernel counts this time in ticks of some milliseconds. From 5 % on the report shows it, with the efficiency in
    /// the remaining time.
    #[serde(default)]
    pub others: Option<f64>,
    /// The programs that used that time (`comm`, `run_ns`), the largest first, at most ten. With eBPF: each program's time on the pack's CPUs, up
    /// to its last switch-out. With /proc: the whole CPU time, in ticks, of the processes that ran during packing and have a thread that last ran
    /// on one of these CPUs. Programs that started and ended between two readings, or that /proc hides from this user, are missing.
    #[serde(default)]
    pub other_programs: Vec<OtherProgram>,
    /// Whether the times in `other_programs` are upper limits, because /proc does not divide them by CPU. If false, eBPF counted the time on these
    /// CPUs exactly.
    #[serde(default)]
    pub other_programs_at_most: bool,
    /// How far the figures can be trusted: `low` if `others` is more than 30 %, `medium` if it is more than 5 %, otherwise `high`. Null if `others`
    /// is absent.
    #[serde(default)]
    pub confidence: Option<Confidence>,
    /// The part (0 to 1) of samples in which a running thread waited for others in a loop; absent without samples.
    pub spinning: Option<f64>,
    /// Useful CPU time ÷ CPU time of the pack's CPUs, without rotation. Measured while the kernel places the threads: before the first rotation, and
    /// at intervals later. Absent if never measured.
    pub efficiency_without: Option<f64>,
    /// The lowest efficiency without rotation that one of the measuring windows allows, by its sampling error (two standard errors, at least 3 % of
    /// it).
    #[serde(default)]
    pub efficiency_without_low: Option<f64>,
    /// The highest such efficiency.
    #[serde(default)]
    pub efficiency_without_high: Option<f64>,
    /// For how long efficiency without rotation was measured. If this is less than 3 % of `wall_ns`, the report does not say how long the run would
    /// have taken.
    #[serde(default)]
    pub without_measured_ns: u64,
    /// Useful CPU time ÷ CPU time of the pack's CPUs, with rotation.
    pub efficiency_with: Option<f64>,
    /// Number of scheduling periods (times between two placements) at whose end threads changed their CPUs.
    pub exchanges: u64,
    /// Number of times that packing moved a thread to another CPU.
    pub moves: u64,
    /// CPU time of cox's packing threads. It is separate from `own_cost`: neither includes the other.
    pub own_ns: u64,
    /// Threads whose affinity mask is again as it was before packing, or that have ended.
    pub restored: u64,
    /// Processes whose preload library reported which threads wait at barriers.
    pub preloaded: u64,
    /// How many of the `preloaded` processes got a spin throttle: libgomp's threads sleep at barriers, where they would otherwise have spun for
    /// milliseconds.
    #[serde(alias = "kept_from_spinning")]
    pub spin_throttled: u64,
    /// Processes that spin for milliseconds at each barrier, because they were packed after their start: `pid`, `cpus_at_start`, and as sentences
    /// `loss` and `remedy`.
    pub spinning_runtimes: Vec<SpinningRuntime>,
    /// How cox observed threads: `bpf`, or `proc`, with which only the preload library shows cox which threads wait in loops. Null if packing failed
    /// before a backend was chosen.
    #[schemars(with = "Option<String>")]
    pub backend: Option<Backend>,
    /// Why a better backend was not used, if it was tried.
    pub passed_over: Option<String>,
    /// Processes whose preload library could not be read, and why: cox does not know which of their threads wait at barriers.
    pub unread: Vec<String>,
    /// What failed, as sentences.
    #[serde(alias = "complaints")]
    pub diagnostics: Vec<String>,
}

/// CPU time on the pack's CPUs of all other programs with one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherProgram {
    /// The name (comm) that all these programs have.
    pub comm: String,
    /// Run time of all these programs together, nanoseconds.
    pub run_ns: u64,
}

/// A change of the pack's CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repacked {
    /// Time since the start of packing, nanoseconds.
    pub after_ns: u64,
    /// The pack's CPUs from then on, as a list.
    pub cpus: String,
}

/// An OpenMP runtime that chose its waiting policy by the number of CPUs at its start, and now has fewer CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpinningRuntime {
    /// The process id.
    pub pid: u32,
    /// Number of CPUs that the process was allowed to use before it was packed.
    pub cpus_at_start: u64,
    /// How long the process spins at each barrier, and why, as a sentence.
    pub loss: String,
    /// What the user can do against the spinning, as a sentence.
    #[serde(alias = "cure")]
    pub remedy: String,
}

impl SpinningRuntime {
    /// Builds the notice about libgomp. `library` is the preload library's path; `None` if the library would not help.
    #[must_use]
    pub fn of_libgomp(pid: u32, cpus_at_start: u64, library: Option<&str>) -> SpinningRuntime {
        let loss = format!(
            "libgomp of process {pid} counted {} when it started. It still spins for milliseconds at each barrier, although the process has fewer CPUs now.",
            counted(cpus_at_start, "CPU")
        );
        let remedy = match library {
            Some(path) => {
                format!("Start the program under `cox pack`, with OMP_WAIT_POLICY=passive, or with LD_PRELOAD={path}.")
            }
            None => "Start the program under `cox pack`, or with OMP_WAIT_POLICY=passive.".to_owned(),
        };
        SpinningRuntime { pid, cpus_at_start, loss, remedy }
    }
}

/// If other programs used more than this part of the time of the pack's CPUs, reports mention them.
pub(crate) const OTHERS: f64 = 0.05;

/// If other programs used more than this part of the time of the pack's CPUs, the figures of a run say little about packing.
const MOST_OTHERS: f64 = 0.3;

/// Without rotation, efficiency must have been measured for at least this part of the run.
const MEASURED_PART: f64 = 0.03;

/// The report says how long the run would have taken with a thread for each CPU, if that is at most this part of its time.
const WORTH_FEWER: f64 = 0.95;

/// Shortest run for which the other programs' share is given, nanoseconds.
const LEAST_WALL_NS: u64 = 100_000_000;

/// Returns the part of the pack's CPU time that other programs had. `slots_ns`: CPU time that the pack offered in the wall time `wall_ns`. Returns
/// `None` if the run was too short.
#[must_use]
pub fn others_share(others_ns: u64, slots_ns: u64, wall_ns: u64) -> Option<f64> {
    (wall_ns >= LEAST_WALL_NS && slots_ns > 0).then(|| (others_ns as f64 / slots_ns as f64).min(1.0))
}

/// Returns how far figures on packing can be trusted if other programs used the part `others` of the time of the pack's CPUs.
#[must_use]
pub fn confidence_beside(others: f64) -> Confidence {
    match others {
        _ if others > MOST_OTHERS => Confidence::Low,
        _ if others > OTHERS => Confidence::Medium,
        _ => Confidence::High,
    }
}

impl PackReport {
    /// Returns a lower bound on the wall time, however the threads are packed: the useful CPU time `run_ns × (1 − spinning)` ÷ the average number of
    /// CPUs of the pack, `slots_ns ÷ wall_ns`.
    #[must_use]
    pub fn bound_ns(&self) -> u64 {
        let useful_ns = self.run_ns as f64 * (1.0 - self.spinning.unwrap_or(0.0));
        (useful_ns * self.wall_ns as f64 / self.slots_ns.max(1) as f64) as u64
    }

    /// Returns how long the run would have taken without rotation, at least and at most. Absent if the efficiency without rotation was never
    /// measured, or too short for the length of the run: programs change.
    #[must_use]
    pub fn without_ns(&self) -> Option<(u64, u64)> {
        let (low, high) = (self.efficiency_without_low?, self.efficiency_without_high?.min(1.0));
        let is_enough = self.without_measured_ns as f64 >= MEASURED_PART * self.wall_ns as f64;
        let would_take_ns = |efficiency: f64| (self.bound_ns() as f64 / efficiency) as u64;
        (is_enough && low > 0.0).then(|| (would_take_ns(high), would_take_ns(low)))
    }

    /// Returns how long the run would have taken with as many threads as CPUs, at least and at most, if the work divides evenly. Absent if cox did not
    /// rotate the threads, if other programs used the CPUs, or if the pack's CPUs were changed.
    ///
    /// While threads rotate, there are more of them than CPUs. With one for each CPU, this time needs its useful CPU time, and threads lose at most a
    /// little at barriers ([`MEETING_AT_MOST`]). The rest of the run stays as it is, because parts of it may have had no more threads than CPUs.
    #[must_use]
    pub fn fewer_ns(&self) -> Option<(u64, u64)> {
        let alone = self.others.is_none_or(|others| others <= OTHERS);
        let efficiency = self.efficiency_with.filter(|_| self.rotating_ns > 0 && self.repacked.is_empty() && alone)?;
        let (rest_ns, rotating_ns) = (self.wall_ns.saturating_sub(self.rotating_ns), self.rotating_ns as f64);
        // The efficiency is that of the last periods, the bound that of the whole run.
        let needs = |efficiency: f64| (rest_ns + (rotating_ns * efficiency.min(1.0)) as u64).max(self.bound_ns());
        Some((needs(efficiency), needs(efficiency * MEETING_AT_MOST)))
    }

    /// Formats the report for a terminal.
    #[must_use]
    pub fn text(&self, style: &Style) -> String {
        style.alone(&self.command, &self.heading(), &self.lines())
    }

    /// Formats the report for a terminal, as a section of another report.
    pub(crate) fn section(&self, style: &Style) -> Vec<String> {
        style.section(&self.heading(), &self.lines())
    }

    fn heading(&self) -> String {
        if self.only_watched {
            let why = if !self.diagnostics.is_empty() {
                "not packed"
            } else if self.profiles + self.short_bursts > 0 {
                "no gain in sight"
            } else {
                "cox saw no more threads run than CPUs"
            };
            return format!("on {}, as with taskset · {why}", cpus_of(&self.cpus));
        }
        format!("{} packed on {} · {}", counted(self.threads, "thread"), cpus_of(&self.cpus), self.kind())
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.result();
        for Repacked { after_ns, cpus } in &self.repacked {
            let (cpus, time) = (cpus_of(cpus), seconds(*after_ns));
            lines.push(format!("Changed to {cpus} after {time}"));
        }
        let own = 100.0 * self.own_ns as f64 / self.wall_ns.max(1) as f64;
        let wall = seconds(self.wall_ns);
        lines.push(format!(
            "{} · controller {own:.1} % of one CPU, included in the {wall} · {}",
            counted(self.moves, "move"),
            if self.diagnostics.is_empty() { "masks restored" } else { "problems: see below" },
        ));
        if self.spin_throttled > 0 {
            lines.push(format!(
                "libgomp of {} counted more CPUs at its start than the pack has; a spin throttle keeps its threads from spinning",
                counted_processes(self.spin_throttled)
            ));
        }
        for runtime in &self.spinning_runtimes {
            lines.extend([&runtime.loss, &runtime.remedy].map(Clone::clone));
        }
        if self.backend == Some(Backend::Proc) && !self.only_watched {
            lines.push(
                "Observed through /proc: only the preload library shows cox which threads wait in loops".to_owned(),
            );
        }
        lines.extend(self.passed_over.iter().map(|why| format!("eBPF not used: {why}")));
        lines.extend(self.unread.iter().map(|why| format!("cannot tell which threads wait at barriers: {why}")));
        lines.extend(self.diagnostics.iter().map(|diagnostic| format!("not done: {diagnostic}")));
        lines
    }

    /// Names the two programs with the largest times in `other_programs`, and the time of the first.
    fn who(&self) -> String {
        let about = if self.other_programs_at_most { "at most " } else { "" };
        match self.other_programs.as_slice() {
            [] => " (names not seen)".to_owned(),
            [one] => format!(", {} {about}{}", one.comm, seconds(one.run_ns)),
            [one, two, ..] => format!(", {} {about}{}, then {}", one.comm, seconds(one.run_ns), two.comm),
        }
    }

    fn kind(&self) -> String {
        let waits = match self.spinning {
            Some(part) if part > 0.02 => "threads wait in loops",
            _ => "threads do not wait in loops",
        };
        if self.period_ns == 0 {
            return format!("{waits}; the kernel places them");
        }
        format!("{waits}, period {}", milliseconds(self.period_ns))
    }

    fn result(&self) -> Vec<String> {
        let (wall, bound) = (seconds(self.wall_ns), seconds(self.bound_ns()));
        let percent = 100.0 * self.bound_ns() as f64 / self.wall_ns.max(1) as f64;
        let first = format!(
            "Efficiency {percent:.0} %: {wall}, lower bound {bound} (the threads' work on {})",
            if self.repacked.is_empty() { counted(self.slots, "CPU") } else { "the pack's CPUs".to_owned() }
        );
        let rotated = 100.0 * self.rotating_ns as f64 / self.wall_ns.max(1) as f64;
        let second = match self.without_ns() {
            Some((least_ns, most_ns)) if self.rotating_ns > 0 => format!(
                "Without rotation, the run would have taken {} to {} (efficiency {:.0} to {:.0} %, measured for {}) · threads rotated for \
                 {rotated:.0} % of the time",
                seconds(least_ns),
                seconds(most_ns),
                100.0 * self.efficiency_without_low.unwrap_or(0.0),
                100.0 * self.efficiency_without_high.unwrap_or(0.0).min(1.0),
                seconds(self.without_measured_ns),
            ),
            _ if self.only_watched && !self.diagnostics.is_empty() => "Packing did not begin: see below".to_owned(),
            _ if self.only_watched && self.profiles > 0 => format!(
                "Packing did not begin: in {}, the threads hardly spun, and waited too little, or too often, to gain",
                counted(self.profiles, "profile")
            ),
            _ if self.only_watched && self.short_bursts > 0 => {
                "Packing did not begin: the threads slept or yielded too often to gain".to_owned()
            }
            _ if self.only_watched => {
                "Packing did not begin: it helps only if more threads run than there are CPUs".to_owned()
            }
            _ if self.rotating_ns == 0 => {
                "Packing could gain nothing here: the kernel placed the threads, as with taskset".to_owned()
            }
            _ => {
                let (periods, length) = (counted(self.exchanges, "period"), milliseconds(self.period_ns));
                format!("Threads changed their CPUs at the end of {periods} of about {length}")
            }
        };
        let others = self.others.filter(|others| *others > OTHERS).map(|others| {
            let of_rest = (percent / (1.0 - others).max(percent / 100.0)).min(100.0);
            format!(
                "Other programs had {:.0} % of these CPUs{}; in the remaining time, efficiency was {of_rest:.0} %",
                100.0 * others,
                self.who()
            )
        });
        let doubt = self.confidence.filter(|confidence| *confidence < Confidence::High).map(|confidence| {
            let certain = if confidence == Confidence::Low { "uncertain" } else { "less certain" };
            format!("Confidence {confidence}: the figures are {certain}, because other programs used these CPUs")
        });
        let fewer = self.fewer_ns().filter(|(_, most_ns)| *most_ns as f64 <= WORTH_FEWER * self.wall_ns as f64);
        let fewer = fewer.map(|(least_ns, most_ns)| {
            format!(
                "With {}, one for each CPU, the run would have taken {} to {} if its work divides evenly (cox advise --runs 3 measures it)",
                counted(self.slots, "thread"),
                seconds(least_ns),
                seconds(most_ns),
            )
        });
        [Some(first), others, doubt, Some(second), fewer].into_iter().flatten().collect()
    }
}

/// Formats a list of CPUs: `CPU 3` or `CPUs 0-3,8`.
#[must_use]
pub fn cpus_of(list: &str) -> String {
    format!("CPU{} {list}", if list.contains([',', '-']) { "s" } else { "" })
}

fn counted_processes(count: u64) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

#[cfg(test)]
mod tests;
