//! What the loops of `libcox_loops.so` cost beside the runtime's own: a request, and an instance of a short loop.

mod program;
mod rows;
mod timing;

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;

use self::program::{Programs, Scheduler};
use self::rows::{Class, Part, SCHEDULES};
use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::rounds::interleave;
use crate::stats::{Bracket, Estimate, median, median_estimate, quartiles, shown};
use crate::verdict::{Outcome, at_most};

/// Options of `cox-bench loops`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Schedules (all)
    #[arg(value_name = "SCHEDULE", value_parser = names())]
    schedules: Vec<String>,
    /// Rounds; each measures every schedule once, between two measurements of the runtime's own loop
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Threads, separated by commas (default: 1 and 2, but not more than CPUs)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// The library to measure (default: libcox_loops.so in this program's folder)
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Another runtime to measure with clang's program: lb4omp=FOLDER, the folder of its libomp.so
    #[arg(long, value_name = "NAME=FOLDER", value_parser = peer)]
    peer: Option<PathBuf>,
    /// Measure instead which time schedules should compare threads by (--runs 15; default schedule: static_weighted)
    #[arg(long, conflicts_with_all = ["threads", "peer"])]
    timing: bool,
    /// With --timing: only cells whose names contain TEXT, as 'quiet', 'bursts', 'stays', 'wanders', 'unequal'
    #[arg(long, value_name = "TEXT", requires = "timing")]
    cell: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Returns the names that the command line accepts.
fn names() -> clap::builder::PossibleValuesParser {
    ["ss"].into_iter().chain(SCHEDULES.map(|row| row.0)).collect::<Vec<_>>().into()
}

/// Returns the peer's library.
fn peer(text: &str) -> Result<PathBuf, String> {
    let folder = text.strip_prefix("lb4omp=").ok_or("use lb4omp=FOLDER")?;
    let library = PathBuf::from(folder).join("libomp.so");
    if library.exists() { Ok(library) } else { Err(format!("no library at {}", library.display())) }
}

/// One line of a table.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    ns: Vec<f64>,
    /// Ratios to the runtime's own loop, measured just before and after.
    ratios: Vec<f64>,
    limit: Option<f64>,
    outcome: Option<Outcome>,
}

/// The rows of one program, loop and number of threads.
#[derive(Debug, Serialize)]
struct Table {
    runtime: &'static str,
    clause: &'static str,
    threads: u32,
    /// The runtime's own loop, without the library.
    own_ns: Vec<f64>,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    tables: Vec<Table>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timing: Vec<timing::Row>,
}

/// Measures all tables and prints them. Returns the exit code: 1 if a limit is exceeded.
///
/// # Errors
/// When a loop cannot be measured, or the results cannot be written.
pub fn loops(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let library = options.library.clone().unwrap_or_else(|| tools.own.with_file_name("libcox_loops.so"));
    if !library.exists() {
        bail!("no library at {}; build it (make build), or name another one with --library", library.display());
    }
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    if options.timing {
        return timings(options, library, tools.workload("weights")?, &scratch, interrupt);
    }
    let programs = |program| Programs { program, library: library.clone(), scratch: &scratch, interrupt };
    let gcc = programs(tools.workload("loopcost")?);
    let clang = tools.workload("loopcost-libomp").map(programs);
    let mut report = Report { header: json::Header::new("loops")?, tables: Vec::new(), timing: Vec::new() };
    for (threads, part) in sizes(options)?.into_iter().flat_map(|threads| Part::ALL.map(|part| (threads, part))) {
        let table = measure(options, &gcc, "libgomp", part, threads)?;
        options.common.print(&text(&table, part))?;
        report.tables.push(table);
        if let (Part::Iteration, Ok(clang)) = (part, &clang) {
            let table = measure(options, clang, "libomp", part, threads)?;
            options.common.print(&text(&table, part))?;
            report.tables.push(table);
        }
    }
    if let Err(why) = clang {
        options.common.print(&format!("libomp: not measured (Debian: clang, libomp-19-dev): {why}"))?;
    }
    options.common.write(&report)?;
    let rows = report.tables.iter().flat_map(|table| &table.rows);
    Ok(u8::from(rows.filter_map(|row| row.outcome).any(|outcome| outcome == Outcome::Fail)))
}

/// Measures by which time schedules should compare threads.
fn timings(
    options: &Options,
    library: PathBuf,
    program: PathBuf,
    scratch: &tempfile::TempDir,
    interrupt: &Interrupt,
) -> Result<u8> {
    let mut report = Report { header: json::Header::new("loops")?, tables: Vec::new(), timing: Vec::new() };
    let allowed = rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPUs")?;
    let cpus: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(2).collect();
    if cpus.len() < 2 {
        bail!("a table of timings needs two CPUs");
    }
    let programs = timing::Programs { program, library, scratch, interrupt, cpus };
    let weighted = ["static_weighted".to_owned()];
    let schedules = if options.schedules.is_empty() { &weighted[..] } else { &options.schedules };
    for schedule in schedules {
        options.common.print(&timing::heading(schedule, programs.cpus.len()))?;
        timing::measure(&programs, schedule, options.runs.into(), options.cell.as_deref(), |row| {
            options.common.print(&timing::text(&row))?;
            report.timing.push(row);
            Ok(())
        })?;
    }
    options.common.write(&report)?;
    Ok(u8::from(report.timing.iter().any(|row| row.outcome == Outcome::Fail)))
}

