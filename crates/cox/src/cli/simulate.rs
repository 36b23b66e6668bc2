//! The command line of `cox pack simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Try `cox pack` on a machine in memory: any number of CPUs, also of unequal ones.
///
/// A simulated program of threads that work and meet at barriers runs on simulated CPUs, under a scheduler
/// like the kernel's and under the very code that packs live programs. What is printed is simulated, not
/// measured: no caches but the cost of a move, no interrupts, no other programs.
#[derive(Debug, Args)]
#[command(
    override_usage = "cox pack simulate --threads N --ncpus N [OPTIONS]\n       cox pack simulate --threads N --fast N --slow N [OPTIONS]",
    after_help = "Example:\n  cox pack simulate --threads 16 --ncpus 15 --work-us 10000\n  \
cox pack simulate --threads 16 --fast 7 --slow 8 --slow-capacity 512 --wait spin-futex\n\n\
Exit codes: 0 simulated; 2 wrong options; 125 the JSON could not be written."
)]
pub struct Simulate {
    /// Threads of the program
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: usize,
    /// Equal CPUs
    #[arg(long, value_name = "N", value_parser = cpus, required_unless_present_any = ["fast", "slow"], conflicts_with_all = ["fast", "slow"])]
    pub ncpus: Option<usize>,
    /// CPUs of full capacity
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub fast: Option<usize>,
    /// CPUs of less capacity
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub slow: Option<usize>,
    /// What a slow CPU does in the time in which a fast one does 1024
    #[arg(long, value_name = "CAPACITY", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub slow_capacity: u64,
    /// CPU work of each thread between two barriers, µs of a fast CPU
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub work_us: u64,
    /// How far the work of a thread in a phase may be from that, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub spread: u8,
    /// Barriers; without it as many as make 3 s of work for each thread, at least 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub phases: Option<u64>,
    /// How threads wait at a barrier
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub wait: Waiting,
    /// How long spin-futex spins before it sleeps, µs
    #[arg(long, value_name = "US", default_value_t = 350, value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub spin_us: u64,
    /// What it costs to switch from one thread to another, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub switch_us: Option<u64>,
    /// What it costs a thread to come to another CPU, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub move_us: Option<u64>,
    /// What it costs to wake a thread, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub wake_us: Option<u64>,
    /// What a tick of the controller costs, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub tick_us: Option<u64>,
    /// What changing one thread's affinity costs the controller, µs
    #[arg(long, value_name = "US", value_parser = cost_ns)]
    pub order_us: Option<u64>,
    /// cox pack: always use turns of this length (50us, 0.5ms) instead of searching for the best
    #[arg(long, value_name = "TIME", value_parser = super::period)]
    pub period: Option<Duration>,
    /// cox pack: take turns whatever they give
    #[arg(long)]
    pub always: bool,
    /// The same seed gives the same run
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Write the result as JSON to FILE ('-': stdout, and no text)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How simulated threads wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Waiting {
    /// In a loop.
    #[default]
    Spin,
    /// By sched_yield(2) in a loop.
    Yield,
    /// Asleep.
    Futex,
    /// In a loop for a while (--spin-us), then asleep.
    SpinFutex,
    /// Not at all: they meet at the end only.
    None,
}

/// Beyond these a simulation would take longer than anybody waits.
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
    number.ok_or_else(|| format!("a whole number from 1 to {most} is wanted"))
}

/// µs with a fraction, as ns.
fn cost_ns(text: &str) -> Result<u64, String> {
    let us: Option<f64> = text.parse().ok().filter(|us| (0.0..=1e6).contains(us));
    us.map(|us| (us * 1e3).round() as u64).ok_or_else(|| "µs, from 0 to 1000000, are wanted".to_owned())
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
