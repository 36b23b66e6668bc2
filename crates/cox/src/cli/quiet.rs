//! The options of `cox quiet`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use machine::CpuSet;
use quiet::{CpuRequest, Extent, Level};

use super::cpus::at_least_one;
use super::report_files::ReportFiles;
use super::times::{duration, short_time};

/// Run a program on CPUs on which nothing else runs.
///
/// All other threads, interrupts and kernel threads that can be moved go to the other CPUs while the program runs.
/// When it ends, however that happens, cox restores every setting and every thread's CPUs. Only root can do this,
/// but for --level pin. To run the program as another user: cox quiet ... -- setpriv --reuid USER ... PROGRAM.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "cox quiet --cpus LIST [OPTIONS] -- PROGRAM [ARGS]...\n       cox quiet --ncpus N [OPTIONS] -- PROGRAM [ARGS]...\n       cox quiet plan|apply|measure --ncpus N [OPTIONS]\n       cox quiet status\n       cox quiet undo [SESSION]",
    after_help = concat!(
        "Example:\n  cox quiet plan --ncpus 14\n  cox quiet --ncpus 14 -- ./app input\n\n",
        exits_of_a_program!(),
        "\n  1      the program ended with 0, but cox could not restore a setting"
    )
)]
pub struct Quiet {
    /// A subcommand.
    #[command(subcommand)]
    pub what: Option<QuietVerb>,
    /// The CPUs, and how much to change.
    #[command(flatten)]
    pub which: QuietCpus,
    /// Where the report goes.
    #[command(flatten)]
    pub report: ReportFiles,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required = true)]
    pub program: Vec<OsString>,
}

/// Subcommands of `cox quiet`.
#[derive(Debug, Subcommand)]
pub enum QuietVerb {
    /// Show what would be changed, and what cannot be; changes nothing
    ///
    /// Each line has a setting, its present value, the value that it would get, and what that keeps away from the quiet
    /// CPUs. Below are what cannot be changed here and why, and what a reboot would add.
    Plan(QuietPlan),
    /// Make CPUs quiet until `cox quiet undo` or the next boot, for programs that are started later
    ///
    /// A program uses the quiet CPUs if it is put into their cpuset, which is printed: with version 2 of cgroups, write
    /// its process id to cgroup.procs there; with version 1, to tasks.
    Apply(QuietCpus),
    /// Measure what each level wins here, and what that costs a housekeeping CPU
    ///
    /// For each level in turns, cox makes the CPUs quiet, measures with the loop of cox noise what is stolen from a thread
    /// that computes there, and restores everything. A step without a significant difference is called so. With fewer
    /// than six rounds, no step can be significant.
    Measure(QuietMeasure),
    /// Show which CPUs are quiet, and which settings others have changed since
    Status,
    /// Restore what `cox quiet apply` has changed
    Undo {
        /// The session, as `cox quiet status` names it; not needed if there is one only
        #[arg(value_name = "SESSION")]
        session: Option<String>,
    },
}

/// Which CPUs, and how much to change.
#[derive(Clone, Debug, Args)]
pub struct QuietCpus {
    /// The quiet CPUs: 2-15. What stays on them because of that is shown by `cox quiet plan`
    #[arg(long, value_name = "LIST", conflicts_with = "ncpus", required_unless_present = "ncpus")]
    pub cpus: Option<CpuSet>,
    /// N quiet CPUs, which cox chooses: whole cores first, and those without interrupts that cannot be moved
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub ncpus: Option<usize>,
    /// How much to change, each with the ones before it: pin, cgroup, no-balance, irq, work, full, tickless
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    pub level: Level,
    /// Balance no load between the quiet CPUs either. For programs that pin their threads: else all threads stay on the
    /// CPU of the first one. One quiet CPU is always isolated
    #[arg(long)]
    pub isolated: bool,
}

impl QuietCpus {
    /// Returns the CPUs that the user wants.
    pub fn wanted(&self) -> CpuRequest {
        wanted(self.cpus.as_ref(), self.ncpus)
    }

    /// Returns how much is to be changed.
    pub fn extent(&self) -> Extent {
        Extent { level: self.level, isolated: self.isolated }
    }
}

/// The options of `cox quiet measure`.
#[derive(Clone, Debug, Args)]
pub struct QuietMeasure {
    /// The quiet CPUs: 2-15
    #[arg(long, value_name = "LIST", conflicts_with = "ncpus", required_unless_present = "ncpus")]
    pub cpus: Option<CpuSet>,
    /// N quiet CPUs, which cox chooses
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub ncpus: Option<usize>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Length of each measurement
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub length: Duration,
    /// Also forecast the slowdown of a bulk-synchronous program with N ranks
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub ranks: u64,
    /// That program's work between two synchronisations
    #[arg(long, value_name = "TIME", value_parser = short_time, default_value = "1ms")]
    pub work: Duration,
    /// Measure no housekeeping CPU beside
    #[arg(long)]
    pub alone: bool,
    /// Write all figures as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl QuietMeasure {
    /// Returns the CPUs that the user wants.
    pub fn wanted(&self) -> CpuRequest {
        wanted(self.cpus.as_ref(), self.ncpus)
    }
}

fn wanted(cpus: Option<&CpuSet>, ncpus: Option<usize>) -> CpuRequest {
    cpus.map_or(CpuRequest::Count(ncpus.unwrap_or_default()), |cpus| CpuRequest::Named(cpus.clone()))
}

/// The options of `cox quiet plan`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  cox quiet plan --ncpus 14\n  cox quiet plan --cpus 2-15 --level irq\n\nExit codes:\n  0    printed\n  2    wrong options, or these CPUs cannot become quiet\n  125  cox failed"
)]
pub struct QuietPlan {
    /// The CPUs, and how much to change.
    #[command(flatten)]
    pub which: QuietCpus,
    /// Write the plan as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
