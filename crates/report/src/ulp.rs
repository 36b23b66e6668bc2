//! What became of the user-level processes of `cox ulp`, as text and as JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use advise::numbers::{counted, duration, memory};
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the JSON schema of [`UlpReport`].
pub const SCHEMA_VERSION: u32 = 1;

/// Maximum number of ULPs that the summary names for one exit code.
const NAMED: usize = 8;
/// Maximum number of system calls that the text names.
const NAMED_CALLS: usize = 4;

/// The document of `cox ulp --json`, from which its text is made. Times are nanoseconds, memory is bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UlpReport {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// Where and when the ULPs ran.
    pub provenance: Provenance,
    /// From the start of the host to its end.
    pub wall_ns: u64,
    /// What the host of the ULPs tells.
    #[serde(flatten)]
    pub host: HostReport,
}

/// What the host of the ULPs tells when all have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// The exit code of each ULP by its number, or minus the number of the signal that ended it. Without ULPs that other ULPs have started.
    pub ends: Vec<i32>,
    /// Number of ULPs that ULPs have started (`cox_ulp_spawn`).
    pub spawned: u64,
    /// Number of carriers: threads of the host that switch between ULPs.
    pub carriers: u64,
    /// Why there are no carriers, so that all ULPs stayed coupled; null if there are.
    pub no_carriers: Option<String>,
    /// Yields on carriers: switches in user space.
    pub yields: u64,
    /// Yields of ULPs on their home tasks: sched_yield(2).
    pub coupled_yields: u64,
    /// How often a ULP has left its home task for a carrier.
    pub stays: u64,
    /// System calls that have ended stays, by name, and how often.
    pub stays_ended_by_calls: BTreeMap<String, u64>,
    /// Faults that have ended stays.
    pub stays_ended_by_faults: u64,
    /// CPU time of the carriers.
    pub carrier_cpu_ns: u64,
    /// CPU time of the ULPs' own kernel tasks, of their other threads, and of children for which they have waited: what ULPs used while they were coupled.
    pub coupled_cpu_ns: u64,
    /// Page faults on carriers.
    pub carrier_page_faults: u64,
    /// Page faults on carriers that waited for storage. Meanwhile, that carrier ran no ULP.
    pub carrier_major_page_faults: u64,
    /// How many ULPs went home because their carrier slept in a page fault of another one.
    pub relieved: u64,
    /// The most memory that the address space had, with the pages of files; null if the kernel does not tell.
    pub peak_bytes: Option<u64>,
    /// The most ULPs that ran at once.
    pub at_once: u64,
    /// Number of ULPs that were started by cox.
    pub started: u64,
    /// How long it took to load and start these.
    pub starting_ns: u64,
}

impl HostReport {
    /// Returns the line on how the ULPs ended, in so many ns.
    #[must_use]
    pub fn summary(&self, wall_ns: u64) -> String {
        let ends = &self.ends;
        let mut by_end: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (number, end) in ends.iter().enumerate() {
            by_end.entry(*end).or_default().push(number);
        }
        let ended = match by_end.iter().next() {
            Some((0, _)) if by_end.len() == 1 => "all exit 0".to_owned(),
            _ => by_end.iter().map(|(end, who)| of_one_kind(*end, who)).collect::<Vec<_>>().join(", "),
        };
        let further = if self.spawned > 0 { format!(" · {} more by ULPs", self.spawned) } else { String::new() };
        format!("{} · {:.2} s · {ended}{further}", counted(ends.len() as u64, "ULP"), wall_ns as f64 / 1e9)
    }

    /// Returns the lines on where the ULPs ran, and on what they needed.
    #[must_use]
    pub fn stats(&self) -> Vec<String> {
        let yields = format!("{} yields while coupled", self.coupled_yields);
        let coupled = format!("{} coupled", duration(self.coupled_cpu_ns));
        let mut lines = match &self.no_carriers {
            Some(why) => vec![format!("no carriers ({why}) · {yields} · CPU time: {coupled}")],
            None => {
                let (on_carriers, major) = (duration(self.carrier_cpu_ns), self.carrier_major_page_faults);
                let faults = counted(self.carrier_page_faults, "page fault");
                let relieved = match self.relieved {
                    0 => String::new(),
                    times => format!("; {} went home meanwhile", counted(times, "ULP")),
                };
                vec![
                    format!(
                        "carriers: {} · {} yields on them, {yields} · stays on them: {}{}",
                        self.carriers,
                        self.yields,
                        self.stays,
                        self.ends_of_stays()
                    ),
                    format!(
                        "CPU time: {on_carriers} on carriers, {coupled} · {faults} on carriers, {major} of which waited for storage{relieved}"
                    ),
                ]
            }
        };
        let peak =
            |bytes| format!("memory: at most {}, with {} at once · ", memory(bytes), counted(self.at_once, "ULP"));
        let (all, each) = (duration(self.starting_ns), duration(self.starting_ns / self.started.max(1)));
        let starting = format!("{} loaded and started in {all}, {each} each", self.started);
        lines.push(self.peak_bytes.map(peak).unwrap_or_default() + &starting);
        lines
    }

