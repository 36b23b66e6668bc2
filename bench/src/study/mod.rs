//! The study of Kuhn (2022): what the kernel's scheduler costs programs under different loop schedules.
//!
//! - [`plan`]: which [`cell`]s are measured. [`command`]: the command of a cell. [`run`]: runs it, and makes a [`sample`].
//! - [`store`]: finished runs, in a file. [`results`]: all of them.
//! - [`maps`]: the study's heat maps, as [`map`]s; [`text`] prints them, [`page`] draws them.
//! - [`percentages`]: the study's three percentages. [`roofline`]: what the programs reach of the machine's [`ceilings`].

mod ceilings;
mod cell;
mod command;
mod map;
mod maps;
mod page;
mod percentages;
mod plan;
mod results;
mod roofline;
mod run;
mod sample;
mod store;
mod text;

pub use self::cell::App;

use std::path::PathBuf;

use anyhow::{Context, Result};
use loops::Schedule;
use random::Random;
use serde::Serialize;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use ceilings::Ceilings;
use cell::{Cell, Observer, Programs};
use command::{Policy, Setup, Work};
use map::Map;
use plan::{Binding, Factors, Pairs};
use results::{Measured, Results};
use roofline::Point;
use run::Runner;
use store::{Identity, Store};

/// Options of `cox-bench study`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cox-bench study --resume study.runs --html study.html\n  cox-bench study --programs both --schedules static,fac2,ss:64 --pairs same\n\n\
Exit codes: 0 measured, 1 a program had another result under another schedule, 125 not measured"
)]
pub struct Options {
    /// Runs of each cell (default: 5; with --quick: 2)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Programs to run
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_value = "mandelbrot,triad,sedov,both")]
    programs: Vec<Programs>,
    /// Schedules, with ':' before a chunk, such as ss:64 (default: the seven of the study)
    #[arg(long, value_delimiter = ',', value_parser = plan::parse, value_name = "LIST", conflicts_with = "all")]
    schedules: Vec<Schedule>,
    /// Measure all schedules that need no information about the loop
    #[arg(long)]
    all: bool,
    /// Threads of each program per CPU
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "0.5,1,2")]
    threads: Vec<f64>,
    /// Whether threads are bound to CPUs
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_value = "free,bound")]
    binding: Vec<Binding>,
    /// Schedules of two programs that run at the same time
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_value = "same,different")]
    pairs: Vec<Pairs>,
    /// What observes the runs; none and perf only the cells that the study has
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_value = "none,cox,perf")]
    observers: Vec<Observer>,
    /// How threads wait for one another
    #[arg(long, value_enum, default_value = "default")]
    policy: Policy,
    /// Amount of work: the approximate duration of a run on two CPUs, seconds
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Smallest chunk of triad, whose iterations take about a nanosecond; 1: as in the study
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    triad_chunk: u64,
    /// Smallest amount of work: shows that everything works; the figures mean little
    #[arg(long)]
    quick: bool,
    /// Write a page with all maps as pictures to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep finished runs in FILE, and do not repeat those that it contains
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    header: json::Header,
    work: Work,
    rounds: usize,
    /// Which runtime executed what.
    executed_by: [String; 3],
    /// Cells that could not be measured, and why.
    omitted: &'a [String],
    /// Programs that had another result under another schedule.
    wrong: &'a [String],
    ceilings: &'a Ceilings,
    points: &'a [Point],
    maps: &'a [Map],
    #[serde(flatten)]
    results: &'a Results,
}

