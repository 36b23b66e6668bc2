//! The options of `cox ulp`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use machine::CpuSet;

use super::cpus::at_least_one;

/// Run N copies of a program as user-level processes (ULPs): processes of their own, in one address space.
///
/// Each copy has its own code, data, heap, libraries and libc, and its own pid, file descriptors, working directory,
/// signals and children. Only the address space is shared. The program needs no change, and cox no privilege. The
/// program must be position-independent (PIE), which is the default of compilers on Linux.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "cox ulp -n N [OPTIONS] -- PROGRAM [ARGS]...\n       cox ulp --mpmd FILE [OPTIONS]\n       cox ulp ps",
    after_help = "Example:\n  cox ulp -n 64 -- ./app input\n  cox ulp -n 16 --env-rank RANK -- sh -c 'echo I am $RANK'\n  cox ulp --mpmd FILE     (a line of FILE: 3 ./app input)\n\n\
Exit codes:\n  N      the exit code of the first ULP, by number, that did not exit with 0\n  128+N  signal N ended that ULP\n  \
125    cox failed before the program ran, or not all ULPs could be started\n  126    the program cannot be executed as a ULP\n  \
127    the program was not found"
)]
pub struct Ulp {
    /// A subcommand.
    #[command(subcommand)]
    pub what: Option<UlpVerb>,
    /// Number of ULPs
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..), required_unless_present = "mpmd")]
    pub count: Option<u32>,
    /// Run several programs: each line of FILE is a number of copies, a program and its arguments
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "program"])]
    pub mpmd: Option<PathBuf>,
    /// The CPUs of all ULPs: 0-3,8 (default: those that cox may use)
    #[arg(long, value_name = "LIST", conflicts_with = "ncpus")]
    pub cpus: Option<CpuSet>,
    /// N CPUs, which cox chooses among those that it may use: CPUs that share a cache, whole cores first
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub ncpus: Option<usize>,
    /// Environment variable that contains the number of a ULP, from 0 on
    #[arg(long, value_name = "NAME", value_parser = variable)]
    pub env_rank: Option<String>,
    /// Print the number of the ULP before each line of its outputs, which are pipes then
    #[arg(long)]
    pub prefix_output: bool,
    /// Keep each ULP on its own kernel task: yields cost as much as between processes
    #[arg(long)]
    pub coupled: bool,
    /// Print each system call of a ULP on a carrier, and whether it has sent the ULP home
    #[arg(long, conflicts_with = "coupled")]
    pub strace: bool,
    /// Print the functions in which a ULP crashed, and their callers
    #[arg(long)]
    pub backtrace: bool,
    /// Print where the ULPs ran (on carriers, or coupled) and why they left carriers, and what all of them needed
    #[arg(long, conflicts_with = "quiet")]
    pub stats: bool,
    /// Write how the ULPs ended, and all that --stats prints, as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print no summary
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "mpmd")]
    pub program: Vec<OsString>,
}

/// What `cox ulp` can do beside running ULPs.
#[derive(Debug, Subcommand)]
pub enum UlpVerb {
    /// List the ULPs that run: number, pid, state, CPU time and name
    Ps,
}

/// Parses the name of an environment variable.
fn variable(text: &str) -> Result<String, String> {
    let is_valid = !text.is_empty() && !text.contains(['=', '\0']);
    if is_valid { Ok(text.to_owned()) } else { Err("not the name of an environment variable".to_owned()) }
}
