//! The command line of `cox report`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::Traces;

/// The rules that `--timehist` and `--kuhn2022` follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Rule {
    /// perf 6.1: the wait of a preempted thread does not count as sch delay
    #[default]
    #[value(name = "perf-6.1")]
    Perf61,
    /// Later perf: the wait of a preempted thread counts as sch delay, too
    Newer,
}

impl From<Rule> for ledger::timehist::Rule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Perf61 => ledger::timehist::Rule::Perf61,
            Rule::Newer => ledger::timehist::Rule::Newer,
        }
    }
}

/// Report on an earlier recording, and convert it.
///
/// FILE is a trace of `cox run --trace`, which contains all data of that run's report; or a recording of
/// `perf sched record`, also with -z or from a pipe; or the text that `perf script` prints for such a recording.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("perfs-figures").args(["timehist", "kuhn2022"]),
    after_help = "Example:\n  cox run --trace app.pftrace -- ./app input\n  cox report app.pftrace\n  cox report --html app.html app.pftrace\n  cox report --paraver app app.pftrace\n\n  perf sched record -- ./app input\n  cox report perf.data\n  cox report --timehist --summary perf.data\n  perf sched record -o - -- ./app input | cox report -\n\n\
Exit codes:\n  0    reported\n  2    wrong options\n  125  the recording cannot be used, or an output cannot be written"
)]
pub struct Report {
    /// The recording ('-': stdin)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write all figures as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Traces
    #[command(flatten)]
    pub traces: Traces,
    /// List all threads, not only the ten that lost most time
    #[arg(long)]
    pub threads: bool,
    /// Report p50, p90, p99 and maximum of the lengths of wake delays, preempt waits, blocks and time slices, as `cox run --latency`
    /// does (of at most 1487 threads); only from a recording of perf. A trace of cox has them if it was made with --latency
    #[arg(long, conflicts_with_all = ["timehist", "kuhn2022"])]
    pub latency: bool,
    /// Write the report to FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print no report (for use with --json, --html, --trace or --paraver)
    #[arg(short, long)]
    pub quiet: bool,
    /// Print each context switch as `perf sched timehist` does, instead of a report; for recordings of perf
    #[arg(long, conflicts_with_all = ["json", "trace", "paraver", "html", "quiet"])]
    pub timehist: bool,
    /// With --timehist: print only the sums of each thread
    #[arg(long, requires = "timehist")]
    pub summary: bool,
    /// Print the percentages that Kuhn 2022 computes from timehist, beside cox's; for recordings of perf
    #[arg(long, conflicts_with_all = ["json", "trace", "paraver", "html", "quiet"])]
    pub kuhn2022: bool,
    /// Count only threads with these names, and idle CPUs
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "kuhn2022")]
    pub of: Vec<String>,
    /// The version of perf whose rules --timehist and --kuhn2022 follow
    #[arg(long, value_enum, default_value_t, requires = "perfs-figures")]
    pub rule: Rule,
}
