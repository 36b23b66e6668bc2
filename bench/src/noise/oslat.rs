//! Rates of detours above 10 µs and above 5 µs, by cox's loop and by oslat's, in turns. Two runs of oslat in each round show how much two runs of
//! the same program differ. cyclictest has its turn too, for comparison: it measures how late a real-time thread wakes, not what a thread loses.

use std::process::Command;

use anyhow::{Context, Result};
use compare::stats::{CONFIDENCE, quantile, sorted};
use random::Random;
use serde_json::Value;

use super::field::Field;
use super::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::median;
use crate::tools::in_path;
use crate::verdict::Outcome;

/// The smallest number of rounds that decides.
pub const LEAST: u16 = 15;
/// Length of each run, s.
const SECONDS: u64 = 3;
/// The thresholds, µs.
const ABOVE_US: [u64; 2] = [10, 5];
/// Difference from 1 that is allowed, as a multiple of what oslat against oslat typically shows.
const ALLOWED: f64 = 1.5;
/// Number of exchanges of oslat's runs.
const EXCHANGES: usize = 4_000;

pub fn oslat(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if in_path("oslat").is_none() {
        found.judge(Outcome::NotMeasured, "oslat is not installed (Debian: rt-tests)");
        return Ok(found);
    }
    let has_cyclictest = in_path("cyclictest").is_some();
    let measured = in_turns(3 + usize::from(has_cyclictest), runs.into(), |at| match at {
        0 => ours(field),
        1 | 2 => theirs(field),
        _ => wake_ups(field),
    })?;
    if let Some(rounds) = measured.get(3) {
        let [median_us, late_us] = [0, 1].map(|at| median(&rounds.iter().map(|round| round[at]).collect::<Vec<f64>>()));
        found.line(format!("cyclictest: half of the wake-ups take up to {median_us} us, 99 % up to {late_us} us"));
    }
    for (at, above) in ABOVE_US.iter().enumerate() {
        let rates: Vec<Vec<f64>> =
            measured[..3].iter().map(|side| side.iter().map(|rates| rates[at]).collect()).collect();
        let [ours, first, second] = [0, 1, 2].map(|side: usize| median(&rates[side]));
        let both: Vec<f64> = rates[1].iter().chain(&rates[2]).copied().collect();
        let ratio = ours / median(&both);
        found.line(format!("above {above} us, each round, ours | oslat | oslat per s: {}", listed(&rates)));
        let own = Differences::between(&rates[1], &rates[2]);
        found.judge(
            own.judge((ratio - 1.0).abs()),
            format!(
                "above {above} us: {ours:.1}/s by cox, {:.1}/s by oslat: ratio {ratio:.3}; oslat against oslat {:.3}, typically {:.3} from 1, in 95 % at most {:.3} ({runs} rounds)",
                median(&both),
                first / second,
                own.typical,
                own.most
            ),
        );
    }
    Ok(found)
}

/// How far from 1 the ratio of the medians of two series of the same program is.
///
/// The one ratio that was measured can be near 1 by chance. Which of a round's two runs belongs to which series is arbitrary, so every exchange of
/// runs within rounds is as good a pair of series. The exchanges show how far apart two such series are.
struct Differences {
    /// Half of the exchanges are nearer to 1.
    typical: f64,
    /// 95 % are nearer.
    most: f64,
}

impl Differences {
    fn between(first: &[f64], second: &[f64]) -> Differences {
        let mut random = Random::new(first.len() as u64);
        let mut exchanged = || {
            let rounds = first.iter().zip(second);
            let (a, b): (Vec<f64>, Vec<f64>) =
                rounds.map(|(a, b)| if random.below(2) == 0 { (*a, *b) } else { (*b, *a) }).unzip();
            (median(&a) / median(&b) - 1.0).abs()
        };
        let all = sorted(&(0..EXCHANGES).map(|_| exchanged()).collect::<Vec<f64>>());
        Differences { typical: quantile(&all, 0.5), most: quantile(&all, CONFIDENCE) }
    }

    /// Judges the distance from 1 of the ratio of another program and this one. Beyond the limit, but no further than this program is from itself, the
    /// distance decides nothing.
    fn judge(&self, distance: f64) -> Outcome {
        match distance {
            near if near <= ALLOWED * self.typical => Outcome::Pass,
            within if within <= self.most => Outcome::Undecided,
            _ => Outcome::Fail,
        }
    }
}

