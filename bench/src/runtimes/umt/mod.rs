//! What overlap gains: `heat` and `fwi` with a disk and a network of known speeds, from mostly waiting to mostly work. The runtimes take turns.
//!
//! `heat-2` and `fwi-2` are two processes with one CPU each that exchange borders by TCP between two network namespaces. If a runtime does not notice
//! blocked threads, the two processes must order their messages to avoid a deadlock. `heat-twice` and `fwi-twice` are two independent processes.
//!
//! A *point* is one application, what blocks it (disk, network or both), and one ratio of work to waiting. CPUs, disk and network would each need a
//! given time alone: the amount of work, the bytes and the speeds of disk and network are chosen accordingly. The *bound* of a run is the longest of
//! these times ([`bound::Bound`]). The *efficiency* of a run is its bound ÷ its measured time.

mod apps;
mod blocked;
mod bound;
mod detail;
mod nothing;
mod size;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use apps::{APPS, App, Blocking, Kind};
use blocked::Blocked;
use bound::{Bound, Cost, LENGTH_S};
use detail::Detail;
use nothing::Nothing;
use serde::Serialize;
use serde_json::Value;
use size::Size;
use table::{Point, Runs};

use super::network::{self, Network};
use super::series::Series;
use super::throttle::Throttle;
use super::trace::Trace;
use super::way::Way;
use super::{Field, Line, Processes};
use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::rounds::in_turns;
use crate::stats::median;

/// Options of `cox-bench umt`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Applications and programs by name; `blocked`: programs that are blocked most of the time; `nothing`: programs that cannot gain from overlap
    /// (default: all)
    #[arg(value_name = "APP", value_parser = names())]
    apps: Vec<String>,
    /// Rounds; each runs every point once with every runtime
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Ratios of work to waiting (default: all; for phases, loops, blocks and path only the ratio for which each was chosen)
    #[arg(long, value_name = "RATIO", value_delimiter = ',', value_parser = RATIOS.map(|ratio| ratio.0))]
    ratios: Vec<String>,
    /// For two ranks: kinds of waiting to measure (default: all kinds)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = Blocking::NAMES.map(|one| one.0))]
    blocking: Vec<String>,
    /// Runtimes (default: all)
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = Way::NAMES)]
    ways: Vec<String>,
    /// Also run libgomp and libomp with 2, 4 and 8 threads per CPU, and report the best; always on for phases, loops, blocks and path
    #[arg(long)]
    oversubscribed: bool,
    /// Folder into which programs write, on the disk to be throttled
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Write the use of CPU, disk and network over time of each traced run as CSV to FILE, and print it as bars
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Ratios of work to waiting.
const RATIOS: [(&str, f64); 5] = [("1:4", 0.25), ("1:2", 0.5), ("1:1", 1.0), ("2:1", 2.0), ("4:1", 4.0)];
/// How many times the application repeats its arithmetic when its CPU time is measured first. The number is doubled until a run needs [`LENGTH_S`]
/// of CPU time per CPU.
const SAMPLE: u64 = 10;
/// Number of times that the CPU time of each size of an application is measured; the shortest counts.
const COSTS: usize = 3;

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    /// Runtimes (with their settings) that cannot be measured here, and why.
    lacking: Vec<(String, String)>,
    points: Vec<Point>,
    /// Results of the programs that cannot gain from overlap.
    nothing: Vec<Nothing>,
    /// Results of the programs that are blocked most of the time.
    blocked: Vec<Blocked>,
}

struct Bench<'a> {
    field: Field<'a>,
    throttle: Throttle,
    /// The network of two ranks; `None` if no application has ranks.
    network: Option<Network>,
    runs: usize,
}

/// Name of the part that measures programs that cannot gain from overlap.
const NOTHING: &str = "nothing";
/// Name of the part that measures programs whose tasks are blocked most of the time.
const BLOCKED: &str = "blocked";