/// Measures all cells and prints the maps. Returns 1 if a program had another result under another schedule.
///
/// # Errors
/// When a run fails, or the results cannot be written.
pub fn study(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let rounds = usize::from(options.runs.unwrap_or(if options.quick { 2 } else { 5 }));
    let Options { seconds, quick, triad_chunk, policy, .. } = *options;
    let setup = Setup::new(options.common.tools()?, Work { seconds, quick, triad_chunk, policy })?;
    let html = options.common.output("--html", options.html.as_deref())?;
    let (factors, omitted) = factors(options, &setup)?;
    let cells = factors.cells()?;
    let mut store = match &options.resume {
        Some(file) => Store::open(file, &Identity::of(&setup, factors.cpus)?)?,
        None => Store::default(),
    };
    let runner = Runner::new(setup)?;
    measure(&runner, &cells, rounds, &mut store, interrupt)?;
    let ceilings = Ceilings::measure(factors.cpus as usize);

    let measured = cells.iter().map(|cell| Measured { cell: cell.clone(), runs: store.runs(cell, rounds) });
    let results = Results { schedules: factors.schedule_names(), cells: measured.collect() };
    let report = Report {
        header: json::Header::new("study")?,
        work: runner.setup.work,
        rounds,
        executed_by: executed_by(),
        omitted: &omitted,
        wrong: &results.wrong(),
        ceilings: &ceilings,
        points: &roofline::points(&results, &ceilings, factors.cpus as usize),
        maps: &maps::all(&results),
        results: &results,
    };
    report.print(&options.common)?;
    if let Some(html) = html {
        html.write(report.page(factors.cpus).as_bytes())?;
    }
    options.common.write(&report)?;
    Ok(u8::from(!report.wrong.is_empty()))
}

impl Report<'_> {
    fn print(&self, common: &Common) -> Result<()> {
        common.print(&roofline::text(self.points, self.ceilings))?;
        for map in self.maps {
            common.print(&text::map(map))?;
        }
        let remarks = [text::legend(self.rounds)].into_iter().chain(self.remarks());
        remarks.into_iter().try_for_each(|remark| common.print(&text::remark(&remark)))
    }

    /// Returns which runtime executed what, what was not measured, and what was wrong.
    fn remarks(&self) -> Vec<String> {
        let wrong = self.wrong.iter().map(|line| format!("WRONG RESULT: {line}"));
        self.executed_by.iter().chain(self.omitted).cloned().chain(wrong).collect()
    }

    fn page(&self, cpus: u32) -> String {
        let mut about = vec![format!("{cpus} CPUs; {} runs of each cell, interleaved.", self.rounds)];
        about.extend(self.remarks());
        page::page(&about, &text::legend(self.rounds), self.maps, self.points, self.ceilings)
    }
}

/// Returns the factors, and a line for each observer that is not available.
fn factors(options: &Options, setup: &Setup) -> Result<(Factors, Vec<String>)> {
    let cpus = rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPUs")?.count();
    let mut factors = Factors {
        programs: options.programs.clone(),
        schedules: match &options.schedules[..] {
            _ if options.all => plan::all(),
            [] => plan::STUDY.map(Schedule::new).to_vec(),
            chosen => chosen.to_vec(),
        },
        threads: options.threads.clone(),
        bindings: options.binding.clone(),
        pairs: options.pairs.clone(),
        observers: options.observers.clone(),
        cpus,
    };
    let mut omitted = Vec::new();
    if let Err(why) = &setup.tools.perf {
        let before = factors.observers.len();
        factors.observers.retain(|observer| *observer != Observer::Perf);
        omitted.extend((factors.observers.len() < before).then(|| format!("Not measured with perf: {why}")));
    }
    Ok((factors, omitted))
}

/// Runs every cell once in each round, in an order that changes from round to round, except for runs that are finished.
fn measure(runner: &Runner, cells: &[Cell], rounds: usize, store: &mut Store, interrupt: &Interrupt) -> Result<()> {
    for round in 0..rounds {
        let mut due: Vec<&Cell> = cells.iter().filter(|cell| !store.has(cell, round)).collect();
        Random::new(round as u64).shuffle(&mut due);
        if !due.is_empty() {
            eprintln!("cox-bench: study: round {} of {rounds}: {} runs", round + 1, due.len());
        }
        for cell in due {
            interrupt.check()?;
            let sample = runner.run(cell);
            // A run that the signal has ended is no failure of the program.
            interrupt.check()?;
            store.add(cell, round, sample?)?;
        }
    }
    Ok(())
}

/// Returns which runtime executed what: the page and the text say it.
fn executed_by() -> [String; 3] {
    [
        "Loops with schedule(runtime): libcox_loops.so, for all schedules, also for those that libgomp has, so that cells compare.".to_owned(),
        "Teams, barriers and reductions: libgomp. Loops of sedov with schedule(static), 13 of 16: inline code of gcc.".to_owned(),
        "Triad has chunks of at least --triad-chunk iterations, except under static.".to_owned(),
    ]
}
