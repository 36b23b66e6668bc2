//! How long a CPU stays idle when its thread blocks while a task is ready, with each backend (a way to notice that a thread has blocked).
//! `workloads/firsttask` measures this alternately with a reference: the time to wake a thread on another CPU by an eventfd. The kernel has no
//! cheaper way to wake a thread.

use std::ffi::OsString;

use anyhow::{Result, bail};
use serde::Serialize;

use super::way::Way;
use super::{Field, Line};
use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::rounds::in_turns;
use crate::stats::{Estimate, median, median_estimate};
use crate::verdict::Outcome;

/// Options of `cox-bench wake`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Rounds; each has one run with every backend
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    #[command(flatten)]
    common: Common,
}

/// The backends. The last one, the leader (one thread that gets all block events), is measured for comparison only; the others must be as quick as an
/// eventfd.
const WAYS: [Way; 4] = [Way::Bpf, Way::Perf, Way::StandbyIdle, Way::Leader];
/// Number of times that the thread blocks in each run.
const COUNT: &str = "500";

/// Median times of one run, us: from a block to the start of a ready task, and to wake a thread by an eventfd.
#[derive(Clone, Copy, Debug, Serialize)]
struct Run {
    task_us: f64,
    eventfd_us: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    way: String,
    runs: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    rows: Vec<Row>,
}

impl Row {
    /// Returns the median of: time from a block to the start of a ready task ÷ time to wake a thread by an eventfd, both from the same run.
    fn ratio(&self) -> Estimate {
        median_estimate(&self.runs.iter().map(|run| run.task_us / run.eventfd_us).collect::<Vec<f64>>())
    }

    fn line(&self) -> String {
        let of = |value: fn(&Run) -> f64| median(&self.runs.iter().map(value).collect::<Vec<f64>>());
        let ratio = self.ratio();
        let spread = ratio.interval.map(|(low, high)| format!(" ({low:.2}–{high:.2})")).unwrap_or_default();
        let mark = if self.keeps() { "" } else { " !" };
        format!(
            "{:14}{:10.1}{:10.1}{:10.2}{spread}{mark}",
            self.way,
            of(|run| run.task_us),
            of(|run| run.eventfd_us),
            ratio.median
        )
    }

    fn keeps(&self) -> bool {
        self.ratio().median <= 1.0
    }
}

/// Measures all backends and prints the results. Returns the exit code: 1 if a backend is slower than an eventfd.
///
/// # Errors
/// When a backend cannot be measured, or the results cannot be written.
pub fn wake(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let field = Field::new(options.common.tools()?, None, interrupt)?;
    let [here, other, ..] = field.allowed() else {
        bail!("this experiment needs two CPUs, but this process may use only one")
    };
    let words = ["--count", COUNT, "--other", &other.to_string()].map(str::to_owned);
    // cox may share the program's CPU, because none of cox's threads runs while the program runs.
    let within: Vec<OsString> = ["taskset", "-c", &here.to_string()].map(OsString::from).to_vec();
    let line = Line { within, ..Line::new("firsttask", words.to_vec()) };
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| field.lacks(*way).is_none()).collect();
    let measured = in_turns(ways.len(), options.runs.into(), |at| {
        let truths = field.run(ways[at], &line)?;
        Ok(Run { task_us: truths.most("task_us")?, eventfd_us: truths.most("eventfd_us")? })
    })?;
    let rows = ways.iter().zip(measured).map(|(way, runs)| Row { way: way.name(), runs }).collect();
    let report = Report { header: json::Header::new("wake")?, rows };
    let print = |text: &str| options.common.print(text);
    print(&format!(
        "times in us, medians of {} runs with {COUNT} blocks each\n{:14}{:>10}{:>10}{:>10}",
        options.runs, "", "first task", "eventfd", "  ratio (95 %)"
    ))?;
    report.rows.iter().try_for_each(|row| print(&row.line()))?;
    let (told, outcome) = judge(&report.rows);
    print(&told)?;
    options.common.write(&report)?;
    Ok(u8::from(outcome == Outcome::Fail))
}

/// Judges all backends but the leader, which is measured for comparison only.
fn judge(rows: &[Row]) -> (String, Outcome) {
    let leader = Way::Leader.name();
    let slow: Vec<&str> =
        rows.iter().filter(|row| row.way != leader && !row.keeps()).map(|row| row.way.as_str()).collect();
    if slow.is_empty() {
        return (
            "the first task begins no later than a thread that an eventfd wakes on another CPU … PASS".into(),
            Outcome::Pass,
        );
    }
    (
        format!(
            "the first task begins later than a thread that an eventfd wakes on another CPU: {} … FAIL",
            slow.join(", ")
        ),
        Outcome::Fail,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_may_be_late_and_nobody_else() {
        let row = |way: Way, task_us: f64| Row { way: way.name(), runs: vec![Run { task_us, eventfd_us: 10.0 }; 7] };
        let all = [row(Way::Bpf, 10.0), row(Way::Leader, 30.0)];
        assert_eq!(judge(&all).1, Outcome::Pass);
        assert!(all[1].line().ends_with("3.00 (3.00–3.00) !"), "{}", all[1].line());
        let (told, outcome) = judge(&[row(Way::Bpf, 9.0), row(Way::Perf, 10.1)]);
        assert_eq!(outcome, Outcome::Fail);
        assert!(told.contains("perf"), "{told}");
    }
}
