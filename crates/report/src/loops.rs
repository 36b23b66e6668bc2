//! What the loops of a program did, as text and as JSON.

use advise::numbers::{count, counted, duration, percent};
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::style::Style;
use crate::table::{Align, Table};

/// Loops that the text lists.
const LISTED: usize = 20;
/// Names of functions are cut to this many columns.
const WIDEST_NAME: usize = 32;

/// A section of a report: loops whose iterations cox's library distributed. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopsReport {
    /// The schedule that was asked for, with its chunk and parameters; `auto`, or `as_written`.
    pub schedule: String,
    /// Whether loops with `schedule(dynamic)` and `schedule(guided)` changed, too; otherwise only those with `runtime` and `auto`.
    pub all: bool,
    /// Processes with such loops.
    pub processes: u64,
    /// The loops of each size of team, the longest first.
    pub loops: Vec<LoopReport>,
    /// Loops of a team for which there was no room: they are missing from `loops`.
    pub lost_records: u64,
}

/// Why `auto` has selected a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Selection {
    /// `fastest`: by the evidence of the rounds, all others are slower. `balanced`: imbalance and requests cost little with it, and those with more
    /// overhead were not tried. `similar`: it has the smallest median after the last round, and others are close.
    pub reason: String,
    /// Rounds of trials: in each, every schedule that was still in question had one instance.
    pub rounds: u64,
    /// The second schedule of the last round; null if no other was tried then.
    pub second: Option<String>,
    /// By which factor the median of the second was larger.
    pub second_factor: Option<f64>,
    /// How often a schedule was selected: more than once if the loop has changed.
    pub selections: u64,
}

impl Selection {
    fn text(&self) -> String {
        let second = match (&self.second, self.second_factor) {
            (Some(second), Some(factor)) => format!(", {second} {} slower", percent(factor - 1.0)),
            _ => String::new(),
        };
        format!("{}: {}{second}", self.reason, counted(self.rounds, "round"))
    }
}

/// Version of the JSON schema of [`LoopsDocument`].
pub const SCHEMA_VERSION: u32 = 1;

/// The document of `cox loops --json`, from which its text is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopsDocument {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// The program, where it ran and when.
    pub provenance: Provenance,
    /// From the program's start to its end, nanoseconds.
    pub length_ns: u64,
    /// The loops.
    #[serde(flatten)]
    pub loops: LoopsReport,
}

/// A loop in teams of one size, summed over its instances, teams and processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopReport {
    /// Name of the function; null if the program has no symbols.
    pub function: Option<String>,
    /// Source file; null without debugging information (gcc -g).
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// File of the program or library.
    pub module: String,
    /// Address behind the call that begins the loop, as that file counts addresses.
    pub address: u64,
    /// The schedule in the program: `runtime`, `auto`, `dynamic` or `guided`.
    pub clause: String,
    /// The program's chunk, which is the smallest size; 1 if it gives none.
    pub clause_chunk: u64,
    /// Whether each thread must get its chunks in ascending order.
    pub monotonic: bool,
    /// The schedule of the last instances.
    pub schedule: String,
    /// Threads of the team.
    pub threads: u64,
    /// Executions of the loop.
    pub instances: u64,
    /// Instances that had `fac2` instead of the schedule that was asked for, because the loop is monotonic, or the team has another size than the weights.
    pub substituted: u64,
    /// Instances that were cancelled: they are in no time.
    pub incomplete: u64,
    /// Iterations of all instances.
    pub iterations: u64,
    /// Fewest iterations of an instance.
    pub least_iterations: u64,
    /// Most iterations of an instance.
    pub most_iterations: u64,
    /// Chunks of all instances.
    pub chunks: u64,
    /// Time from the first thread's arrival to the last thread's end. Of a loop that takes less than 10 µs in the mean, one instance in eight is measured, and the
    /// times of all are estimated from these: `imbalance_ns` and `load_imbalance`, too.
    pub wall_ns: u64,
    /// Time by which the loop would be shorter in perfect balance: the last thread's end less the mean of all.
    pub imbalance_ns: u64,
    /// LIB, from 0 (all threads finish at once) to 1 (one thread does all the work): (1 − mean/max)·P/(P − 1) for P threads.
    pub load_imbalance: f64,
    /// Time that all threads spent on requests for chunks, estimated from one instance in 64; null if none of them was timed.
    pub request_ns: Option<u64>,
    /// Time by which the loop would have been shorter if no thread had waited for a CPU; null if that is unknown.
    pub os_caused_ns: Option<u64>,
    /// With `auto`: what was selected, and why; null during trials, and without `auto`.
    #[serde(default)]
    pub selection: Option<Selection>,
    /// Whether the schedule is one of the file that `from:FILE` names.
    #[serde(default)]
    pub saved: bool,
    /// What would help, by rule: the option for `cox run`, or why there is none. Null in a run with another schedule than the program's own.
    #[serde(default)]
    pub advice: Option<String>,
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

