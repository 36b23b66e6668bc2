//! What observing costs the observed program.
//!
//! Ping-pong is measured in slices of one run, because separate runs of it differ by more than the cost to be measured. The other programs are
//! measured by whole runs. Both kinds of measurement have a control: the plain program (without an observer) is measured once more,
//! as if it were observed. The control shows how small a difference this machine can resolve at the moment.

mod analysis;
mod case;
mod counter;
pub mod cpus;
mod floor;
mod hold;
mod perf;
mod pingpong;
mod programs;
mod project;
mod reading;
mod slices;
mod start;
mod together;
mod whole;

use std::path::PathBuf;

use anyhow::{Context, Result};

use self::case::{Bench, Effort};
use crate::interrupt::Interrupt;
use crate::results::{Case, Experiment};
use crate::table;

pub use hold::{Options as Held, hold};

/// Measure what observing costs the observed program.
///
/// Every measurement lies between two plain ones and is compared with their mean. "plain again" is the control: a plain run, measured like a
/// treatment; its distance from 1 is this machine's noise. Real figures need a quiet machine, and root for eBPF and for perf. For ping-pong the
/// observer runs in cox-bench itself, and --cox is not used.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cox-bench overhead pingpong --json overhead.json\n\n\
Exit codes: 0 no limit was exceeded, 1 a limit was exceeded, 2 bad command line, 125 a case could not be measured.")]
pub struct Options {
    /// Cases (default: all)
    #[arg(value_enum)]
    cases: Vec<CaseName>,
    /// For `pingpong`: also measure each part of cox alone, and empty BPF programs
    #[arg(long)]
    parts: bool,
    /// For `together`: a cox-bench of another build, which is measured in the same rounds
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
    #[command(flatten)]
    effort: Effort,
}

/// The cases of `overhead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CaseName {
    /// Two processes on one CPU that do nothing but switch: the worst case, measured in short sections of one run
    Pingpong,
    /// The same two processes: the cost of observing in addition to overlap or packing, and the time to load the BPF programs
    Together,
    /// Threads that wait for each other at a futex barrier every 100 us
    Barriers,
    /// Memory bandwidth, hardly any switches
    Triad,
    /// Computing, in loops with load imbalance
    Mandelbrot,
    /// A parallel make of a generated C project: many short processes
    Make,
    /// The fixed cost of cox run and cox pack, divided into parts, and compared with perf record
    Start,
}

const ALL: [CaseName; 7] = [
    CaseName::Pingpong,
    CaseName::Together,
    CaseName::Barriers,
    CaseName::Triad,
    CaseName::Mandelbrot,
    CaseName::Make,
    CaseName::Start,
];

impl CaseName {
    fn name(self) -> &'static str {
        match self {
            CaseName::Pingpong => "pingpong",
            CaseName::Together => "together",
            CaseName::Barriers => "barriers",
            CaseName::Triad => "triad",
            CaseName::Mandelbrot => "mandelbrot",
            CaseName::Make => "make",
            CaseName::Start => "start",
        }
    }
}

/// Measures the cases and prints the results.
///
/// # Errors
/// When the programs are not found, or the results cannot be written. If a case fails, no error is returned: the results say why it was not measured.
pub fn overhead(options: &Options, interrupt: &Interrupt) -> Result<Experiment> {
    let cases = if options.cases.is_empty() { &ALL[..] } else { &options.cases };
    let names: Vec<&'static str> = cases.iter().map(|case| case.name()).collect();
    experiment("overhead", &names, &options.effort, interrupt, |bench, at| match cases[at] {
        CaseName::Pingpong => pingpong::measure(bench, options.parts),
        CaseName::Together => together::measure(bench, options.beside.as_deref()),
        CaseName::Barriers => whole::measure(bench, &programs::barriers(bench)),
        CaseName::Triad => whole::measure(bench, &programs::triad(bench)),
        CaseName::Mandelbrot => whole::measure(bench, &programs::mandelbrot(bench)),
        CaseName::Make => whole::measure(bench, &project::make(bench)),
        CaseName::Start => start::measure(bench),
    })
}

/// Measure what keeping a trace costs the traced program, and how long it takes to read perf's recordings.
///
/// Figures need a quiet machine, and root for eBPF and for perf.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cox-bench trace reading\n\n\
Exit codes: 0 no limit was exceeded, 1 a limit was exceeded, 2 bad command line, 125 a case could not be measured.")]
pub struct Tracing {
    /// Cases (default: all)
    #[arg(value_enum)]
    cases: Vec<TraceCase>,
    #[command(flatten)]
    effort: Effort,
}

/// The cases of `trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TraceCase {
    /// Ping-pong, measured in slices: cox, cox with a trace, perf sched record
    Pingpong,
    /// A recording of 1 GB, read by perf sched timehist and by cox report
    Analysis,
    /// A recording of 165 MB, read by perf sched timehist -s and by cox report
    Reading,
}

const ALL_OF_TRACE: [TraceCase; 3] = [TraceCase::Pingpong, TraceCase::Analysis, TraceCase::Reading];

impl TraceCase {
    fn name(self) -> &'static str {
        match self {
            TraceCase::Pingpong => "pingpong",
            TraceCase::Analysis => "analysis",
            TraceCase::Reading => "reading",
        }
    }
}

/// Measures what keeping a trace costs the traced program, and how long it takes to read perf's recordings.
///
/// # Errors
/// When the programs are not found, or the results cannot be written. If a case fails, no error is returned: the results say why it was not measured.
pub fn trace(options: &Tracing, interrupt: &Interrupt) -> Result<Experiment> {
    let cases = if options.cases.is_empty() { &ALL_OF_TRACE[..] } else { &options.cases };
    let names: Vec<&'static str> = cases.iter().map(|case| case.name()).collect();
    experiment("trace", &names, &options.effort, interrupt, |bench, at| match cases[at] {
        TraceCase::Pingpong => pingpong::measure_tracing(bench),
        TraceCase::Analysis => analysis::measure(bench),
        TraceCase::Reading => reading::measure(bench),
    })
}

/// Measures the cases in `names` and prints each as soon as it is done. `measure` gets the index of the case.
fn experiment(
    name: &'static str,
    names: &[&'static str],
    options: &Effort,
    interrupt: &Interrupt,
    measure: impl Fn(&Bench<'_>, usize) -> Result<Case>,
) -> Result<Experiment> {
    let bench = Bench {
        options,
        interrupt,
        tools: options.common.tools()?,
        scratch: tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")?,
    };
    let mut experiment = Experiment::new(name, options.quick)?;
    for (at, name) in names.iter().enumerate() {
        let outcome = measure(&bench, at);
        interrupt.check()?;
        let case = outcome.unwrap_or_else(|error| Case {
            name,
            about: format!("not measured: {error:#}"),
            figures: Vec::new(),
            notes: Vec::new(),
            verdicts: Vec::new(),
        });
        options.common.print(&table::case(&case))?;
        experiment.cases.push(case);
    }
    options.common.write(&experiment)?;
    Ok(experiment)
}
