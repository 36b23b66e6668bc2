//! The command line of `cox advise`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::cpus::Cpus;

/// Say what a program would take on fewer CPUs than it has threads, and which way is best.
///
/// With fewer threads, packed by cox, waiting asleep, or just put there by taskset. The program is run once,
/// on those CPUs; meanwhile the kernel's placing and packing have short windows in turn, and what each makes of
/// the CPUs is measured. With --from nothing is run: a model says it from a report of cox run, with
/// wider ranges.
#[derive(Debug, Args)]
#[command(
    override_usage = "cox advise --cpus LIST [OPTIONS] -- PROGRAM [ARGS]...\n       cox advise --ncpus N [OPTIONS] --from REPORT",
    after_help = "Example:\n  cox advise --ncpus 12 -- ./app input\n  cox run --json run.json -- ./app input; cox advise --ncpus 12 --from run.json\n\n\
Exit codes: the program's own; 128+n when signal n ended it; 125 cox failed before the program ran; \
126 the program cannot be executed; 127 it was not found. With --from: 0 advice was given; 1 there is \
nothing to choose between; 125 the report cannot be used."
)]
pub struct Advise {
    /// The CPUs.
    #[command(flatten)]
    pub cpus: Cpus,
    /// Run nothing: advise from what `cox run --json` wrote ('-': stdin)
    #[arg(long, value_name = "REPORT", conflicts_with = "program")]
    pub from: Option<PathBuf>,
    /// Leave out child processes
    #[arg(long)]
    pub no_children: bool,
    /// Write the advice as JSON to FILE ('-': stdout). %p pid, %h host, %r MPI or Slurm rank
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the advice to FILE instead of stderr (placeholders as for --json)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// No text (for use with --json)
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "from")]
    pub program: Vec<OsString>,
}
