//! What giving up the CPU costs N members on one CPU, each of whom does so many times: user-level processes (ULPs), processes, threads, and the bare
//! switch. The source (Shimada et al.) measures so: all contexts together make 1,000 switches each on one core.
//!
//! `workloads/yields` measures members of all kinds; [`bare`] and `boost.cpp` measure a switch alone, without a scheduler, a process or any memory of its
//! own. [`lives`] measures what it costs that members exist.

pub mod bare;
mod figure;
mod kind;
pub mod lives;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::overhead::cpus::last_allowed_cpu;
use crate::process::{ending, run_within};
use crate::rounds::in_turns;
use crate::stats::{Estimate, median, median_estimate};
use crate::tools::Tools;
use crate::verdict::{Outcome, at_most};

use kind::Kind;

/// Options of `cox-bench ulp`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Rounds; each has one run with every kind of member
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Draw what a turn costs by the number of members into FILE, as SVG
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    /// The time between two yields of a member, divided by the number of members, ns.
    Yield,
    /// The same on all CPUs, beside as many members that sleep or without them.
    HalfAsleep,
    /// The time of a member from its creation to its end, ns.
    Life,
    /// The memory of a member, bytes.
    Memory,
    /// The time of a member's fork, until its child has ended, while the others sleep, ns.
    Fork,
}

/// What is measured side by side: members, and system calls after each yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Case {
    what: What,
    count: u64,
    calls: u64,
}

impl Case {
    const fn turns(count: u64, calls: u64) -> Case {
        Case { what: What::Yield, count, calls }
    }

    /// Whether a kind of members can do it.
    fn fits(self, kind: Kind) -> bool {
        match self.what {
            What::HalfAsleep => matches!(kind, Kind::Ulps | Kind::UlpsHalfAsleep),
            What::Yield if self.calls == 0 => kind != Kind::UlpsHalfAsleep,
            _ => kind.is_process(),
        }
    }
}

/// The cases: the source's row of numbers, two members that call the kernel, one that does nothing else, lives, and forks.
const CASES: [Case; 13] = [
    Case::turns(2, 0),
    Case::turns(10, 0),
    Case::turns(100, 0),
    Case::turns(1000, 0),
    Case::turns(2, 1),
    Case::turns(2, 10),
    Case::turns(1, MANY_CALLS),
    Case { what: What::Life, count: 200, calls: 0 },
    Case { what: What::Memory, count: 2000, calls: 0 },
    Case { what: What::HalfAsleep, count: 32, calls: 0 },
    Case { what: What::Fork, count: 2, calls: 0 },
    Case { what: What::Fork, count: 100, calls: 0 },
    Case { what: What::Fork, count: 1000, calls: 0 },
];

/// Children of a run.
const FORKS: u64 = 50;

/// How long a member sleeps at a time, us.
const SLEEP_US: u64 = 10_000;

/// So many system calls that the turn around them does not count.
const MANY_CALLS: u64 = 1_000_000;

/// Turns of each member: those of the source, and more if members are few, so that a run takes some time.
fn rounds(kind: Kind, case: Case) -> u64 {
    if case.calls == MANY_CALLS {
        return 1;
    }
    let is_fast = matches!(kind, Kind::Bare | Kind::Boost | Kind::Ulps | Kind::UlpsHalfAsleep);
    let all = if is_fast { 2_000_000 } else { 200_000 };
    // Long enough for several sleeps of the others.
    (all / case.count).max(if case.what == What::HalfAsleep { 500_000 } else { 1000 })
}

/// What was measured of one kind in one case, by round.
#[derive(Debug, Serialize)]
struct Row {
    case: Case,
    kind: Kind,
    values: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    rows: Vec<Row>,
    /// Why a kind was not measured.
    lacks: Vec<String>,
}

impl Report {
    fn row(&self, case: Case, kind: Kind) -> Option<&Row> {
        self.rows.iter().find(|row| (row.case, row.kind) == (case, kind))
    }

