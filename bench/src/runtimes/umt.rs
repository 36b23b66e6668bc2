//! What keeping CPUs busy gives: `heat` and `fwi` with a disk of a known speed, from much waiting for it to much work, by each runtime
//! in turns.
//!
//! `heat-2` and `fwi-2` are two processes on a CPU each, which also exchange borders by TCP, over loopback. There, runtimes that do not notice blocked
//! threads have to keep an order of messages.
//!
//! A point has so much work for the CPUs and so many bytes for the disk that each alone would take a given time. The *bound* of a
//! run is the longer of the two: CPU work of a run with one thread and without the disk, over all CPUs; bytes over the disk's speed. Efficiency is
//! the bound over what a run took.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

use super::throttle::Throttle;
use super::{Field, Line, Way, number};
use crate::interrupt::Interrupt;
use crate::json;
use crate::rounds::in_turns;
use crate::stats::{median, median_estimate};
use crate::tools::Tools;

/// What `cox-bench umt` understands.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Applications, all when none is named
    #[arg(value_name = "APP", value_parser = APPS.map(|app| app.name))]
    apps: Vec<String>,
    /// Rounds, each with one run of every point by every runtime
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Ratios of work to waiting, of 1:4 1:2 1:1 2:1 4:1
    #[arg(long, value_name = "RATIO", value_delimiter = ',', value_parser = RATIOS.map(|ratio| ratio.0))]
    ratios: Vec<String>,
    /// libgomp and libomp with 2, 4 and 8 threads for each CPU, too
    #[arg(long)]
    oversubscribed: bool,
    /// Where programs write: a folder on the disk that is to be throttled
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Write all measurements as JSON to FILE ('-': stdout, tables then go to stderr)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The cox to measure, if not the one beside this program
    #[arg(long, value_name = "FILE")]
    cox: Option<PathBuf>,
    /// Where the workloads are, if not in ../workloads
    #[arg(long, value_name = "FOLDER")]
    workloads: Option<PathBuf>,
}

/// Work by waiting.
const RATIOS: [(&str, f64); 5] = [("1:4", 0.25), ("1:2", 0.5), ("1:1", 1.0), ("2:1", 2.0), ("4:1", 4.0)];
/// The longer of both takes so long, s.
const LENGTH_S: f64 = 2.0;
/// The disk's speed, bytes/s: what most machines can keep up.
const SPEED: f64 = 100e6;

/// An application: its arguments for so many bytes and so much work.
struct App {
    name: &'static str,
    program: &'static str,
    /// Two processes share the work.
    ranks: bool,
    /// Arguments that do not change.
    fixed: &'static [&'static str],
    /// Steps, each of which may have a snapshot.
    steps: u32,
    /// The option for every how many steps a snapshot is taken, and bytes that each moves: written, and read where they are.
    every: (&'static str, f64),
}

const APPS: [App; 4] =
    [HEAT, App { name: "heat-2", ranks: true, ..HEAT }, FWI, App { name: "fwi-2", ranks: true, ..FWI }];
const HEAT: App = App {
    name: "heat",
    program: "heat",
    ranks: false,
    fixed: &["--size", "1024", "--block", "128", "--direct"],
    steps: 50,
    every: ("--every", 1024.0 * 1024.0 * 8.0),
};
const FWI: App = App {
    name: "fwi",
    program: "fwi",
    ranks: false,
    fixed: &["--nx", "64", "--ny", "64", "--nz", "64", "--direct", "--buffers", "64"],
    steps: 48,
    // A volume is written on the way forward and read on the way back.
    every: ("--iof", 2.0 * 64.0 * 64.0 * 64.0 * 8.0),
};

#[derive(Debug, Serialize)]
struct Point {
    app: &'static str,
    ratio: &'static str,
    /// CPU work of one thread without the disk, over all CPUs.
    work_s: f64,
    /// Bytes over the disk's speed.
    disk_s: f64,
    /// Seconds, by way and round.
    seconds: Vec<Vec<f64>>,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    ways: Vec<String>,
    points: Vec<Point>,
}

struct Bench<'a> {
    field: Field<'a>,
    throttle: Throttle,
    ways: Vec<Way>,
    runs: usize,
}

/// Measure and print.
///
/// # Errors
/// When nothing could be measured, or not be written.
pub fn umt(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    options.json.iter().try_for_each(|path| json::check(path))?;
    let tools = Tools::find(options.cox.as_deref(), options.workloads.as_deref())?;
    let field = Field::new(tools, Some(&options.folder), interrupt)?;
    let throttle = Throttle::new(field.scratch.path())?;
    let more: &[u32] = if options.oversubscribed { &[1, 2, 4, 8] } else { &[1] };
    let peers = more.iter().map(|times| Way::Gomp(*times)).chain(more.iter().map(|times| Way::Omp(*times)));
    let ways: Vec<Way> = peers.chain([Way::Off, Way::StandbyIdle, Way::Bpf]).filter(|way| field.has(*way)).collect();
    let bench = Bench { field, throttle, ways, runs: options.runs.into() };
    let mut report = Report {
        header: json::Header::new("umt")?,
        ways: bench.ways.iter().map(|way| way.name()).collect(),
        points: Vec::new(),
    };
    let print = |text: &str| json::print(text, options.json.as_deref());
    print(&bench.heading())?;
    for app in APPS.iter().filter(|app| options.apps.is_empty() || options.apps.iter().any(|name| name == app.name)) {
        let cost = bench.cost(app)?;
        for ratio in
            RATIOS.iter().filter(|r| options.ratios.is_empty() || options.ratios.iter().any(|name| name == r.0))
        {
            let point = bench.point(app, cost, *ratio)?;
            print(&bench.line(&point))?;
            report.points.push(point);
        }
    }
    options.json.iter().try_for_each(|path| json::write(path, &report))?;
    Ok(0)
}

