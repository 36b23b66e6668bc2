//! The command line of `cox advise`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::cpus::Cpus;

/// Predict how long a program takes on fewer CPUs than it has threads, and which way is fastest.
///
/// The ways are: fewer threads, packing by cox, threads that sleep while they wait, and plain taskset. cox runs
/// the program once on those CPUs. In short windows, the kernel and the packer take turns in placing the threads,
/// and cox measures the efficiency of both. If --from is given, cox does not run the program: a model predicts
/// the times from a report of cox run, with wider ranges. If --runs is given, cox forecasts nothing: it runs the
/// program several times in each way, and compares the times.
#[derive(Debug, Args)]
#[command(
    override_usage = "cox advise --cpus LIST [OPTIONS] -- PROGRAM [ARGS]...\n       cox advise --ncpus N [OPTIONS] --from REPORT",
    after_help = concat!(
        "Example:\n  cox advise --ncpus 12 -- ./app input\n  cox advise --ncpus 12 --runs 5 -- ./app input\n  cox run --json run.json -- ./app input; cox advise --ncpus 12 --from run.json\n\n",
        exits_of_a_program!(),
        "\n  1      the program ended with 0, but cox could not restore a CPU mask\nWith --from:\n  0      advice was given\n  1      there is nothing to choose between\n  125    the report cannot be used"
    )
)]
pub struct Advise {
    /// The CPUs.
    #[command(flatten)]
    pub cpus: Cpus,
    /// Do not run the program: predict from a report of `cox run --json` ('-': stdin)
    #[arg(long, value_name = "REPORT", conflicts_with = "program")]
    pub from: Option<PathBuf>,
    /// Run the program N times in each way (at least 3), and compare the times instead of forecasting them. Ways that may be
    /// fastest run up to 8 N times. The program must be repeatable: each run must do the same work
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u32).range(3..=100))]
    pub runs: Option<u32>,
    /// Exclude child processes
    #[arg(long)]
    pub no_children: bool,
    /// Write the advice as JSON to FILE ('-': stdout). In FILE: %p pid, %h host, %r MPI or Slurm rank
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the advice to FILE instead of stderr (placeholders as for --json)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print no text (for use with --json)
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "from")]
    pub program: Vec<OsString>,
}