    /// Returns the figure of what a turn costs.
    fn figure(&self) -> String {
        let line = |kind: Kind| {
            let rows = self.rows.iter().filter(|row| row.kind == kind && row.case == Case::turns(row.case.count, 0));
            figure::Line { name: kind.name(), points: rows.map(|row| (row.case.count, median(&row.values))).collect() }
        };
        let lines: Vec<figure::Line<'_>> =
            Kind::ALL.into_iter().map(line).filter(|line| !line.points.is_empty()).collect();
        figure::svg(&lines)
    }

    /// Returns the median ratio of two kinds in a case, from pairs of one round each.
    fn ratio(&self, case: Case, above: Kind, below: Kind) -> Option<Estimate> {
        let (above, below) = (self.row(case, above)?, self.row(case, below)?);
        Some(median_estimate(
            &above.values.iter().zip(&below.values).map(|(above, below)| above / below).collect::<Vec<f64>>(),
        ))
    }
}

/// What is to be so: in this case, the value of the first kind is at most so many times that of the second.
const PROMISES: [(Case, Kind, Kind, f64); 11] = [
    (CASES[0], Kind::Ulps, Kind::Bare, 2.7),
    (CASES[0], Kind::Ulps, Kind::Processes, 1.0 / 40.0),
    (CASES[3], Kind::Ulps, Kind::Bare, 7.0),
    (CASES[3], Kind::Ulps, Kind::Processes, 1.0 / 12.0),
    (CASES[0], Kind::Bare, Kind::Boost, 1.0),
    (CASES[4], Kind::Ulps, Kind::Processes, 1.5),
    (CASES[5], Kind::Ulps, Kind::Processes, 1.2),
    (CASES[6], Kind::Ulps, Kind::Processes, 1.05),
    (CASES[7], Kind::Ulps, Kind::Processes, 1.1),
    (CASES[8], Kind::Ulps, Kind::Processes, 0.92),
    (CASES[9], Kind::UlpsHalfAsleep, Kind::Ulps, 1.0 / 0.95),
];

/// The programs, and the CPU on which all of them run.
struct Field<'a> {
    tools: &'a Tools,
    cox: PathBuf,
    yields: PathBuf,
    boost: Result<PathBuf, String>,
    cpu: usize,
    scratch: TempDir,
    interrupt: &'a Interrupt,
}

/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(60);

impl Field<'_> {
    /// Runs members once. Returns what is measured.
    fn run(&self, case: Case, kind: Kind) -> Result<f64> {
        self.interrupt.check()?;
        match case.what {
            What::Yield | What::HalfAsleep | What::Fork => self.turn(case, kind),
            What::Life => lives::time(self.tools, &self.cox, kind, case.count, self.cpu, self.interrupt),
            What::Memory => lives::memory(self.tools, &self.cox, kind, case.count, self.interrupt),
        }
    }

    fn turn(&self, case: Case, kind: Kind) -> Result<f64> {
        let (truth, board) = (self.scratch.path().join("truth"), self.scratch.path().join("board"));
        let _ = std::fs::remove_file(&board);
        let rounds = rounds(kind, case).to_string();
        let count = if kind == Kind::UlpsHalfAsleep { 2 * case.count } else { case.count }.to_string();
        let mut command = if case.what == What::HalfAsleep { Command::new("env") } else { Command::new("taskset") };
        if case.what != What::HalfAsleep {
            command.args(["-c", &self.cpu.to_string()]);
        }
        let output = std::fs::File::create(&truth).context("cannot write a temporary file")?;
        match kind {
            Kind::Bare => command.arg(&self.tools.own).args(["switches", &count, &rounds]),
            Kind::Boost => match &self.boost {
                Ok(program) => command.arg(program).args([&count, &rounds]),
                Err(why) => bail!("{why}"),
            },
            Kind::Ulps | Kind::UlpsHalfAsleep => {
                command.arg(&self.cox).args(["ulp", "-q", "-n", &count, "--"]).arg(&self.yields)
            }
            _ => command.arg(&self.yields).args(["--count", &count]),
        };
        match kind {
            Kind::Bare | Kind::Boost => &mut command,
            Kind::Ulps | Kind::UlpsHalfAsleep => command.args(["--as", "ulps", "--board"]).arg(&board),
            Kind::Processes | Kind::ProcessesFutex => command.args(["--as", "processes"]),
            Kind::Threads => command.args(["--as", "threads"]),
        };
        match kind {
            Kind::ProcessesFutex => command.args(["--by", "futex"]),
            Kind::UlpsHalfAsleep => command.args(["--sleep-us", &SLEEP_US.to_string()]),
            _ => &mut command,
        };
        if case.what == What::Fork {
            command.args(["--forks", &FORKS.to_string(), "--truth", "-"]);
        } else if !matches!(kind, Kind::Bare | Kind::Boost) {
            command.args(["--rounds", &rounds, "--calls", &case.calls.to_string(), "--truth", "-"]);
        }
        let ended = run_within(command.stdin(Stdio::null()).stdout(output), LIMIT, || self.interrupt.check().is_err())?;
        self.interrupt.check()?;
        if !ended.status.success() {
            bail!("{}: {}", kind.name(), ending(ended.status));
        }
        let text = std::fs::read_to_string(&truth).context("cannot read a temporary file")?;
        let object = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
        let value: Value = serde_json::from_str(object).with_context(|| format!("{} printed: {text}", kind.name()))?;
        let time = if case.what == What::Fork { "ns_per_fork" } else { "ns_per_yield" };
        value[time].as_f64().with_context(|| format!("{} printed no time", kind.name()))
    }
}

