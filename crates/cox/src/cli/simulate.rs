//! The command line of `cox pack simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Simulate `cox pack` on any number of CPUs, which may be unequal.
///
/// A simulated program, whose threads work and meet at barriers, runs on simulated CPUs: under a scheduler
/// like the kernel's, and under the same code that packs real programs. The times are simulated, not
/// measured: caches show only as the cost of a migration, and there are no interrupts or other programs.
#[derive(Debug, Args)]
#[command(
    override_usage = "cox pack simulate --threads N --ncpus N [OPTIONS]\n       cox pack simulate --threads N --fast N --slow N [OPTIONS]",
    after_help = "Example:\n  cox pack simulate --threads 16 --ncpus 15 --work-us 10000\n  \
cox pack simulate --threads 16 --fast 7 --slow 8 --slow-capacity 512 --wait spin-futex\n\n\
Exit codes:\n  0    simulated\n  2    wrong options\n  125  the JSON cannot be written"
)]
pub struct Simulate {
    /// Number of threads of the program
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: usize,
    /// Number of equal CPUs
    #[arg(long, value_name = "N", value_parser = cpus, required_unless_present_any = ["fast", "slow"], conflicts_with_all = ["fast", "slow"])]
    pub ncpus: Option<usize>,
    /// Number of CPUs of full capacity
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub fast: Option<usize>,
    /// Number of CPUs of less capacity
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub slow: Option<usize>,
    /// Capacity of a slow CPU; a fast one has 1024
    #[arg(long, value_name = "CAPACITY", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub slow_capacity: u64,
    /// CPU time of each thread between two barriers, µs on a fast CPU
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub work_us: u64,
    /// Largest random difference from --work-us, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub spread: u8,
    /// Number of barriers; default: as many as make 3 s of work per thread, at least 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub phases: Option<u64>,
    /// How threads wait at a barrier
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub wait: Waiting,
    /// Time that spin-futex spins before it sleeps, µs
    #[arg(long, value_name = "US", default_value_t = 350, value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub spin_us: u64,
    /// Cost of a context switch, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub switch_us: Option<u64>,
    /// Cost of a migration, which the migrated thread pays, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub move_us: Option<u64>,
    /// Cost of waking a thread, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub wake_us: Option<u64>,
    /// Cost of a tick of cox pack's controller (timer, two context switches, decision), µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub tick_us: Option<u64>,
    /// Cost of changing the affinity of one thread, which the controller pays, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub order_us: Option<u64>,
    /// cox pack: use this scheduling period (50us, 0.5ms) instead of searching for the best one
    #[arg(long, value_name = "TIME", value_parser = super::times::period)]
    pub period: Option<Duration>,
    /// cox pack: pack even if packing gains nothing
    #[arg(long)]
    pub always: bool,
    /// Seed of the random numbers; the same seed gives the same run
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Write the result as JSON to FILE ('-': stdout, and no text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How simulated threads wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Waiting {
    /// Threads wait in a loop (they spin)
    #[default]
    Spin,
    /// Threads wait in a loop of sched_yield(2)
    Yield,
    /// Threads sleep on a futex
    Futex,
    /// Threads spin for --spin-us, then sleep
    SpinFutex,
    /// Threads do not wait before the end of the run, where they meet
    None,
}

/// Upper limits; a larger simulation would take too long.
const MOST_THREADS: usize = 8192;
const MOST_CPUS: usize = 4096;

fn threads(text: &str) -> Result<usize, String> {
    within(text, MOST_THREADS)
}

fn cpus(text: &str) -> Result<usize, String> {
    within(text, MOST_CPUS)
}

fn within(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("must be a whole number from 1 to {most}"))
}

/// Parses a time in µs, which may have a fraction, and returns ns.
fn cost_ns(text: &str) -> Result<u64, String> {
    let us: Option<f64> = text.parse().ok().filter(|us| (0.0..=1e6).contains(us));
    us.map(|us| (us * 1e3).round() as u64).ok_or_else(|| "must be a number of µs, from 0 to 1000000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_microseconds() {
        assert_eq!((cost_ns("2.5"), cost_ns("0")), (Ok(2500), Ok(0)));
        for bad in ["", "-1", "1us", "nan", "inf", "1e9"] {
            assert!(cost_ns(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_limits() {
        assert_eq!(threads("8192"), Ok(8192));
        assert!(threads("8193").is_err() && threads("0").is_err() && cpus("4097").is_err());
    }
}
