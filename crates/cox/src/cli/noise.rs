//! The options of `cox noise`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use machine::CpuSet;

use super::cpus::at_least_one;
use super::duration;

/// Measure what a thread that computes loses on each CPU, and to what.
///
/// A thread on each CPU reads the clock in a loop. What takes the CPU from it for a moment, a detour, is a gap between
/// two readings. The kernel's events say what each detour was: the timer tick, a device, another CPU's interrupt and the
/// thread that sent it, a thread that ran instead. Nothing on the machine is changed. The causes need root.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  cox noise\n  cox noise --cpus 2-3 --for 60s --json noise.json\n  cox noise --loop fwq --quantum 1ms --html noise.html\n\n\
Exit codes:\n  0    measured\n  2    wrong options, or CPUs that cannot be measured\n  125  cox failed"
)]
pub struct Noise {
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
    /// Write a page with pictures to FILE: detours over time and by length, quanta, what ticks did
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print no text
    #[arg(short, long)]
    pub quiet: bool,
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

/// Parses a time that may be short: `100ns`, `500us`, or as [`duration`]. It may be 0, which the plan refuses with the reason.
fn short_time(text: &str) -> Result<Duration, String> {
    let short = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6)];
    if let Some((number, scale)) = short.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale))) {
        let number: f64 = number.parse().map_err(|_| "not a number; use the form 500ns, 10us or 1ms".to_owned())?;
        return Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string());
    }
    if text.trim_end_matches(char::is_alphabetic).parse() == Ok(0.0) {
        return Ok(Duration::ZERO);
    }
    duration(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times() {
        assert_eq!(short_time("100ns"), Ok(Duration::from_nanos(100)));
        assert_eq!(short_time("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(short_time("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(short_time("0ms"), Ok(Duration::ZERO));
        for bad in ["", "ns", "-1us", "5 parsecs"] {
            assert!(short_time(bad).is_err(), "{bad}");
        }
    }
}