/// Returns the numbers of threads.
fn sizes(options: &Options) -> Result<Vec<u32>> {
    let allowed = rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPUs")?.count();
    if let Some(many) = options.threads.iter().find(|threads| **threads > allowed) {
        return Err(anyhow!("--threads {many}: this process may use {allowed} CPUs, and each thread is bound to one"));
    }
    let all = if options.threads.is_empty() { vec![1, 2] } else { options.threads.clone() };
    Ok(all.into_iter().filter(|threads| *threads <= allowed).collect())
}

fn measure(
    options: &Options,
    programs: &Programs<'_>,
    runtime: &'static str,
    part: Part,
    threads: u32,
) -> Result<Table> {
    let is_gomp = runtime == "libgomp";
    let mut treatments = vec![("loaded, no schedule", Scheduler::Idle, Class::Other)];
    match part {
        Part::Iteration => treatments.push(("ss", Scheduler::Library("ss"), Class::Table)),
        Part::Instance => {
            let asked = |name: &str| options.schedules.is_empty() || options.schedules.iter().any(|one| one == name);
            let rows = SCHEDULES.into_iter().filter(|(name, _)| asked(name));
            treatments.extend(rows.map(|(name, class)| (name, Scheduler::Library(name), class)));
        }
    }
    if let (false, Some(peer)) = (is_gomp, &options.peer) {
        treatments.push(("lb4omp", Scheduler::Peer(peer), Class::Other));
    }
    let rounds = interleave(treatments.len(), options.runs.into(), |at| {
        programs.measure(part, threads, at.map_or(Scheduler::Runtime, |at| treatments[at].1))
    })?;
    let rows = treatments.iter().zip(&rounds.treated).map(|((name, scheduler, class), brackets)| {
        // The limits are relative to libgomp.
        let is_limited = is_gomp && matches!(scheduler, Scheduler::Library(_));
        row(name, brackets, part.limit(*class, threads).filter(|_| is_limited))
    });
    Ok(Table { runtime, clause: part.clause(), threads, rows: rows.collect(), own_ns: rounds.plain })
}

fn row(name: &str, brackets: &[Bracket<f64>], limit: Option<f64>) -> Row {
    let ratios: Vec<f64> = brackets.iter().map(Bracket::ratio).collect();
    let outcome = limit.map(|limit| at_most(&median_estimate(&ratios), limit));
    Row { name: name.to_owned(), ns: brackets.iter().map(|bracket| bracket.treated).collect(), ratios, limit, outcome }
}

fn text(table: &Table, part: Part) -> String {
    let threads = if table.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", table.threads) };
    let heading = format!("{}, {threads}", part.unit());
    let mut text = format!("{heading:56} quartiles   / {} (95 %)\n", table.runtime);
    let _ = writeln!(text, "  {:24}{}", table.runtime, times(&table.own_ns));
    for row in &table.rows {
        let ratio: Estimate = median_estimate(&row.ratios);
        let _ = write!(text, "  {:24}{}   {}", row.name, times(&row.ns), shown(&ratio, 3));
        if let (Some(limit), Some(outcome)) = (row.limit, row.outcome) {
            let _ = write!(text, "   limit {limit}: {}", outcome.word());
        }
        text.push('\n');
    }
    text
}

fn times(ns: &[f64]) -> String {
    let (first, third) = quartiles(ns);
    let quartiles = format!("{first:.2} .. {third:.2}");
    format!("{:10.2} {quartiles:>22}", median(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brackets(ratio: f64) -> Vec<Bracket<f64>> {
        (0..9).map(|_| Bracket { before: 90.0, treated: 100.0 * ratio, after: 110.0 }).collect()
    }

    #[test]
    fn a_row_beyond_its_limit_fails_and_says_so() {
        let rows = vec![row("fac2", &brackets(1.2), Some(1.15)), row("gss", &brackets(1.1), Some(1.15))];
        assert_eq!([rows[0].outcome, rows[1].outcome], [Some(Outcome::Fail), Some(Outcome::Pass)]);
        assert_eq!(row("static", &brackets(9.0), None).outcome, None);
        let table = Table { runtime: "libgomp", clause: "guided", threads: 2, own_ns: vec![100.0; 9], rows };
        let text = text(&table, Part::Instance);
        assert!(text.contains("ns per instance, 2 threads"), "{text}");
        assert!(text.contains("1.200 (1.200 to 1.200)   limit 1.15: FAIL"), "{text}");
        assert!(text.contains("1.100 (1.100 to 1.100)   limit 1.15: PASS"), "{text}");
    }

    #[test]
    fn a_peer_is_named_with_its_folder() {
        assert_eq!(peer("libomp=/").unwrap_err(), "use lb4omp=FOLDER");
        assert!(peer("lb4omp=/nonexistent").unwrap_err().contains("/nonexistent/libomp.so"));
    }
}
