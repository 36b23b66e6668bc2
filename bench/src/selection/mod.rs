//! What it costs to find the schedule of a loop while the program runs: `auto` and its peers, compared with the best single schedule of each loop.
//!
//! - [`program`]: runs a program of the study under `cox run --schedule`.
//! - [`mod@measure`]: every schedule of the portfolio and every way to select, once in each round.
//! - [`judge`]: ratios to the best single schedule. [`tables`]: they become tables with limits. [`text`]: the tables as text.

mod judge;
mod measure;
mod program;
mod tables;
mod text;

use anyhow::{Context, Result};
use loops::selection::Method;
use serde::Serialize;

use self::measure::measure;
use self::program::Runner;
use self::tables::{Mean, Table, mean, table};
use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::study::App;
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
        for peer in [Method::Expert, Method::Random] {
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
