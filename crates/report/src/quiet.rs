//! What became of quiet CPUs, as text and as JSON.

mod levels;

pub use levels::{AtLevel, LEVELS_SCHEMA_VERSION, LevelsReport};

use advise::numbers::{counted, seconds};
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pack::cpus_of;
use crate::style::Style;

/// Version of the JSON schema of [`QuietReport`].
pub const SCHEMA_VERSION: u32 = 1;

/// At most this many kinds of interrupts are shown, and only those that came at least this often on a CPU, each second.
const SHOWN: usize = 8;
const RARE_PER_S: f64 = 0.1;
/// CPU time below which a rate says nothing.
const SHORTEST_S: f64 = 0.1;
/// The level that changes nothing but the program's CPUs.
const PIN: &str = "pin";

/// The document of `cox quiet --json`, from which its text is made. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuietReport {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// The program.
    pub command: Vec<String>,
    /// Where and when the CPUs were quiet; null in a section of a report, because the report itself says this.
    pub provenance: Option<Provenance>,
    /// The quiet CPUs, as a list: `2-15`.
    pub cpus: String,
    /// How many CPUs were quiet.
    pub count: u64,
    /// The CPUs on which everything else ran.
    pub housekeeping: String,
    /// The level: `pin` to `tickless`.
    pub level: String,
    /// Whether the scheduler did not balance load between the quiet CPUs.
    pub isolated: bool,
    /// How long they were quiet, with the program.
    pub length_ns: u64,
    /// Settings that were changed, in this order.
    pub settings: Vec<Setting>,
    /// Threads that were moved away, or lost the quiet CPUs of their masks.
    pub threads_moved: u64,
    /// What stayed on the quiet CPUs, and what helps, one sentence each.
    pub stays: Vec<String>,
    /// Interrupts of the quiet CPUs in that time, by the kernel's counters in /proc/interrupts, the most frequent first.
    pub interrupts: Vec<Interrupts>,
    /// What was restored.
    pub undone: Undone,
    /// What could not be restored of the changes of earlier sessions of cox that were killed, one sentence each.
    #[serde(default)]
    pub diagnostics: Vec<String>,
}

/// A setting that was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The level that it belongs to.
    pub level: String,
    /// The setting: a file of the kernel, an interrupt, a service.
    pub name: String,
    /// Its value before; null if it did not exist.
    pub before: Option<String>,
    /// Its value while the CPUs were quiet.
    pub value: String,
}

/// How often one kind of interrupt came to the quiet CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupts {
    /// The row of /proc/interrupts: `LOC`, or the number of a device interrupt.
    pub row: String,
    /// The kernel's description, or the names of the devices.
    pub what: String,
    /// Interrupts on all quiet CPUs.
    pub count: u64,
}

/// What became of the changes at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Undone {
    /// Settings of the machine and of threads that are as they were.
    pub restored: u64,
    /// Threads created meanwhile that got back what their creators had.
    pub born: u64,
    /// Settings of threads that have ended, and of files that are gone.
    pub gone: u64,
    /// Settings that another session of cox restores.
    pub held_by_others: u64,
    /// Settings that were not restored, and why: somebody else has set them, or the kernel refused.
    pub left: Vec<String>,
}

impl QuietReport {
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
        let length = seconds(self.length_ns);
        format!(
            "{} quiet for {length} · level {} · the rest on {}",
            cpus_of(&self.cpus),
            self.level,
            cpus_of(&self.housekeeping)
        )
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.level != PIN {
            let (settings, threads) =
                (counted(self.settings.len() as u64, "setting"), counted(self.threads_moved, "thread"));
            let back = match self.undone.left.len() {
                0 => "everything is as it was before".to_owned(),
                left => format!("{} not put back", counted(left as u64, "setting")),
            };
            lines.push(format!("Changed {settings} and {threads}; {back}"));
        }
        lines.extend(self.undone.left.iter().cloned());
        lines.extend(self.diagnostics.iter().map(|diagnostic| format!("not done: {diagnostic}")));
        lines.extend(self.interruptions());
        lines.extend(self.stays.iter().map(|stays| format!("Stays: {stays}")));
        lines
    }

    /// Returns how often a quiet CPU was interrupted, by the kernel's counters.
    fn interruptions(&self) -> Option<String> {
        let cpu_s = self.length_ns as f64 / 1e9 * self.count as f64;
        if cpu_s < SHORTEST_S {
            return None;
        }
        let rates = self.interrupts.iter().map(|found| (found.count as f64 / cpu_s, found));
        let shown = rates.filter(|(per_s, _)| *per_s >= RARE_PER_S).take(SHOWN);
        let shown: Vec<String> =
            shown.map(|(per_s, found)| format!("{per_s:.1} {} ({})", found.row, found.what)).collect();
        let what = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
        Some(format!("Interrupts of each quiet CPU per second: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::columns;

    fn report() -> QuietReport {
        let interrupts = |row: &str, what: &str, count| Interrupts { row: row.into(), what: what.into(), count };
        QuietReport {
            cpus: "2-3".into(),
            count: 2,
            housekeeping: "0-1".into(),
            level: "full".into(),
            length_ns: 10_000_000_000,
            settings: vec![Setting::default(); 3],
            threads_moved: 1,
            stays: vec!["the tick of CPU 2-3 stays: this kernel cannot stop it".into()],
            interrupts: vec![
                interrupts("LOC", "Local timer interrupts", 5000),
                interrupts("CAL", "Function call interrupts", 1),
            ],
            ..QuietReport::default()
        }
    }

    #[test]
    fn rates_are_those_of_one_cpu() {
        let text = report().text(&Style::default());
        assert!(text.contains("per second: 250.0 LOC (Local timer interrupts)"), "{text}");
        assert!(!text.contains("CAL"), "one in twenty seconds of CPU time is rare: {text}");
        assert!(text.contains("3 settings and 1 thread; everything is as it was before"), "{text}");
    }

    #[test]
    fn what_a_killed_session_left_is_said() {
        let said = "left by a session of cox quiet that was killed: /x was not restored";
        let text = QuietReport { diagnostics: vec![said.into()], ..report() }.text(&Style::default());
        assert!(text.replace("\n    ", " ").contains(&format!("not done: {said}")), "{text}");
    }

    #[test]
    fn what_is_left_is_said_and_lines_fit() {
        let undone = Undone { left: vec!["a long reason ".repeat(12)], ..Undone::default() };
        let report = QuietReport { undone, ..report() };
        for width in [60, 80] {
            let text = report.text(&Style { width, ..Style::default() });
            assert!(
                text.contains("1 setting not put back") && text.lines().all(|line| columns(line) <= width),
                "{text}"
            );
        }
    }
}