impl LoopReport {
    /// Returns the function, or the address if it has no name.
    fn function(&self) -> String {
        self.function.clone().unwrap_or_else(|| format!("{:#x} in {}", self.address, file_name(&self.module)))
    }

    /// Returns the line in the source; empty if it is unknown.
    fn line(&self) -> String {
        match (&self.file, self.line) {
            (Some(source), Some(line)) => format!("{}:{line}", file_name(source)),
            _ => String::new(),
        }
    }

    fn clause(&self) -> String {
        if self.clause_chunk > 1 { format!("{},{}", self.clause, self.clause_chunk) } else { self.clause.clone() }
    }

    fn iterations(&self) -> String {
        if self.least_iterations == self.most_iterations {
            return count(self.least_iterations);
        }
        format!("{}–{}", count(self.least_iterations), count(self.most_iterations))
    }
}

impl LoopsDocument {
    /// Returns the text of the document.
    #[must_use]
    pub fn text(&self, style: &Style) -> String {
        let command = self.provenance.command.first().map_or("?", String::as_str);
        let sum = |of: fn(&LoopReport) -> u64| self.loops.loops.iter().map(of).sum::<u64>();
        let heading = format!(
            "cox: {command} · {} · loops {}, imbalance {}",
            duration(self.length_ns),
            duration(sum(|one| one.wall_ns)),
            duration(sum(|one| one.imbalance_ns))
        );
        let mut lines = style.wrapped(&heading, "", "    ");
        lines.push(String::new());
        lines.extend(self.loops.section(style));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

impl LoopsReport {
    /// Returns the lines of the section.
    pub(crate) fn section(&self, style: &Style) -> Vec<String> {
        let mut lines = vec![style.heading(&style.clean(&self.heading()))];
        if self.loops.is_empty() {
            lines.extend(style.wrapped(NO_LOOPS, "  ", "  "));
            return lines;
        }
        lines.extend(self.table(style).lines(style.columns()).into_iter().map(|line| line.trim_end().to_owned()));
        lines.extend(self.remarks().into_iter().flat_map(|remark| style.wrapped(&remark, "  ", "  ")));
        lines
    }

    fn heading(&self) -> String {
        let which = if self.all { "all loops that call the runtime" } else { "loops with schedule(runtime) or (auto)" };
        match self.schedule.as_str() {
            "as_written" => "loops      with the schedules that the program asks for".to_owned(),
            "auto" => format!("loops      {which}: the fastest schedule of several, for each loop"),
            schedule if schedule.starts_with("from:") => {
                format!("loops      {which}: as in {}", &schedule["from:".len()..])
            }
            schedule => format!("loops      {which}: {schedule}"),
        }
    }

    fn table<'s>(&self, style: &'s Style) -> Table<'s> {
        let shown = &self.loops[..self.loops.len().min(LISTED)];
        let mut table = Table::new(style).with_names_of(WIDEST_NAME);
        let mut column = |heading: &str, align, spare, cell: &dyn Fn(&LoopReport) -> String| {
            table.column(heading, align, spare, shown.iter().map(cell));
        };
        column("loop", Align::Left, 0, &LoopReport::function);
        if shown.iter().any(|one| one.line.is_some()) {
            column("line", Align::Left, 1, &LoopReport::line);
        }
        column("asks for", Align::Left, 3, &LoopReport::clause);
        column("schedule", Align::Left, 0, &|one| one.schedule.clone());
        column("threads", Align::Right, 5, &|one| count(one.threads));
        column("instances", Align::Right, 2, &|one| count(one.instances));
        column("iterations", Align::Right, 6, &LoopReport::iterations);
        column("chunks", Align::Right, 4, &|one| count(one.chunks / one.instances.max(1)));
        column("time", Align::Right, 0, &|one| duration(one.wall_ns));
        column("imbalance", Align::Right, 0, &|one| duration(one.imbalance_ns));
        column("LIB", Align::Right, 0, &|one| percent(one.load_imbalance));
        if shown.iter().any(|one| one.os_caused_ns.is_some()) {
            column("by the OS", Align::Right, 0, &|one| {
                one.os_caused_ns.map_or_else(|| "unknown".to_owned(), duration)
            });
        }
        column("requests", Align::Right, 3, &|one| {
            let all_ns = one.wall_ns as f64 * one.threads as f64;
            one.request_ns.filter(|_| all_ns > 0.0).map_or_else(String::new, |ns| percent(ns as f64 / all_ns))
        });
        if self.schedule == "auto" || self.schedule.starts_with("from:") {
            column("why", Align::Left, 0, &|one| self.why(one));
        }
        if shown.iter().any(|one| one.advice.is_some()) {
            column("would help", Align::Left, 0, &|one| one.advice.clone().unwrap_or_default());
        }
        table
    }

