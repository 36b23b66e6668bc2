//! The options of `cox quiet`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use machine::CpuSet;
use quiet::Level;

use super::cpus::at_least_one;

/// Give a program CPUs on which nothing else runs.
#[derive(Clone, Debug, Subcommand)]
pub enum Quiet {
    /// Show what would be changed, and what cannot be; changes nothing
    ///
    /// Each line has a setting, its present value, the value that it would get, and what that keeps away from the quiet
    /// CPUs. Below are what cannot be changed here and why, and what a reboot would add.
    Plan(QuietPlan),
}

/// Which CPUs, and how much to change.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  cox quiet plan --ncpus 14\n  cox quiet plan --cpus 2-15 --level irq\n\nExit codes:\n  0    printed\n  2    wrong options, or these CPUs cannot become quiet\n  125  cox failed"
)]
pub struct QuietPlan {
    /// The quiet CPUs: 2-15. What stays on them because of that is shown
    #[arg(long, value_name = "LIST", conflicts_with = "ncpus", required_unless_present = "ncpus")]
    pub cpus: Option<CpuSet>,
    /// N quiet CPUs, which cox chooses: whole cores first, and those without interrupts that cannot be moved
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub ncpus: Option<usize>,
    /// How much to change, each with the ones before it: pin, cgroup, no-balance, irq, work, full; tickless says whether
    /// the tick can stop
    #[arg(long, value_name = "LEVEL", default_value = "full")]
    pub level: Level,
    /// Write the plan as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
