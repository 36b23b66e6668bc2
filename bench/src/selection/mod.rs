//! What it costs to find the schedule of a loop while the program runs: `auto` and its peers, compared with the best single schedule of each loop.
//!
//! - [`program`]: runs a program of the study under `cox run --schedule`.
//! - [`measure`]: every schedule of the portfolio and every way to select, once in each round.
//! - [`judge`]: ratios to the best single schedule, and limits. [`text`]: the tables.

mod judge;
mod measure;
mod program;
mod text;

use anyhow::{Context, Result};
use loops::selection::Way;
use serde::Serialize;

use self::judge::{Judged, Times, judge, means, ratios};
use self::measure::{FROM, Measured, measure};
use self::program::{App, Runner};
use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::verdict::Outcome;

/// Options of `cox-bench selection`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 measured, 1 a limit is exceeded, 125 not measured\n\nExample:\n  cox-bench selection --programs sedov --threads 2 --json sedov.json"
)]
pub struct Options {
    /// Rounds; each measures every schedule and every way to select once
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Programs to run
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_value = "mandelbrot,triad,sedov")]
    programs: Vec<App>,
    /// Threads, separated by commas (default: one per CPU, and two per CPU for information)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=4096))]
    threads: Vec<u32>,
    /// Instances of each loop
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    instances: u32,
    #[command(flatten)]
    common: Common,
}

/// Largest ratio of `auto` to the best single schedule.
const COLD: f64 = 1.05;
/// The same from the file that an earlier run has saved.
const SAVED: f64 = 1.02;

/// A row of a table.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    times: Times,
    #[serde(flatten)]
    judged: Judged,
    /// The schedules of the last instances, with the number of rounds; empty for a single schedule.
    selected: Vec<(String, usize)>,
}

/// What was measured of a loop.
#[derive(Debug, Serialize)]
struct Table {
    program: App,
    threads: u32,
    name: String,
    rows: Vec<Row>,
    /// Schedules that the first round has excluded: in every loop of the program at least twice as slow as the best one.
    excluded: Vec<String>,
}

/// The mean of all loops.
#[derive(Debug, Serialize)]
struct Mean {
    threads: u32,
    peer: &'static str,
    #[serde(flatten)]
    judged: Judged,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    instances: u32,
    tables: Vec<Table>,
    means: Vec<Mean>,
}

/// Measures all programs and prints the tables. Returns the exit code: 1 if a limit is exceeded.
///
/// # Errors
/// When a program cannot be run, or the results cannot be written.
pub fn selection(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let scratch = tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")?;
    let runner = Runner { tools, scratch, interrupt, instances: options.instances };
    let cpus = rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPUs")?.count();
    let threads = if options.threads.is_empty() { vec![cpus.max(2), 2 * cpus.max(2)] } else { options.threads.clone() };
    let (instances, header) = (options.instances, json::Header::new("selection")?);
    let mut report = Report { header, instances, tables: Vec::new(), means: Vec::new() };
    for threads in threads {
        // The limits are for a CPU for each thread.
        let is_limited = threads <= cpus;
        let before = report.tables.len();
        for &app in &options.programs {
            for measured in measure(&runner, app, threads, options.runs.into())? {
                let table = table(measured, is_limited);
                options.common.print(&text::table(&table, instances))?;
                report.tables.push(table);
            }
        }
        for peer in [Way::Expert, Way::Random] {
            let mean = mean(&report.tables[before..], threads, peer.name(), is_limited);
            options.common.print(&text::mean(&mean))?;
            report.means.push(mean);
        }
    }
    options.common.write(&report)?;
    let rows = report.tables.iter().flat_map(|table| &table.rows).map(|row| row.judged.outcome);
    let outcomes = rows.chain(report.means.iter().map(|mean| mean.judged.outcome));
    Ok(u8::from(outcomes.flatten().any(|outcome| outcome == Outcome::Fail)))
}

/// Compares what was measured of a loop with the best single schedule.
fn table(measured: Measured, is_limited: bool) -> Table {
    let Measured { app, threads, name, singles, ways, selected, excluded } = measured;
    let row = |times: &Times, limit: Option<f64>, selected| {
        let judged = judge(&ratios(times, &singles), limit.filter(|_| is_limited));
        Row { times: times.clone(), judged, selected }
    };
    let mut rows: Vec<Row> = singles.iter().map(|times| row(times, None, Vec::new())).collect();
    for (times, selected) in ways.iter().zip(selected) {
        let limit = match times.name.as_str() {
            FROM => Some(SAVED),
            name => (name == Way::Auto.name()).then_some(COLD),
        };
        rows.push(row(times, limit, selected));
    }
    Table { program: app, threads, name, rows, excluded }
}

/// Compares `auto` with a peer in the mean over all loops.
fn mean(tables: &[Table], threads: u32, peer: &'static str, is_limited: bool) -> Mean {
    let of = |name: &str| -> Vec<&Times> {
        let rows = tables.iter().flat_map(|table| &table.rows);
        rows.map(|row| &row.times).filter(|times| times.name == name).collect()
    };
    let ratios = means(&of(Way::Auto.name()), &of(peer));
    Mean { threads, peer, judged: judge(&ratios, Some(1.0).filter(|_| is_limited)) }
}

/// Returns how often each name occurs, the most frequent first.
fn counted(names: &[String]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name.clone(), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(name: &str, ns: f64) -> Times {
        Times { name: name.to_owned(), ns: vec![ns; 9] }
    }

    fn measured() -> Measured {
        Measured {
            app: App::Sedov,
            threads: 2,
            name: "forces".to_owned(),
            singles: vec![times("static", 150.0), times("fac2", 100.0)],
            ways: vec![times("auto", 106.0), times(FROM, 101.0), times("expert", 110.0), times("random", 103.0)],
            selected: vec![counted(&["fac2", "static", "fac2"].map(str::to_owned)), vec![], vec![], vec![]],
            excluded: vec!["ss".to_owned()],
        }
    }

    #[test]
    fn ways_have_limits_and_say_what_they_selected() {
        let found = table(measured(), true);
        let outcome = |name: &str| found.rows.iter().find(|row| row.times.name == name).unwrap().judged.outcome;
        assert_eq!((outcome("auto"), outcome(FROM)), (Some(Outcome::Fail), Some(Outcome::Pass)));
        assert_eq!((outcome("expert"), outcome("static")), (None, None));
        let shown = text::table(&found, 200);
        assert!(shown.contains("1.060 (1.060 to 1.060)   limit 1.05: FAIL"), "{shown}");
        assert!(shown.contains("fac2 2, static 1"), "{shown}");
        assert!(shown.contains("not measured after the first round: ss"), "{shown}");
        let tables = [found];
        let expert = mean(&tables, 2, "expert", true);
        assert_eq!(
            (expert.judged.outcome, mean(&tables, 2, "random", true).judged.outcome),
            (Some(Outcome::Pass), Some(Outcome::Fail))
        );
        assert!(text::mean(&expert).contains("auto / expert"), "{}", text::mean(&expert));
        // More threads than CPUs: for information.
        assert!(table(measured(), false).rows.iter().all(|row| row.judged.outcome.is_none()));
    }
}