impl Bench<'_> {
    fn line_of(&self, app: &App, work: u64, snapshots: u32) -> Line {
        let every = app.steps.checked_div(snapshots).map_or(0, |every| every.max(1));
        let mut arguments: Vec<String> = app.fixed.iter().map(ToString::to_string).collect();
        let folder = self.field.scratch.path().display().to_string();
        let numbers =
            [("--steps", app.steps.to_string()), ("--work", work.to_string()), (app.every.0, every.to_string())];
        arguments.extend(
            numbers.into_iter().chain([("--folder", folder)]).flat_map(|(name, value)| [name.to_owned(), value]),
        );
        Line { program: app.program, arguments, ranks: app.ranks }
    }

    /// CPU seconds of one thread without the disk: for no extra work, and for each repeat of it.
    fn cost(&self, app: &App) -> Result<(f64, f64)> {
        let of = |work: u64| -> Result<f64> {
            let values = (0..3).map(|_| self.alone(app, work)).collect::<Result<Vec<f64>>>()?;
            Ok(median(&values))
        };
        let (none, some) = (of(0)?, of(20)?);
        Ok((none, (some - none) / 20.0))
    }

    fn alone(&self, app: &App, work: u64) -> Result<f64> {
        let mut line = Line { ranks: false, ..self.line_of(app, work, 0) };
        line.arguments.extend(["--threads".to_owned(), "1".to_owned()]);
        Ok(number(&self.field.run(Way::Gomp(1), &[], &line)?, "cpu_ns")? / 1e9)
    }

    fn point(&self, app: &App, cost: (f64, f64), ratio: (&'static str, f64)) -> Result<Point> {
        let (wanted_work_s, wanted_disk_s) = (LENGTH_S * ratio.1.min(1.0), LENGTH_S / ratio.1.max(1.0));
        let cpus = f64::from(self.field.cpus());
        let work = ((wanted_work_s * cpus - cost.0) / cost.1).round().max(0.0) as u64;
        let snapshots = ((wanted_disk_s * SPEED / app.every.1).round() as u32).clamp(1, app.steps);
        // As many as divide the steps; the disk's speed makes up for the rest.
        let every = app.steps / snapshots;
        let bytes = f64::from(app.steps / every) * app.every.1;
        let speed = bytes / wanted_disk_s;
        self.throttle.set(speed as u64)?;
        let line = self.line_of(app, work, snapshots);
        let works: Vec<f64> = (0..3).map(|_| self.alone(app, work)).collect::<Result<_>>()?;
        let within = self.throttle.words();
        let mut moved = None;
        let seconds = in_turns(self.ways.len(), self.runs, |at| {
            let truth = self.field.run(self.ways[at], &within, &line)?;
            // Each rank says what it has moved itself: half of it.
            let processes = if app.ranks { 2.0 } else { 1.0 };
            let bytes = processes * (number(&truth, "bytes_written")? + number(&truth, "bytes_read")?);
            moved = Some(bytes);
            Ok(number(&truth, "elapsed_ns")? / 1e9)
        })?;
        let disk_s = moved.context("nothing was measured")? / speed;
        Ok(Point { app: app.name, ratio: ratio.0, work_s: median(&works) / cpus, disk_s, seconds })
    }

    fn heading(&self) -> String {
        let mut text =
            format!("efficiency (bound ÷ time), medians of {}\n{:14}{:>8}{:>8}", self.runs, "", "work s", "disk s");
        self.ways.iter().for_each(|way| write!(text, "{:>13}", way.name()).unwrap_or_default());
        text.push_str("   bpf by libgomp (95 %)");
        text
    }

    fn line(&self, point: &Point) -> String {
        let bound = point.work_s.max(point.disk_s);
        let mut text = format!("{:7}{:7}{:8.2}{:8.2}", point.app, point.ratio, point.work_s, point.disk_s);
        for seconds in &point.seconds {
            write!(text, "{:13.2}", bound / median(seconds)).unwrap_or_default();
        }
        let of = |way: Way| self.ways.iter().position(|one| *one == way).map(|at| &point.seconds[at]);
        if let Some((plain, ours)) = of(Way::Gomp(1)).zip(of(Way::Bpf)) {
            let faster: Vec<f64> = plain.iter().zip(ours).map(|(plain, ours)| plain / ours).collect();
            let estimate = median_estimate(&faster);
            write!(text, "   {:.2}x", estimate.median).unwrap_or_default();
            if let Some((low, high)) = estimate.interval {
                write!(text, " ({low:.2}–{high:.2})").unwrap_or_default();
            }
        }
        text
    }
}
