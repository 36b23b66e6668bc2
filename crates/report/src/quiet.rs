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
/// The level on which cox switches off what keeps ticks.
const TICKLESS: &str = "tickless";

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
    pub settings: Vec<ChangedSetting>,
    /// Threads that were moved away, or lost the quiet CPUs of their masks.
    pub threads_moved: u64,
    /// What stayed on the quiet CPUs, and what helps, one sentence each.
    pub stays: Vec<String>,
    /// Interrupts that the kernel did not let cox move: only the attempt has told.
    #[serde(default)]
    pub unmoved: Vec<UnmovedInterrupt>,
    /// Ticks that went on although the kernel can stop them; null if there were next to none.
    #[serde(default)]
    pub ticks: Option<KeptTicks>,
    /// Interrupts of the quiet CPUs during `counted_ns`, by the kernel's counters in /proc/interrupts, the most
    /// frequent first.
    pub interrupts: Vec<Interrupts>,
    /// How long these interrupts were counted: from just before the program starts until it has ended. 0 if they were
    /// not.
    #[serde(default)]
    pub counted_ns: u64,
    /// What was restored.
    pub undone: Restored,
    /// What could not be restored of the changes of earlier sessions of cox that were killed, one sentence each.
    #[serde(default)]
    pub diagnostics: Vec<String>,
}

/// A setting that was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedSetting {
    /// The level that it belongs to.
    pub level: String,
    /// The setting: a file of the kernel, an interrupt, a service.
    pub name: String,
    /// Its value before; null if it did not exist.
    pub before: Option<String>,
    /// Its value while the CPUs were quiet.
    pub value: String,
}

/// An interrupt that the kernel did not let cox move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnmovedInterrupt {
    /// Names of its devices, as in /proc/interrupts.
    pub name: String,
    /// Whether it belongs to a queue of a device, which its driver has given to one or a few CPUs (a managed
    /// interrupt). If not, the kernel has bound it to its CPU, as it does with timers.
    pub is_managed: bool,
}

/// Ticks that went on although the kernel can stop them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeptTicks {
    /// The CPUs, as a list.
    pub cpus: String,
    /// Ticks per second on each of them.
    pub per_s: f64,
    /// What kept them, the most frequent first.
    pub dependencies: Vec<TickDependency>,
    /// Why the kernel could not be asked what kept them; null if it could.
    pub unknown: Option<String>,
}

/// What kept ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TickDependency {
    /// The kernel's name of it: `SCHED`.
    pub name: String,
    /// What it means.
    pub meaning: String,
    /// How often it kept a tick, on all these CPUs.
    pub count: u64,
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
pub struct Restored {
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
    /// Problems with the journal, one line each. Some changes may not have been restored.
    #[serde(default)]
    pub troubles: Vec<String>,
}

impl Restored {
    /// Returns in a few words whether everything is as it was before the session.
    fn outcome(&self) -> String {
        let mut words = Vec::new();
        if !self.left.is_empty() {
            words.push(format!("{} not put back", counted(self.left.len() as u64, "setting")));
        }
        if self.held_by_others > 0 {
            let verb = if self.held_by_others == 1 { "stays" } else { "stay" };
            words.push(format!("{} {verb} changed for another session", counted(self.held_by_others, "setting")));
        }
        if !self.troubles.is_empty() {
            words.push("the journal had problems, so some settings may not be put back".to_owned());
        }
        if words.is_empty() { "everything is as it was before".to_owned() } else { words.join("; ") }
    }
}

impl UnmovedInterrupt {
    fn sentence(&self, housekeeping: &str) -> String {
        if self.is_managed {
            let where_else = cpus_of(housekeeping);
            format!("interrupt {}: its driver manages it → use its device from {where_else} only", self.name)
        } else {
            format!("interrupt {}: the kernel has bound it to its CPU → choose another CPU", self.name)
        }
    }
}

