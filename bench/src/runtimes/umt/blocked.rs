//! Programs whose tasks are blocked most of the time: our runtime compared with libgomp. For libgomp, the best number of threads counts, which a user
//! would have to find *by hand* (by trying several numbers). The measured time begins before the first parallel region and ends after the last one,
//! so it includes the start of the runtime.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::super::way::Way;
use super::super::{Field, Line};
use super::table::Runs;
use crate::rounds::in_turns;
use crate::stats::{Estimate, median, median_estimate};

/// Largest number of threads with which libgomp is run.
const MOST_THREADS: u32 = 64;
/// Numbers of threads per CPU with which libgomp is run, to find the best one.
const BY_HAND: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Number of calibration runs, which find the amount of work that takes 1 us; the fastest one counts.
const CALIBRATIONS: usize = 3;

/// One program to measure: `workloads/blocked` with certain arguments.
struct Case {
    name: &'static str,
    arguments: &'static str,
}

const CASES: [Case; 5] = [
    Case { name: "pipeline", arguments: "--kind pipeline --items 4000 --sleep-us 1500 --work-us 400" },
    Case { name: "sleepers", arguments: "--kind sleepers --items 4000 --sleep-us 1000 --work-us 400" },
    Case { name: "fifos", arguments: "--kind fifos --items 1280 --work-us 300 --pace-us 2400" },
    Case { name: "compress", arguments: "--kind compress --items 2400" },
    Case { name: "short", arguments: "--kind sleepers --items 600 --sleep-us 1500 --work-us 500" },
];

/// The times of one program, run with every runtime and its settings.
#[derive(Debug, Serialize)]
pub struct Blocked {
    name: &'static str,
    by_way: Vec<Runs>,
}

/// Returns the settings with which libgomp is run on a machine with `cpus` CPUs: one for each number of threads per CPU that is tried.
fn by_hand(cpus: u32) -> impl Iterator<Item = Way> {
    BY_HAND.into_iter().filter(move |times| *times == 1 || times * cpus <= MOST_THREADS).map(Way::Gomp)
}

/// Measures all programs. `print` gets each line as soon as it is measured.
pub fn measure(field: &Field<'_>, ours: &[Way], runs: u16, print: impl Fn(&str) -> Result<()>) -> Result<Vec<Blocked>> {
    let ways: Vec<Way> = by_hand(field.cpus()).chain(ours.iter().copied()).collect();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let mut iterations_per_us = 0.0f64;
    for _ in 0..CALIBRATIONS {
        let truths = field.run(Way::Gomp(1), &Line::new("blocked", words("--items 16")))?;
        iterations_per_us = iterations_per_us.max(truths.most("iterations_per_us")?);
    }
    print(&heading(runs, field.cpus(), ours))?;
    let mut all = Vec::new();
    for case in &CASES {
        let mut arguments = words(case.arguments);
        arguments.extend(["--iterations-per-us".to_owned(), iterations_per_us.to_string()]);
        arguments.extend(["--folder".to_owned(), field.scratch.path().display().to_string()]);
        let line = Line::new("blocked", arguments);
        let measured = in_turns(ways.len(), runs.into(), |at| {
            let truths = field.run(ways[at], &line)?;
            Ok((truths.most("elapsed_ns")? / 1e9, truths.sum("cpu_ns")? / 1e9))
        })?;
        let by_way = ways.iter().zip(measured).map(|(way, runs)| {
            let (seconds, cpu_s) = runs.into_iter().unzip();
            Runs { way: *way, seconds, cpu_s }
        });
        let blocked = Blocked { name: case.name, by_way: by_way.collect() };
        print(&blocked.line(field.cpus(), ours))?;
        all.push(blocked);
    }
    Ok(all)
}

const NAME: usize = 10;
const NUMBER: usize = 8;
const RATIO: usize = 22;

fn heading(runs: u16, cpus: u32, ours: &[Way]) -> String {
    let mut text = format!(
        "programs that are mostly blocked: seconds with libgomp, by number of threads; speed-up of cox over the best of these, medians of {runs} rounds (95 %)\n{:NAME$}",
        ""
    );
    by_hand(cpus).for_each(|way| write!(text, "{:>NUMBER$}", way.threads_by_cpu() * cpus).unwrap_or_default());
    ours.iter().for_each(|way| write!(text, "{:>RATIO$}", way.name()).unwrap_or_default());
    text
}

impl Blocked {
    fn of(&self, way: Way) -> Option<&Runs> {
        self.by_way.iter().find(|runs| runs.way == way)
    }

    /// Returns libgomp's runs with the number of threads whose median time is shortest.
    fn best(&self) -> Option<&Runs> {
        let by_hand = self.by_way.iter().filter(|runs| matches!(runs.way, Way::Gomp(_)));
        by_hand.min_by(|a, b| median(&a.seconds).total_cmp(&median(&b.seconds)))
    }

    /// Returns the speed-up over libgomp with the best number of threads: the median of the ratios of two runs of the same round.
    fn speed(&self, way: Way) -> Option<Estimate> {
        let (best, ours) = self.best().zip(self.of(way))?;
        let pairs = best.seconds.iter().zip(&ours.seconds);
        Some(median_estimate(&pairs.map(|(best, ours)| best / ours).collect::<Vec<_>>()))
    }

    fn line(&self, cpus: u32, ours: &[Way]) -> String {
        let mut text = format!("{:NAME$}", self.name);
        for way in by_hand(cpus) {
            let seconds = self.of(way).map_or(f64::NAN, |runs| median(&runs.seconds));
            write!(text, "{seconds:>NUMBER$.3}").unwrap_or_default();
        }
        for way in ours {
            let cell = match self.speed(*way) {
                Some(Estimate { median, interval: Some((low, high)) }) => format!("{median:.2}x ({low:.2}–{high:.2})"),
                Some(Estimate { median, interval: None }) => format!("{median:.2}x"),
                None => "–".to_owned(),
            };
            write!(text, "{cell:>RATIO$}").unwrap_or_default();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(way: Way, seconds: &[f64]) -> Runs {
        Runs { way, seconds: seconds.to_vec(), cpu_s: Vec::new() }
    }

    #[test]
    fn at_most_64_threads_are_tried_and_always_one_for_each_cpu() {
        let threads = |cpus| by_hand(cpus).map(|way| way.threads_by_cpu() * cpus).collect::<Vec<_>>();
        assert_eq!(threads(2), [2, 4, 8, 16, 32, 64]);
        assert_eq!(threads(24), [24, 48]);
        assert_eq!(threads(128), [128]);
    }

    #[test]
    fn speed_is_by_the_best_number_of_threads_and_by_pairs() {
        // The machine is twice as slow from the fourth round on.
        let seconds = |s: f64| [s, s, s, 2.0 * s, 2.0 * s, 2.0 * s];
        let by_way = vec![
            runs(Way::Gomp(1), &seconds(3.0)),
            runs(Way::Gomp(8), &seconds(0.9)),
            runs(Way::Gomp(16), &seconds(1.1)),
            runs(Way::Bpf, &seconds(1.0)),
        ];
        let blocked = Blocked { name: "pipeline", by_way };
        assert_eq!(blocked.best().unwrap().way, Way::Gomp(8));
        let text = blocked.line(2, &[Way::Bpf, Way::Perf]);
        assert!(text.contains("0.90x (0.90–0.90)"), "{text}");
        assert!(text.ends_with('–'), "a way that was not measured: {text}");
        assert_eq!(heading(6, 2, &[Way::Bpf, Way::Perf]).lines().last().unwrap().chars().count(), text.chars().count());
    }
}
