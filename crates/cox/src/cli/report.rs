//! The command line of `cox report`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::Traces;

/// Whose rules `--timehist` and `--kuhn2022` go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Rule {
    /// perf 6.1: a preempted thread has no sch delay
    #[default]
    #[value(name = "perf-6.1")]
    Perf61,
    /// Later perf: a preempted thread's wait is sch delay, too
    Newer,
}

impl Rule {
    /// As it is given.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Perf61 => "perf-6.1",
            Rule::Newer => "newer",
        }
    }
}

impl From<Rule> for ledger::timehist::Rule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Perf61 => ledger::timehist::Rule::Perf61,
            Rule::Newer => ledger::timehist::Rule::Newer,
        }
    }
}

/// Report on what was recorded earlier.
///
/// FILE is a trace of `cox run --trace`, which has everything in it that the report of that run was made of;
/// or what `perf sched record` wrote, also with -z or to a pipe; or what `perf script` prints of that.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("perfs-figures").args(["timehist", "kuhn2022"]),
    after_help = "Example:\n  cox run --trace app.pftrace -- ./app input\n  cox report app.pftrace\n  cox report --html app.html app.pftrace\n  cox report --paraver app app.pftrace\n\n  perf sched record -- ./app input\n  cox report perf.data\n  cox report --timehist --summary perf.data\n  perf sched record -o - -- ./app input | cox report -"
)]
pub struct Report {
    /// The recording ('-': stdin)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the whole account as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Traces
    #[command(flatten)]
    pub traces: Traces,
    /// Show all threads, not only the ten that lost most
    #[arg(long)]
    pub threads: bool,
    /// Write the report to FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// No report (for use with --json, --html, --trace or --paraver)
    #[arg(short, long)]
    pub quiet: bool,
    /// Print each switch as `perf sched timehist` does, instead of a report; for recordings of perf
    #[arg(long, conflicts_with_all = ["json", "trace", "paraver", "html", "quiet"])]
    pub timehist: bool,
    /// With --timehist: only each thread's sums
    #[arg(long, requires = "timehist")]
    pub summary: bool,
    /// Print the percentages that Kuhn 2022 draws from timehist, beside ours; for recordings of perf
    #[arg(long, conflicts_with_all = ["json", "trace", "paraver", "html", "quiet"])]
    pub kuhn2022: bool,
    /// Which perf's rules --timehist and --kuhn2022 go by
    #[arg(long, value_enum, default_value_t, requires = "perfs-figures")]
    pub rule: Rule,
}