impl KeptTicks {
    fn sentence(&self, level: &str) -> String {
        let of_each = |kept: &TickDependency| format!("{} ({}, {} times)", kept.meaning, kept.name, kept.count);
        let reasons: Vec<String> = self.dependencies.iter().map(of_each).collect();
        let why = match &self.unknown {
            Some(error) => format!("the reason is not known ({error})"),
            None if reasons.is_empty() => "the kernel does not say why".to_owned(),
            None => reasons.join(", "),
        };
        let is_of_scheduler = self.dependencies.iter().any(|kept| kept.name == "SCHED");
        let remedy = if is_of_scheduler && level != TICKLESS {
            " → --level tickless switches the fair server off, which may be the cause"
        } else {
            ""
        };
        format!("the tick of {}, {:.1} times a second on each: {why}{remedy}", cpus_of(&self.cpus), self.per_s)
    }
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
            lines.push(format!("Changed {settings} and {threads}; {}", self.undone.outcome()));
        }
        lines.extend(self.undone.left.iter().chain(&self.undone.troubles).cloned());
        lines.extend(self.diagnostics.iter().map(|diagnostic| format!("not done: {diagnostic}")));
        lines.extend(self.interruptions());
        let unmoved = self.unmoved.iter().map(|interrupt| interrupt.sentence(&self.housekeeping));
        let ticks = self.ticks.iter().map(|ticks| ticks.sentence(&self.level));
        let stays = self.stays.iter().cloned().chain(ticks).chain(unmoved);
        lines.extend(stays.map(|stays| format!("Stays: {stays}")));
        lines
    }

    /// Returns how often a quiet CPU was interrupted, by the kernel's counters.
    fn interruptions(&self) -> Option<String> {
        let cpu_s = self.counted_ns as f64 / 1e9 * self.count as f64;
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
            // Not the time in which the interrupts were counted.
            length_ns: 1_000_000_000,
            counted_ns: 10_000_000_000,
            settings: vec![ChangedSetting::default(); 3],
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
        let undone = Restored { left: vec!["a long reason ".repeat(12)], ..Restored::default() };
        let report = QuietReport { undone, ..report() };
        for width in [60, 80] {
            let text = report.text(&Style { width, ..Style::default() });
            assert!(
                text.contains("1 setting not put back") && text.lines().all(|line| columns(line) <= width),
                "{text}"
            );
        }
    }
    #[test]
    fn what_stays_changed_for_another_session_is_not_as_before() {
        // Wide enough for the sentence.
        let style = Style { width: 200, ..Style::default() };
        let said = |undone: Restored| QuietReport { undone, ..report() }.text(&style);
        let one = said(Restored { held_by_others: 1, ..Restored::default() });
        assert!(one.contains("; 1 setting stays changed for another session"), "{one}");
        let two = said(Restored { held_by_others: 2, left: vec!["stat_interval".into()], ..Restored::default() });
        assert!(two.contains("1 setting not put back; 2 settings stay changed for another session"), "{two}");
        assert!(!one.contains("as it was") && !two.contains("as it was"), "{one}{two}");
    }

    #[test]
    fn problems_with_the_journal_are_shown() {
        let undone = Restored { troubles: vec!["journal 7.jsonl: No space left".into()], ..Restored::default() };
        let text = QuietReport { undone, ..report() }.text(&Style::default());
        assert!(text.contains("journal 7.jsonl: No space left") && !text.contains("as it was"), "{text}");
    }

    #[test]
    fn ticks_that_go_on_are_named_with_their_reason() {
        let kept = |dependencies: &[(&str, &str, u64)], unknown: Option<&str>| {
            let of = |(name, meaning, count): &(&str, &str, u64)| {
                let (name, meaning) = ((*name).to_owned(), (*meaning).to_owned());
                TickDependency { name, meaning, count: *count }
            };
            let dependencies = dependencies.iter().map(of).collect();
            let unknown = unknown.map(str::to_owned);
            KeptTicks { cpus: "2-3".into(), per_s: 251.0, dependencies, unknown }
        };
        let scheduler = kept(&[("SCHED", "more than one thread could run, or a deadline server", 1255)], None);
        assert!(
            scheduler
                .sentence("full")
                .ends_with("1255 times) → --level tickless switches the fair server off, which may be the cause")
        );
        let kept = |dependencies: &[(&str, &str, u64)], unknown: Option<&str>| {
            kept(dependencies, unknown).sentence("tickless")
        };
        assert_eq!(
            kept(&[("SCHED", "more than one thread could run, or a deadline server", 1255)], None),
            "the tick of CPUs 2-3, 251.0 times a second on each: more than one thread could run, or a deadline server (SCHED, 1255 times)"
        );
        assert!(kept(&[], None).ends_with("on each: the kernel does not say why"));
        let unknown = kept(&[], Some("Too many open files"));
        assert!(unknown.ends_with("the reason is not known (Too many open files)"), "{unknown}");
    }

    #[test]
    fn only_a_managed_interrupt_has_a_device_that_others_can_use() {
        let unmoved = [("nvme0q1", true), ("timer", false)]
            .map(|(name, is_managed)| UnmovedInterrupt { name: name.into(), is_managed });
        let text = QuietReport { unmoved: unmoved.into(), ..report() }.text(&Style::default());
        assert!(text.contains("nvme0q1: its driver manages it → use its device from CPUs 0-1 only"), "{text}");
        assert!(text.contains("timer: the kernel has bound it to its CPU → choose another CPU"), "{text}");
    }
}
