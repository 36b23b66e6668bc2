//! The options of `cox noise`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use machine::CpuSet;

use super::cpus::at_least_one;
use super::forecast::Forecast;
use super::times::{duration, short_time};

/// Measure what a thread that computes loses on each CPU, and to what.
///
/// A thread on each CPU reads the clock in a loop. What takes the CPU from it for a moment, a detour, is a gap between
/// two readings. The kernel's events say what each detour was: the timer tick, a device, another CPU's interrupt and the
/// thread that sent it, a thread that ran instead. Nothing on the machine is changed. The causes need eBPF: root has it,
/// and the installed cox-observe has it for others, who see other users' threads as 'another user's'.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "cox noise [OPTIONS]\n       cox noise forecast FILE... --ranks N [OPTIONS]",
    after_help = "Example:\n  cox noise\n  cox noise --cpus 2-3 --for 60s --json noise.json\n  cox noise --loop fwq --quantum 1ms --html noise.html\n\n\
Exit codes:\n  0    measured\n  2    wrong options, or CPUs that cannot be measured\n  125  cox failed"
)]
pub struct Noise {
    /// A subcommand.
    #[command(subcommand)]
    pub what: Option<NoiseVerb>,
    /// The CPUs to measure: 0-3,8 (default: all that cox may use)
    #[arg(long, value_name = "LIST", conflicts_with = "ncpus")]
    pub cpus: Option<CpuSet>,
    /// Measure N CPUs, which cox chooses among those that it may use
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub ncpus: Option<usize>,
    /// Length of the measurement
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub length: Duration,
    /// What the threads do
    #[arg(long = "loop", value_enum, default_value_t)]
    pub measuring: LoopChoice,
    /// The work of a quantum, for fwq
    #[arg(long, value_enum, default_value_t)]
    pub work: WorkChoice,
    /// Length of a quantum or step, for fwq, ftq and bsp: 1ms, 500us
    #[arg(long, value_name = "TIME", value_parser = short_time, default_value = "1ms")]
    pub quantum: Duration,
    /// The shortest detour that counts: 500ns, 1us (default: eight times the smallest gap, at least 100ns)
    #[arg(long, value_name = "TIME", value_parser = short_time)]
    pub threshold: Option<Duration>,
    /// Let the scheduler choose the threads' CPUs
    #[arg(long)]
    pub unpinned: bool,
    /// How long the threads compute before the measurement
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub warm_up: Duration,
    /// Number of detours to list on each CPU; further ones are only counted
    #[arg(long, value_name = "N", value_parser = at_least_one, default_value = "1000000")]
    pub ring: usize,
    /// Leave out a tracepoint, as if this kernel did not have it (may be repeated)
    #[arg(long, value_name = "TRACEPOINT")]
    pub without: Vec<String>,
    /// Do not ask the kernel for causes
    #[arg(long)]
    pub no_causes: bool,
    /// Write all figures and detours as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the detours as slices over time, for Perfetto
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the detours as states over time, for Paraver: PREFIX.prv, .pcf, .row
    #[arg(long, value_name = "PREFIX")]
    pub paraver: Option<PathBuf>,
    /// Write the detours as an HdrHistogram interval log (.hlog) to FILE, with the CPU as tag
    #[arg(long, value_name = "FILE")]
    pub hlog: Option<PathBuf>,
    /// Write the detours as netgauge's noise trace, one FILE for each CPU: %c is the CPU
    #[arg(long, value_name = "FILE")]
    pub netgauge: Option<PathBuf>,
    /// Write a page with pictures to FILE: detours over time and by length, quanta, what ticks did
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print no text; there is none if a file goes to stdout ('-')
    #[arg(short, long)]
    pub quiet: bool,
}

/// What `cox noise` can do beside measuring.
#[derive(Clone, Debug, Subcommand)]
pub enum NoiseVerb {
    /// Forecast what noise costs a program on many ranks
    Forecast(Forecast),
}

/// What the measuring threads do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LoopChoice {
    /// Read the clock (selfish detour)
    #[default]
    Detour,
    /// Repeat the same work (fixed work quanta)
    Fwq,
    /// Count work in equal intervals (fixed time quanta)
    Ftq,
    /// Work, then wait for the other CPUs at a barrier
    Bsp,
}

/// The work of a quantum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WorkChoice {
    /// Integer multiplications, in registers
    #[default]
    Integer,
    /// Fused multiply-adds, in vector registers
    Fma,
    /// Reading and writing memory beyond the first-level cache
    Streaming,
}