fn names() -> Vec<&'static str> {
    APPS.iter().map(|app| app.name).chain([BLOCKED, NOTHING]).collect()
}

/// Returns whether `name` was asked for. An empty list asks for everything.
fn wanted(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

/// Measures everything that was asked for, and prints the results.
///
/// # Errors
/// When a measurement fails, or the results cannot be written.
pub fn umt(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let output = options.common.output("--series", options.series.as_deref())?;
    let field = Field::new(tools, Some(&options.folder), interrupt)?;
    network::clean();
    let apps: Vec<&App> = APPS.iter().filter(|app| wanted(&options.apps, app.name)).collect();
    let network = apps.iter().any(|app| app.kind == Kind::Ranks).then(Network::new).transpose()?;
    let (mut ways, lacking) = ways(&field);
    ways.retain(|way| wanted(&options.ways, way.runtime()));
    let has_libgomp = ways.contains(&Way::Gomp(1)) || !wanted(&options.apps, NOTHING);
    let header = json::Header::new("umt")?;
    let mut report = Report { header, lacking, points: Vec::new(), nothing: Vec::new(), blocked: Vec::new() };
    let print = |text: &str| options.common.print(text);
    report.lacking.iter().try_for_each(|(way, why)| print(&format!("not measured: {way}: {why}")))?;
    ensure!(!ways.is_empty(), "none of the chosen runtimes can be measured here");
    ensure!(has_libgomp, "'{NOTHING}' needs libgomp for the comparison: add libgomp to --ways");
    if wanted(&options.apps, BLOCKED) {
        let ours: Vec<Way> = ways.iter().copied().filter(|way| Way::OURS.contains(way)).collect();
        report.blocked = blocked::measure(&field, &ours, options.runs, print)?;
    }
    if apps.is_empty() && !wanted(&options.apps, NOTHING) {
        options.common.write(&report)?;
        return Ok(0);
    }
    let throttle = Throttle::new(field.scratch.path())?;
    let bench = Bench { field, throttle, network, runs: options.runs.into() };
    let mut series = detail::ROWS.to_owned();
    let mut columns = None;
    for app in apps {
        let by_hand = options.oversubscribed || app.chosen.is_some();
        let ways: Vec<Way> = ways.iter().copied().filter(|way| by_hand || way.threads_by_cpu() == 1).collect();
        if columns != Some(by_hand) {
            print(&table::heading(options.runs, by_hand))?;
            columns = Some(by_hand);
        }
        let cost = bench.cost(app)?;
        for (blocking, ratio) in points_of(app, options) {
            let point = bench.point(app, &ways, &cost, blocking, ratio)?;
            print(&table::line(&point, by_hand))?;
            for detail in &point.details {
                print(&detail.line())?;
                if output.is_some() {
                    let name = format!("{},{},{}", point.app, point.blocking, point.ratio);
                    series.push_str(&detail.rows(&name));
                    let size = Size::new(app, &cost, ratio.1, blocking);
                    detail.series(size.disk_speed, size.network_speed).iter().try_for_each(|line| print(line))?;
                }
            }
            report.points.push(point);
        }
    }
    if wanted(&options.apps, NOTHING) {
        let ways: Vec<Way> = ways.into_iter().filter(|way| *way == Way::Gomp(1) || Way::OURS.contains(way)).collect();
        report.nothing = nothing::measure(&bench.field, &bench.throttle, &ways, options.runs, print)?;
    }
    // Write the JSON even if the CSV file cannot be written.
    let written = output.map_or(Ok(()), |output| output.write(series.as_bytes()));
    options.common.write(&report).and(written)?;
    Ok(0)
}

/// Returns the points of an application that were asked for: what blocks its threads, and the ratio of work to waiting. They are in the order of the
/// table.
fn points_of(app: &App, options: &Options) -> Vec<(Blocking, (&'static str, f64))> {
    let asked = |ratio: &str| match app.chosen {
        Some(chosen) if options.ratios.is_empty() => ratio == chosen,
        _ => wanted(&options.ratios, ratio),
    };
    // The option `--blocking` is only for two ranks, which wait for the disk, the network or both. The other applications wait only for the disk.
    let blockings =
        app.blockings().iter().filter(|one| app.kind != Kind::Ranks || wanted(&options.blocking, one.name()));
    let ratios = RATIOS.into_iter().filter(|ratio| asked(ratio.0));
    blockings.flat_map(|blocking| ratios.clone().map(|ratio| (*blocking, ratio))).collect()
}

/// Returns the runtimes (with their settings) that can be measured here, and the others with the reason.
fn ways(field: &Field<'_>) -> (Vec<Way>, Vec<(String, String)>) {
    let (mut ways, mut lacking) = (Vec::new(), Vec::new());
    for way in Way::all() {
        match field.lacks(way) {
            Some(why) => lacking.push((way.name(), why)),
            None => ways.push(way),
        }
    }
    (ways, lacking)
}

impl Bench<'_> {
    fn line(&self, app: &App, size: &Size) -> Result<Line<'_>> {
        let processes = match app.kind {
            Kind::Alone => Processes::Alone,
            Kind::Ranks => Processes::Ranks(self.network.as_ref().context("two ranks need a network")?),
            Kind::Twice => Processes::Twice,
        };
        let arguments = app.arguments(size, &self.field.scratch.path().display().to_string());
        Ok(Line { processes, ..Line::new(app.program, arguments) })
    }

    /// Measures the CPU time that the application needs, in CPU seconds per CPU: with different amounts of work (numbers of repeats of its
    /// arithmetic), and for one snapshot that it writes to the disk.
    fn cost(&self, app: &App) -> Result<Cost> {
        let mut works = vec![0, SAMPLE];
        while self.work_s(app, &Size::of_work(works[works.len() - 1]))? < LENGTH_S {
            works.push(2 * works[works.len() - 1]);
        }
        let snapshots = Size { every: 1, ..Size::of_work(0) };
        let sizes: Vec<Size> = works.iter().map(|work| Size::of_work(*work)).chain([snapshots]).collect();
        let costs = in_turns(sizes.len(), COSTS, |at| self.work_s(app, &sizes[at]))?;
        // Use the minimum of several interleaved measurements: a disturbed one would change the size of all later runs.
        let least: Vec<f64> = costs.iter().map(|costs| costs.iter().copied().fold(f64::INFINITY, f64::min)).collect();
        let snapshot_s = (least[works.len()] - least[0]).max(0.0) / snapshots.snapshots(app);
        Cost::new(works.into_iter().zip(least).collect(), snapshot_s)
    }

    /// Measures the work: the CPU seconds per CPU of a run with one thread per process, because a single thread does not spin. Of two ranks, the
    /// busier one counts. Disk and network are not limited. The time includes the kernel's work for transfers and messages.
    fn work_s(&self, app: &App, size: &Size) -> Result<f64> {
        let mut line = self.line(app, size)?;
        line.arguments.extend(["--threads".to_owned(), "1".to_owned()]);
        let cpus = if app.kind == Kind::Ranks { 1.0 } else { f64::from(self.field.cpus()) / app.copies() };
        match (app.kind, &self.network) {
            (Kind::Ranks, Some(network)) => network.set(None)?,
            _ => line.processes = Processes::Alone,
        }
        Ok(self.field.run(Way::Gomp(1), &line)?.most("cpu_ns")? / 1e9 / cpus)
    }

    fn point(
        &self,
        app: &App,
        ways: &[Way],
        cost: &Cost,
        blocking: Blocking,
        ratio: (&'static str, f64),
    ) -> Result<Point> {
        let size = Size::new(app, cost, ratio.1, blocking);
        let mut line = self.line(app, &size)?;
        if let Some(speed) = size.disk_speed {
            self.throttle.set(speed as u64)?;
            line.within = self.throttle.words();
        }
        let network = self.network.as_ref().filter(|_| app.kind == Kind::Ranks);
        let mut fewest = (f64::INFINITY, f64::INFINITY);
        let mut work_s = Vec::new();
        // In each round, run the application with every runtime, and also measure the CPU time of its work: a machine's speed changes over time.
        let mut runs = in_turns(ways.len() + 1, self.runs, |at| {
            let Some(way) = ways.get(at) else {
                // Measure the CPU time of the work without snapshots, and add the CPU time of the snapshots. A measurement with snapshots would be
                // too high: the single thread waits for each snapshot, and its CPU is idle meanwhile. Afterwards, the thread computes more slowly
                // (on virtual machines by a fifth). A runtime that overlaps has no such loss.
                let snapshots_s = size.snapshots(app) * cost.snapshot_s;
                work_s.push(self.work_s(app, &Size::of_work(size.work))? + snapshots_s);
                return Ok((0.0, 0.0));
            };
            network.iter().try_for_each(|network| network.set(size.network_speed))?;
            let before = network.map_or(Ok([0.0; 2]), Network::sent)?;
            let truths = self.field.run(*way, &line)?;
            let after = network.map_or(Ok([0.0; 2]), Network::sent)?;
            // Bytes sent in the busier direction. The smallest value of all runs gives the lower bound of the network time, so that retransmissions
            // do not raise this bound.
            let sent = (after[0] - before[0]).max(after[1] - before[1]);
            fewest = (fewest.0.min(truths.sum("bytes_written")? + truths.sum("bytes_read")?), fewest.1.min(sent));
            Ok((truths.most("elapsed_ns")? / 1e9, truths.sum("cpu_ns")? / 1e9))
        })?;
        runs.truncate(ways.len());
        let bound = Bound {
            work_s: median(&work_s),
            disk_s: size.disk_speed.map_or(0.0, |speed| fewest.0 / speed),
            network_s: size.network_speed.map_or(0.0, |speed| fewest.1 / speed),
        };
        network.iter().try_for_each(|network| network.set(size.network_speed))?;
        let by_way = ways.iter().zip(runs).map(|(way, runs)| {
            let (seconds, cpu_s) = runs.into_iter().unzip();
            Runs { way: *way, seconds, cpu_s }
        });
        let by_way: Vec<Runs> = by_way.collect();
        let details = by_way.iter().map(|runs| self.traced(&line, runs, &bound)).collect::<Result<_>>()?;
        Ok(Point { app: app.name, blocking: blocking.name(), ratio: ratio.0, bound, by_way, details })
    }

    /// Runs the program once more, traced and not timed.
    fn traced(&self, line: &Line<'_>, runs: &Runs, bound: &Bound) -> Result<Detail> {
        // If two instances of cox run, do not ask for a report, because both would write into the same file.
        let report = (runs.way.by_cox() && !matches!(line.processes, Processes::Twice))
            .then(|| self.field.scratch.path().join("report.json"));
        let line = Line { report: report.clone(), ..line.clone() };
        let namespace = match line.processes {
            Processes::Ranks(network) => Some(network.file(0)),
            Processes::Alone | Processes::Twice => None,
        };
        let trace = Trace::begin(line.program)?;
        let series = Series::begin(self.throttle.device(), namespace);
        let ran = self.field.run(runs.way, &line);
        let samples = series.end();
        let usage = trace.end(&ran?.window()?)?;
        let report: Option<Value> = match &report {
            Some(file) => Some(serde_json::from_slice(&std::fs::read(file).context("cannot read cox's JSON report")?)?),
            None => None,
        };
        let cpus = if matches!(line.processes, Processes::Ranks(_)) { 2 } else { self.field.cpus() };
        let work_s = bound.work_s * f64::from(cpus);
        let mut detail = Detail::new(runs.way, usage, cpus, median(&runs.cpu_s), work_s, report.as_ref());
        detail.samples = samples?;
        Ok(detail)
    }
}