fn listed(rates: &[Vec<f64>]) -> String {
    let round = |at: usize| rates.iter().map(|side| format!("{:.0}", side[at])).collect::<Vec<_>>().join("|");
    (0..rates[0].len()).map(round).collect::<Vec<_>>().join(" ")
}

fn ours(field: &Field<'_>) -> Result<[f64; 2]> {
    let options = ["--cpus", &field.cpu.to_string(), "--for", &format!("{SECONDS}s"), "--no-causes"];
    let report = field.noise(&options)?;
    let cpu = &report.cpus[0];
    let seconds = cpu.length_ns as f64 / 1e9;
    Ok(ABOVE_US
        .map(|above| cpu.detours.iter().filter(|(_, length, _)| *length > above * 1000).count() as f64 / seconds))
}

fn theirs(field: &Field<'_>) -> Result<[f64; 2]> {
    let counts = histogram(field, "oslat", &["--cpu-list", &field.cpu.to_string(), "--quiet", "--bucket-size", "64"])?;
    // Bucket n has the gaps above n - 1 and up to n us.
    let above = |least| counts.iter().filter(|(us, _)| *us > least).map(|(_, count)| count).sum::<u64>();
    Ok(ABOVE_US.map(|us| above(us) as f64 / SECONDS as f64))
}

/// Returns within how many µs half of cyclictest's wake-ups came, and 99 % of them.
fn wake_ups(field: &Field<'_>) -> Result<[f64; 2]> {
    let cpu = field.cpu.to_string();
    let options =
        ["--affinity", &cpu, "--threads=1", "--priority=80", "--interval=1000", "--mlockall", "--quiet", "-h", "2000"];
    let counts = histogram(field, "cyclictest", &options)?;
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    Ok([50, 99].map(|percent| {
        let mut counted = 0;
        let reached = counts.iter().find(|(_, count)| {
            counted += count;
            counted * 100 >= all * percent
        });
        reached.map_or(0.0, |(us, _)| *us as f64)
    }))
}

/// Runs a program of rt-tests. Returns the counts of its histogram by µs, ascending.
fn histogram(field: &Field<'_>, program: &str, options: &[&str]) -> Result<Vec<(u64, u64)>> {
    let json = field.file("rt-tests.json");
    let mut command = Command::new(program);
    command.args(options).arg(format!("--duration={SECONDS}s")).arg(format!("--json={}", json.display()));
    field.done(&mut command)?;
    let text = std::fs::read_to_string(&json).with_context(|| format!("{program} wrote no JSON"))?;
    let report: Value = serde_json::from_str(&text).with_context(|| format!("{program}'s JSON"))?;
    let histogram = report["thread"]["0"]["histogram"].as_object();
    let histogram = histogram.with_context(|| format!("{program}'s JSON has no histogram: {report}"))?;
    let count = |(us, count): (&String, &Value)| Some((us.parse().ok()?, count.as_u64()?));
    let mut counts: Vec<(u64, u64)> = histogram.iter().filter_map(count).collect();
    counts.sort_unstable();
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both series have the same median, by chance; exchanged runs have not.
    #[test]
    fn a_program_is_compared_with_itself_by_all_exchanges() {
        let first = [100.0, 104.0, 96.0, 103.0, 98.0];
        let second = [95.0, 100.0, 106.0, 99.0, 102.0];
        let own = Differences::between(&first, &second);
        assert!(own.typical > 0.01 && own.typical < own.most && own.most < 0.1, "{} {}", own.typical, own.most);
        assert_eq!(own.judge(own.typical), Outcome::Pass);
        let between = Differences { typical: 0.01, most: 0.04 };
        assert_eq!(between.judge(0.03), Outcome::Undecided);
        assert_eq!(own.judge(0.2), Outcome::Fail);
    }

    #[test]
    fn a_program_that_always_shows_the_same_leaves_no_room() {
        let own = Differences::between(&[100.0; 15], &[100.0; 15]);
        assert_eq!((own.typical, own.most, own.judge(0.001)), (0.0, 0.0, Outcome::Fail));
    }
}