/// Compiles the program for boost.context.
fn compile_boost(folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("boost.cpp"), folder.join("boost"));
    std::fs::write(&source, include_str!("boost.cpp")).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("g++");
    compiler.args(["-O2", "-o"]).arg(&program).arg(&source).arg("-lboost_context");
    match compiler.stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(program),
        _ => Err("boost.context is not installed (Debian: g++ libboost-context-dev)".to_owned()),
    }
}

/// Measures all cases, and prints them. Returns the exit code: 1 if a promise is not kept.
///
/// # Errors
/// When a program is missing or fails, or the results cannot be written.
pub fn ulp(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let figure = options.common.output("--figure", options.figure.as_deref())?;
    let cox = tools.cox.clone().map_err(|why| anyhow::anyhow!("{why}"))?;
    let scratch = tempfile::Builder::new().prefix("cox-bench.").tempdir().context("cannot make a temporary folder")?;
    // The first one often has more interrupts.
    let cpu = last_allowed_cpu()?;
    let boost = compile_boost(scratch.path());
    let lacks: Vec<String> = boost.as_ref().err().cloned().into_iter().collect();
    let field = Field { yields: tools.workload("yields")?, tools: &tools, cox, boost, cpu, scratch, interrupt };
    let mut report = Report { header: json::Header::new("ulp")?, rows: Vec::new(), lacks };
    let print = |text: &str| options.common.print(text);
    print(&format!("On CPU {cpu}, medians of {} runs (95 % interval)", options.runs))?;
    for case in CASES {
        let is_possible = |kind: &Kind| case.fits(*kind) && (*kind != Kind::Boost || field.boost.is_ok());
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_possible).collect();
        let measured = in_turns(kinds.len(), options.runs.into(), |at| field.run(case, kinds[at]))?;
        print(&heading(case))?;
        for (kind, values) in kinds.into_iter().zip(measured) {
            print(&line(case, kind, &values))?;
            report.rows.push(Row { case, kind, values });
        }
    }
    report.lacks.iter().try_for_each(|why| print(why))?;
    let outcomes: Vec<Outcome> = PROMISES
        .iter()
        .map(|promise| {
            let (text, outcome) = judge(&report, promise);
            print(&text)?;
            Ok(outcome)
        })
        .collect::<Result<_>>()?;
    options.common.write(&report)?;
    if let Some(figure) = figure {
        figure.write(report.figure().as_bytes())?;
    }
    Ok(u8::from(outcomes.contains(&Outcome::Fail)))
}