    fn why(&self, one: &LoopReport) -> String {
        match &one.selection {
            Some(selection) => selection.text(),
            None if one.saved => "in the file".to_owned(),
            None => "still trying".to_owned(),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(more) = self.loops.len().checked_sub(LISTED).filter(|more| *more > 0) {
            remarks.push(format!("and {} (see --json)", counted(more as u64, "shorter loop")));
        }
        let substituted: u64 = self.loops.iter().map(|one| one.substituted).sum();
        if substituted > 0 {
            remarks.push(format!(
                "{} had fac2 instead: the loop must be monotonic and the schedule is not, or there are weights for another number of threads",
                counted(substituted, "instance")
            ));
        }
        let incomplete: u64 = self.loops.iter().map(|one| one.incomplete).sum();
        if incomplete > 0 {
            remarks
                .push(format!("{} not counted in the times: the loop was cancelled", counted(incomplete, "instance")));
        }
        if self.lost_records > 0 {
            remarks.push(format!("{} missing: there was no room for more", counted(self.lost_records, "loop")));
        }
        if self.loops.iter().all(|one| one.file.is_none()) {
            remarks.push("for line numbers, compile with -g".to_owned());
        }
        if self
            .loops
            .iter()
            .any(|one| one.advice.as_ref().is_some_and(|advice| advice.contains("fac2") || advice.contains("ss")))
        {
            remarks.push("would help: by rule; try it with cox run --schedule NAME, or --schedule all:auto".to_owned());
        }
        remarks
    }
}

/// Said of a program without loops that could be changed.
const NO_LOOPS: &str = "no loop was seen whose schedule can change: gcc compiles schedule(static), and loops without a schedule, into code without \
                        calls; loops with dynamic or guided change only with --schedule all:NAME";

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> LoopReport {
        LoopReport {
            function: Some("forces".to_owned()),
            file: Some("/src/sph.c".to_owned()),
            line: Some(210),
            clause: "dynamic".to_owned(),
            clause_chunk: 4,
            schedule: "fac2".to_owned(),
            threads: 4,
            instances: 200,
            iterations: 2_000_000,
            least_iterations: 10_000,
            most_iterations: 10_000,
            chunks: 22_400,
            wall_ns: 3_210_000_000,
            imbalance_ns: 120_000_000,
            load_imbalance: 0.0498,
            request_ns: Some(12_840_000),
            ..LoopReport::default()
        }
    }

    fn text(report: &LoopsReport, width: usize) -> String {
        let style = Style { color: false, unicode: true, width, all_threads: false };
        report.section(&style).join("\n")
    }

    #[test]
    fn a_loop_is_a_row() {
        let report =
            LoopsReport { schedule: "fac2".to_owned(), all: true, processes: 1, loops: vec![one()], lost_records: 0 };
        let text = text(&report, 160);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0].join(" "), "loops all loops that call the runtime: fac2");
        assert_eq!(rows[2].join(" "), "forces sph.c:210 dynamic,4 fac2 4 200 10,000 112 3.21 s 0.12 s 5.0 % 0.1 %");
    }

    #[test]
    fn what_is_missing_is_said() {
        let report = LoopsReport { schedule: "auto".to_owned(), ..LoopsReport::default() };
        assert!(text(&report, 80).contains("no loop was seen whose schedule can change"));
        let odd = LoopReport {
            substituted: 3,
            incomplete: 1,
            file: None,
            function: None,
            module: "/bin/app".to_owned(),
            address: 255,
            ..one()
        };
        let report = LoopsReport { lost_records: 2, loops: vec![odd; 22], ..report };
        let text = text(&report, 200);
        for part in [
            "0xff in app",
            "and 2 shorter loops",
            "66 instances had fac2",
            "22 instances not counted",
            "2 loops missing: there was no room",
            "with -g",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
