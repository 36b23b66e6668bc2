//! What observing costs the observed program.
//!
//! Ping-pong is measured by slices inside one run, because from run to run it differs by more than
//! what is to be measured; the others by whole runs. Both have a control: plain, measured once more
//! as if it were a treatment, which shows what this machine can resolve at that moment.

mod analysis;
mod case;
mod counter;
mod cpus;
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
/// Every measurement stands between two plain ones and is compared with their mean. "plain again" is
/// the control: plain, treated like the others; its distance from 1 is this machine's noise. Real
/// figures need a quiet machine, and root for eBPF and for perf. Ping-pong has the observer in cox-bench itself, not --cox.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cox-bench overhead pingpong --json overhead.json\n\n\
Exit codes: 0 no limit was broken, 1 one was, 2 bad command line, 125 a case could not be measured.")]
pub struct Options {
    /// Which cases (all)
    #[arg(value_enum)]
    cases: Vec<CaseName>,
    /// Ping-pong: also the parts of cox, each alone, and programs that do nothing
    #[arg(long)]
    parts: bool,
    /// Together: a cox-bench of another build, which is measured in the same rounds
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
    #[command(flatten)]
    effort: Effort,
}

/// The cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CaseName {
    /// Two processes on one CPU that do nothing but switch: the worst case, by slices
    Pingpong,
    /// The same two processes: what observing adds to overlap and to packing, and what loading takes
    Together,
    /// Threads that meet at a futex barrier every 100 us
    Barriers,
    /// Memory bandwidth, hardly any switches
    Triad,
    /// Computing, with imbalanced loops
    Mandelbrot,
    /// A parallel make of a generated C project: many short processes
    Make,
    /// What a session costs however short the program is, by part, beside perf record
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

/// Measure and print.
///
/// # Errors
/// When nothing could be measured, or not be written. A case that fails is part of the result.
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

/// Measure what keeping a trace costs the traced program, and how long perf's recordings take to be read.
///
/// Figures need a quiet machine, and root for eBPF and for perf.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cox-bench trace reading\n\n\
Exit codes: 0 no limit was broken, 1 one was, 2 bad command line, 125 a case could not be measured.")]
pub struct Tracing {
    /// Which cases (all)
    #[arg(value_enum)]
    cases: Vec<TraceCase>,
    #[command(flatten)]
    effort: Effort,
}

/// The cases of `trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TraceCase {
    /// Ping-pong by slices: cox, cox with a trace, perf sched record
    Pingpong,
    /// 1 GB of perf's, by perf sched timehist and by cox report
    Analysis,
    /// 165 MB of perf's, by perf sched timehist -s and by cox report
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

/// Measure what keeping a trace costs the traced program, and how long perf's recordings take to be read.
///
/// # Errors
/// When nothing could be measured, or not be written.
pub fn trace(options: &Tracing, interrupt: &Interrupt) -> Result<Experiment> {
    let cases = if options.cases.is_empty() { &ALL_OF_TRACE[..] } else { &options.cases };
    let names: Vec<&'static str> = cases.iter().map(|case| case.name()).collect();
    experiment("trace", &names, &options.effort, interrupt, |bench, at| match cases[at] {
        TraceCase::Pingpong => pingpong::measure_tracing(bench),
        TraceCase::Analysis => analysis::measure(bench),
        TraceCase::Reading => reading::measure(bench),
    })
}

/// Measures some cases, by their places in `names`, and prints each when it is done.
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