fn heading(case: Case) -> String {
    let of = match (case.what, case.calls) {
        (What::Yield, 0) => ", ns for one turn".to_owned(),
        (What::Yield, 1) => ", ns for one turn with a system call".to_owned(),
        (What::Yield, calls) => format!(", ns for one turn with {calls} system calls"),
        (What::HalfAsleep, _) => " on all CPUs, ns for one turn".to_owned(),
        (What::Life, _) => ", ns from creation to end".to_owned(),
        (What::Memory, _) => ", bytes of memory of each".to_owned(),
        (What::Fork, _) => ", ns for a fork of one while the others sleep".to_owned(),
    };
    let members = if case.count == 1 { "member" } else { "members" };
    format!("{} {members}{of}", case.count)
}

/// Returns what a kind is called in a case.
fn label(case: Case, kind: Kind) -> &'static str {
    match (case.what, kind) {
        (What::Life | What::Memory, Kind::Processes) => "processes, posix_spawn",
        (What::Fork, Kind::Processes) => "processes",
        _ => kind.name(),
    }
}

fn line(case: Case, kind: Kind, values: &[f64]) -> String {
    let spread =
        median_estimate(values).interval.map(|(low, high)| format!(" ({low:.1}–{high:.1})")).unwrap_or_default();
    format!("  {:24}{:10.1}{spread}", label(case, kind), median(values))
}

/// Returns the line on a promise, and whether it is kept.
fn judge(report: &Report, (case, above, below, limit): &(Case, Kind, Kind, f64)) -> (String, Outcome) {
    let what =
        format!("{}: {} at most {} x {}", heading(*case), label(*case, *above), shown(*limit), label(*case, *below));
    match report.ratio(*case, *above, *below) {
        Some(ratio) => {
            let outcome = at_most(&ratio, *limit);
            let spread =
                ratio.interval.map(|(low, high)| format!(" ({}–{})", shown(low), shown(high))).unwrap_or_default();
            (format!("{}  {what}: {}{spread}", outcome.word(), shown(ratio.median)), outcome)
        }
        None => (format!("{}  {what}", Outcome::NotMeasured.word()), Outcome::NotMeasured),
    }
}

/// Returns a ratio as people read it: small ones as a part of one.
fn shown(ratio: f64) -> String {
    if ratio < 0.5 { format!("1/{:.1}", 1.0 / ratio) } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_compare_runs_of_one_round() {
        let row = |kind, ns: [f64; 7]| Row { case: CASES[0], kind, values: ns.to_vec() };
        let bare = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0];
        let rows = vec![
            row(Kind::Bare, bare),
            row(Kind::Ulps, bare.map(|ns| 2.0 * ns)),
            row(Kind::Processes, bare.map(|ns| 70.0 * ns)),
        ];
        let report = Report { header: json::Header::new("ulp").unwrap(), rows, lacks: Vec::new() };
        let (text, outcome) = judge(&report, &PROMISES[0]);
        assert_eq!(
            (text.as_str(), outcome),
            (
                "PASS  2 members, ns for one turn: ULPs at most 2.70 x bare switch, FS base: 2.00 (2.00–2.00)",
                Outcome::Pass
            )
        );
        let (text, outcome) = judge(&report, &PROMISES[1]);
        assert_eq!(outcome, Outcome::Fail);
        assert!(text.ends_with("at most 1/40.0 x processes, sched_yield: 1/35.0 (1/35.0–1/35.0)"), "{text}");
        assert_eq!(judge(&report, &PROMISES[4]).1, Outcome::NotMeasured);
    }

    #[test]
    fn few_members_take_more_turns() {
        assert_eq!(
            (rounds(Kind::Ulps, CASES[0]), rounds(Kind::Ulps, CASES[3]), rounds(Kind::Threads, CASES[3])),
            (1_000_000, 2000, 1000)
        );
    }
}