    /// Returns what ended stays on carriers, the most frequent system calls first.
    fn ends_of_stays(&self) -> String {
        let mut calls: Vec<(&String, &u64)> = self.stays_ended_by_calls.iter().collect();
        calls.sort_by_key(|(name, times)| (Reverse(**times), *name));
        let mut parts: Vec<String> =
            calls.iter().take(NAMED_CALLS).map(|(name, times)| format!("{name} {times}")).collect();
        let others: u64 = calls.iter().skip(NAMED_CALLS).map(|(_, times)| **times).sum();
        let rest = [("other calls", others), ("faults", self.stays_ended_by_faults)];
        parts.extend(rest.iter().filter(|(_, times)| *times > 0).map(|(what, times)| format!("{what} {times}")));
        if parts.is_empty() { String::new() } else { format!(", ended by {}", parts.join(", ")) }
    }
}

/// Returns who ended in the same way.
fn of_one_kind(end: i32, who: &[usize]) -> String {
    let how = if end < 0 { format!("signal {}", -end) } else { format!("exit {end}") };
    let mut names: Vec<String> = who.iter().take(NAMED).map(usize::to_string).collect();
    if who.len() > NAMED {
        names.push(format!("and {} more", who.len() - NAMED));
    }
    format!("{how}: {}", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stats_say_where_ulps_ran_or_why_not_on_carriers() {
        let calls = [("read", 3), ("write", 9), ("nanosleep", 3), ("getpid", 2), ("futex", 4), ("call 400", 1)];
        let mut told = HostReport {
            ends: vec![0; 4],
            carriers: 2,
            yields: 10,
            coupled_yields: 4,
            stays: 30,
            stays_ended_by_calls: calls.map(|(name, times)| (name.to_owned(), times)).into(),
            stays_ended_by_faults: 7,
            carrier_cpu_ns: 15_000_000,
            coupled_cpu_ns: 2_500_000,
            carrier_page_faults: 7,
            carrier_major_page_faults: 1,
            relieved: 3,
            peak_bytes: Some(8 << 20),
            at_once: 3,
            starting_ns: 2_000_000,
            started: 4,
            ..HostReport::default()
        };
        let right = [
            "carriers: 2 · 10 yields on them, 4 yields while coupled · stays on them: 30, ended by write 9, futex 4, nanosleep 3, read 3, other calls 3, faults 7",
            "CPU time: 15 ms on carriers, 2.5 ms coupled · 7 page faults on carriers, 1 of which waited for storage; 3 ULPs went home meanwhile",
            "memory: at most 8.0 MiB, with 3 ULPs at once · 4 loaded and started in 2.0 ms, 500 µs each",
        ];
        assert_eq!(told.stats(), right);
        (told.no_carriers, told.ends, told.peak_bytes) = (Some("as requested".to_owned()), vec![0], None);
        assert_eq!(
            told.stats(),
            [
                "no carriers (as requested) · 4 yields while coupled · CPU time: 2.5 ms coupled",
                "4 loaded and started in 2.0 ms, 500 µs each"
            ]
        );
    }

    #[test]
    fn the_summary_names_who_did_not_end_well() {
        let of = |ends: &[i32], spawned| {
            HostReport { ends: ends.to_vec(), spawned, ..HostReport::default() }.summary(840_000_000)
        };
        assert_eq!(of(&[0; 64], 0), "64 ULPs · 0.84 s · all exit 0");
        assert_eq!(of(&[3], 2), "1 ULP · 0.84 s · exit 3: 0 · 2 more by ULPs");
        assert_eq!(of(&[0, -11, 3, 0], 0), "4 ULPs · 0.84 s · signal 11: 1, exit 0: 0 3, exit 3: 2");
        assert!(of(&[1; 20], 0).ends_with("exit 1: 0 1 2 3 4 5 6 7 and 12 more"));
    }
}
