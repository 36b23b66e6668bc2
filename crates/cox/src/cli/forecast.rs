//! The options of `cox noise forecast`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::times::short_time;

/// Forecast what noise costs a program on many ranks.
///
/// A program that synchronises its ranks after each piece of work waits for the rank that was interrupted longest. From
/// recordings of `cox noise --json` (or netgauge's noise traces), cox computes how much longer such a program takes, for
/// pieces of work from 10us to 1s, which cause costs most, and from recordings with different numbers of CPUs left to the
/// system (cox noise --cpus), how many to leave.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  cox noise --json a.json && cox noise forecast a.json --ranks 1000,100000\n  cox noise forecast all.json without-cpu0.json --ranks 4096 --work 1ms --sync 20us\n  cox run --noise --json run.json -- ./app && cox noise forecast a.json --ranks 4096 --phases-of run.json\n\n\
Exit codes:\n  0    done\n  2    wrong options\n  125  a file is not a recording, or cox failed"
)]
pub struct Forecast {
    /// Recordings: JSON of cox noise, or a noise trace of netgauge. The forecast is from the first one; the others say how many CPUs to leave
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Numbers of ranks of the program: 1000,100000
    #[arg(long, value_name = "N,...", value_delimiter = ',', required = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub ranks: Vec<u64>,
    /// Ranks of a node, at most the number of measured CPUs (default: that number)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks_per_node: Option<u32>,
    /// The program's work between two synchronisations: 1ms,10ms (default: 20 values from 10us to 1s)
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = short_time)]
    pub work: Vec<Duration>,
    /// Take the work from the phases of a program: JSON of cox run --noise (lengths that 10, 50 and 90 % of its phases do not exceed)
    #[arg(long, value_name = "FILE", conflicts_with = "work")]
    pub phases_of: Option<PathBuf>,
    /// What a synchronisation costs without noise
    #[arg(long, value_name = "TIME", value_parser = short_time, default_value = "0us")]
    pub sync: Duration,
    /// Seed of the random numbers: the same seed gives the same answer
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write all figures as JSON to FILE ('-': stdout)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print no text; there is none if a file goes to stdout ('-')
    #[arg(short, long)]
    pub quiet: bool,
}
