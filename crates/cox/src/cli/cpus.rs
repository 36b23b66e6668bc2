//! The options that choose the CPUs on which a program is packed.

use clap::Args;
use machine::CpuSet;

/// Which CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Cpus {
    /// The CPUs: 0-3,8
    #[arg(long, value_name = "LIST", conflicts_with = "ncpus", required_unless_present = "ncpus")]
    pub cpus: Option<CpuSet>,
    /// N CPUs, which cox chooses among those that the program may use: CPUs that share a cache, whole cores first
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub ncpus: Option<usize>,
}

/// Parses a number of CPUs.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "must be a whole number, at least 1".to_owned())
}
