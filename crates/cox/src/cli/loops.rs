//! Options of `cox loops`.

use std::ffi::OsString;

use clap::Args;

use super::report_files::ReportFiles;

/// List the OpenMP loops of a program whose schedule can change, and what imbalance costs them.
///
/// The program runs with the schedules that it asks for. cox lists each loop with the time that imbalance costs, how much of it the OS caused by letting
/// threads wait for a CPU, what requests for chunks cost, and which schedule would help. Loops with schedule(static), and those without a schedule, make
/// no call when gcc has compiled them: they are not listed.
#[derive(Debug, Args)]
#[command(
    override_usage = "cox loops [OPTIONS] -- PROGRAM [ARGS]...",
    after_help = concat!(
        "Example:\n  cox loops -- ./app input\n  cox run --schedule all:fac2 -- ./app input\n\n",
        exits_of_a_program!()
    )
)]
pub struct Loops {
    /// Exclude child processes
    #[arg(long)]
    pub no_children: bool,
    /// Where the report goes.
    #[command(flatten)]
    pub report: ReportFiles,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required = true)]
    pub program: Vec<OsString>,
}
