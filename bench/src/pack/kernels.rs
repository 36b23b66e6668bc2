//! Twelve benchmark kernels on fewer CPUs than threads, as in the table of the PALM paper (Park et al. 2021).
//!
//! Every kernel does the same work in five ways. With all threads: with taskset (the paper's TP), with the best fixed period (static best), by the
//! paper's own rules (palm), and with cox as it is (ours). With only as many threads as CPUs: fewer threads (TR).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use super::barriers::Wait;
use super::catalogue::Kernel;
use super::field::Field;
use super::job::{FIRST_LIMIT, Job, Sample, USUAL_S, With};
use super::judge::{self, Series};
use super::part::{Part, progress};
use super::ratio::Ratio;
use super::text;
use crate::rounds::in_turns;
use crate::stats::{Estimate, median};
use crate::verdict::Verdict;

/// Fixed scheduling periods that are tried, ms. The fastest one is the *static best*.
pub const PERIODS_MS: [f64; 6] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0];
/// Number of runs with each fixed scheduling period to find the fastest period.
const FIRST_PASS: usize = 2;
/// While the fastest fixed period is searched for, a run is ended when it takes this many times as long as the shortest run so far.
const HOPELESS: f64 = 3.0;
/// Time limit of a run, as a multiple of the benchmark kernel's time with as many threads as CPUs. [`LIMIT_OURS`] gives another limit; the longer one
/// applies.
const LIMIT_REDUCED: f64 = 20.0;
/// Time limit of a run, as a multiple of the benchmark kernel's time with cox. It is more than ten, so that a factor of ten can be measured.
const LIMIT_OURS: f64 = 12.0;
/// Target for kernels whose threads spin in the program's own loops: cox is this many times faster than taskset.
const MUCH_FASTER: f64 = 10.0;

/// The results of one benchmark kernel with one treatment.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The way to run the benchmark kernel (the treatment).
    pub with: With,
    /// Time of the parallel part, s.
    pub elapsed_s: Series,
    /// CPU time of the program and cox, s.
    pub cpu_s: Series,
    /// Elapsed time ÷ elapsed time with taskset, by round.
    pub to_taskset: Series,
    /// `elapsed time with as many threads as CPUs ÷ elapsed time with this treatment`, by round. 1 means that the CPUs are fully used.
    pub efficiency: Series,
    /// Number of runs that were ended at the time limit: their times are lower bounds.
    pub cut_short: usize,
    /// CPU time of cox, in percent of one CPU; median.
    pub controller_percent: Option<f64>,
    /// Number of times per second that a thread was moved to another CPU; median.
    pub moves_per_s: Option<f64>,
}

impl Row {
    /// Returns whether the median of the elapsed times is only a lower bound, because most runs were ended at the time limit.
    pub fn is_bound(&self) -> bool {
        self.cut_short * 2 > self.elapsed_s.values.len()
    }
}

/// The results of one benchmark kernel with all treatments.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Name of the benchmark kernel.
    pub kernel: &'static str,
    /// Number of threads and number of CPUs.
    pub ratio: Ratio,
    /// Amount of work: the value of `--steps`.
    pub steps: u64,
    /// Number of times in a run that all threads synchronised.
    pub phases: u64,
    /// The fixed scheduling period with which the benchmark kernel was fastest.
    pub static_best_ms: f64,
    /// One row per treatment.
    pub rows: Vec<Row>,
    #[serde(skip)]
    kind: &'static Kernel,
}

impl Table {
    /// Returns the row of a treatment, if it was measured.
    pub fn row(&self, with: With) -> Option<&Row> {
        self.rows.iter().find(|row| row.with == with)
    }

    /// Returns how many times as long the benchmark kernel takes in the way `with` (for example with taskset) as with only one thread per CPU. This
    /// is 1 ÷ the median efficiency. `None`: not measured.
    pub fn slowdown(&self, with: With) -> Option<f64> {
        Some(1.0 / self.row(with)?.efficiency.estimate.median)
    }

    /// Returns how the benchmark kernel's threads wait in the simulator; `None`: they synchronise only at the end of the run.
    pub fn wait(&self) -> Option<Wait> {
        self.kind.wait
    }

    fn name(&self) -> String {
        format!("{} {}", self.kernel, self.ratio)
    }

    fn verdict(&self) -> Option<Verdict> {
        let (ours, taskset) = (self.row(With::Ours)?, self.row(With::Taskset)?);
        if self.kind.spins_itself {
            let wins = taskset.elapsed_s.over(&ours.elapsed_s);
            let outcome = judge::median_at_least(&wins.estimate, MUCH_FASTER);
            let bound = if taskset.is_bound() { "at least " } else { "" };
            let text = format!(
                "{}: at least {MUCH_FASTER} times faster than taskset (measured: {bound}{} times)",
                self.name(),
                text::estimate(&wins.estimate)
            );
            return Some(Verdict { outcome, text });
        }
        let estimate = &ours.to_taskset.estimate;
        self.kind.wants_no_harm.then(|| Verdict {
            outcome: judge::no_worse(estimate),
            text: format!(
                "{}: at most 2 % slower than taskset (measured: {} times as long)",
                self.name(),
                text::estimate(estimate)
            ),
        })
    }
}

/// Measures one benchmark kernel at one ratio of threads to CPUs, in each of the ways `with`.
pub fn measure(field: &Field<'_>, job: &Job, with: &[With], rounds: usize) -> Result<Table> {
    let reduced = job.run_with(field, With::FewerThreads, 0.0, FIRST_LIMIT)?;
    let ours = job.run_with(field, With::Ours, 0.0, FIRST_LIMIT)?;
    let limit = Duration::from_secs_f64(
        (reduced.elapsed_s * LIMIT_REDUCED).max(ours.elapsed_s * LIMIT_OURS) + reduced.elapsed_s + 1.0,
    );
    let static_best_ms = if with.contains(&With::StaticBest) {
        let mut shortest_s = limit.as_secs_f64() / HOPELESS;
        let tried = in_turns(PERIODS_MS.len(), FIRST_PASS, |place| {
            let patience = Duration::from_secs_f64(shortest_s * HOPELESS);
            let sample = job.run_with(field, With::StaticBest, PERIODS_MS[place], patience)?;
            shortest_s = shortest_s.min(sample.elapsed_s);
            Ok(sample.elapsed_s)
        })?;
        best(&tried)
    } else {
        0.0
    };
    let samples =
        in_turns(with.len(), rounds, |treatment| job.run_with(field, with[treatment], static_best_ms, limit))?;
    let by_with: BTreeMap<With, Vec<Sample>> = with.iter().copied().zip(samples).collect();
    let all = || by_with.values().flatten().filter_map(|sample| sample.said.as_ref());
    let (Some(said), Some(expected)) = (all().next(), reduced.said.as_ref()) else {
        bail!("no run finished within its time limit");
    };
    if let Some(wrong) = all().find(|said| said.checksum != expected.checksum) {
        bail!("results differ: checksum {} instead of {}", wrong.checksum, expected.checksum);
    }
    Ok(Table {
        kernel: job.kernel.name,
        ratio: job.ratio,
        steps: job.steps,
        phases: said.phases,
        static_best_ms,
        rows: rows(&by_with),
        kind: job.kernel,
    })
}

/// Returns the fixed scheduling period with the shortest run, ms. `tried` has the times of the runs with each period.
fn best(tried: &[Vec<f64>]) -> f64 {
    let shortest = |runs: &[f64]| runs.iter().copied().fold(f64::INFINITY, f64::min);
    let by_time = |a: &usize, b: &usize| shortest(&tried[*a]).total_cmp(&shortest(&tried[*b]));
    (0..tried.len()).min_by(by_time).map_or(PERIODS_MS[0], |place| PERIODS_MS[place])
}

fn rows(samples: &BTreeMap<With, Vec<Sample>>) -> Vec<Row> {
    let series = |with: With| Series::of(samples.get(&with).into_iter().flatten().map(|s| s.elapsed_s).collect());
    let (taskset, reduced) = (series(With::Taskset), series(With::FewerThreads));
    let middle = |values: Vec<f64>| (!values.is_empty()).then(|| median(&values));
    let row = |(&with, samples): (&With, &Vec<Sample>)| {
        let elapsed_s = series(with);
        Row {
            with,
            to_taskset: elapsed_s.over(&taskset),
            efficiency: reduced.over(&elapsed_s),
            cpu_s: Series::of(samples.iter().map(|s| s.cpu_s).collect()),
            cut_short: samples.iter().filter(|s| s.cut_short).count(),
            controller_percent: middle(samples.iter().filter_map(|s| s.own_percent).collect()),
            moves_per_s: middle(samples.iter().filter_map(|s| Some(s.moves?.1)).collect()),
            elapsed_s,
        }
    };
    samples.iter().map(row).collect()
}

/// Returns the expected duration of the part `kernels` of the experiment, s.
pub fn expected_s(kernels: &[&Kernel], ratios: usize, rounds: usize, scale: f64) -> f64 {
    let each = |kernel: &Kernel| {
        let taskset = if kernel.spins_itself { LIMIT_REDUCED * 1.5 } else { 1.5 };
        let others = 1.0 + 3.0 * 1.7;
        let first = PERIODS_MS.len() as f64 * FIRST_PASS as f64 * 2.0 + 4.0;
        (rounds as f64 * (taskset + others) + first) * USUAL_S * scale + rounds as f64 * 5.0 * 0.3
    };
    kernels.iter().map(|kernel| each(kernel)).sum::<f64>() * ratios as f64
}

/// Measures and reports the part `kernels` of the experiment.
pub fn part(
    field: &Field<'_>,
    kernels: &[&'static Kernel],
    ratios: &[Ratio],
    rounds: usize,
) -> Result<(Part, Vec<Table>)> {
    let with = With::ALL;
    let (mut tables, mut verdicts) = (Vec::new(), Vec::new());
    let count = kernels.len() * ratios.len();
    for (place, (&ratio, &kernel)) in
        ratios.iter().flat_map(|ratio| kernels.iter().map(move |kernel| (ratio, kernel))).enumerate()
    {
        progress(&format!("kernels: {} {ratio}, {} of {count}", kernel.name, place + 1));
        let measured = Job::calibrated(field, kernel, ratio).and_then(|job| measure(field, &job, &with, rounds));
        match measured {
            Ok(table) => {
                verdicts.extend(table.verdict());
                tables.push(table);
            }
            Err(error) => {
                field.interrupt.check()?;
                verdicts.push(judge::not_measured(&format!("{} {ratio}", kernel.name), &format!("{error:#}")));
            }
        }
    }
    let notes = vec![
        format!(
            "all rows of a benchmark kernel do the same work (their checksums are compared); medians of {rounds} rounds, 95 % intervals"
        ),
        "efficiency: elapsed time with fewer threads / elapsed time of this row; with fewer threads, each thread has its own CPU \
         and never waits for it"
            .to_owned(),
        "CPU s: CPU time of the program and of cox, including start and end; time: elapsed time of the parallel part, measured by the benchmark kernel"
            .to_owned(),
        "'>' marks a lower bound, because runs were ended at the time limit".to_owned(),
    ];
    let part = Part::new(
        "kernels",
        "twelve benchmark kernels with more threads than CPUs (threads/CPUs), as in the PALM paper's table",
    )
    .with_table(printed(&tables))
    .with_lines(&tables)?
    .with_notes(notes)
    .with_verdicts(verdicts);
    Ok((part, tables))
}

fn printed(tables: &[Table]) -> String {
    let headings = ["kernel", "with", "time, s", "CPU s", "/ taskset", "efficiency", "cox CPU %", "moves/s"];
    let rows = tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let cells = rows.map(|(table, row)| {
        let with = match row.with {
            With::StaticBest => format!("{} {} ms", row.with.word(), table.static_best_ms),
            with => with.word().to_owned(),
        };
        let bound = |sign: &str, estimate: &Estimate| {
            format!("{}{}", if row.is_bound() { sign } else { "" }, text::estimate(estimate))
        };
        vec![
            table.name(),
            with,
            bound("> ", &row.elapsed_s.estimate),
            text::figure(row.cpu_s.estimate.median),
            text::figure(row.to_taskset.estimate.median),
            bound("< ", &row.efficiency.estimate),
            text::maybe(row.controller_percent),
            text::maybe(row.moves_per_s),
        ]
    });
    let headings_short = ["time / time with fewer threads", "taskset", "static best", "palm", "cox pack"];
    let short = tables.iter().map(|table| {
        let columns = [With::Taskset, With::StaticBest, With::Palm, With::Ours];
        let cell = |with: With| {
            let bound = table.row(with).is_some_and(Row::is_bound);
            format!("{}{}", if bound { "> " } else { "" }, text::maybe(table.slowdown(with)))
        };
        std::iter::once(table.name()).chain(columns.map(cell)).collect()
    });
    format!("{}\n\n{}", text::table(&headings, 2, cells.collect()), text::table(&headings_short, 1, short.collect()))
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::KERNELS;
    use super::*;

    fn sample(elapsed_s: f64, cut_short: bool) -> Sample {
        Sample { elapsed_s, cpu_s: 2.0, cut_short, own_percent: Some(3.0), moves: None, said: None }
    }

    fn table(kernel: &str, taskset_s: f64, cut_short: bool, ours_s: f64) -> Table {
        let kind = KERNELS.iter().find(|k| k.name == kernel).unwrap();
        let samples = BTreeMap::from([
            (With::Taskset, vec![sample(taskset_s, cut_short); 15]),
            (With::FewerThreads, vec![sample(1.0, false); 15]),
            (With::Ours, vec![sample(ours_s, false); 15]),
        ]);
        let ratio = Ratio { threads: 3, cpus: 2 };
        Table { kernel: kind.name, ratio, steps: 1, phases: 1, static_best_ms: 0.5, rows: rows(&samples), kind }
    }

    #[test]
    fn rows_are_compared_within_their_rounds() {
        let table = table("fft", 1.5, false, 1.25);
        let ours = table.row(With::Ours).unwrap();
        assert_eq!(ours.efficiency.estimate.median, 0.8);
        assert!((ours.to_taskset.estimate.median - 1.25 / 1.5).abs() < 1e-12);
        assert_eq!(table.slowdown(With::Ours), Some(1.25));
        assert_eq!(table.slowdown(With::Palm), None);
        assert_eq!(ours.controller_percent, Some(3.0));
        let text = printed(&[table]);
        assert!(text.contains("0.800 (0.800 .. 0.800)"), "{text}");
    }

    #[test]
    fn a_run_that_was_ended_is_a_bound() {
        let table = table("lu", 21.0, true, 2.0);
        assert!(table.row(With::Taskset).unwrap().is_bound());
        let verdict = table.verdict().unwrap();
        assert_eq!(verdict.outcome, crate::verdict::Outcome::Pass);
        assert!(verdict.text.contains("at least 10.5"), "{}", verdict.text);
        assert!(printed(&[table]).contains("> 21.0"));
    }

    #[test]
    fn each_kernel_has_its_criterion() {
        use crate::verdict::Outcome::{Fail, Pass};
        assert_eq!(table("lu", 9.0, false, 1.0).verdict().unwrap().outcome, Fail);
        assert_eq!(table("options", 1.0, false, 1.01).verdict().unwrap().outcome, Pass);
        assert_eq!(table("cg", 1.0, false, 1.1).verdict().unwrap().outcome, Fail);
        assert!(table("barnes", 1.0, false, 1.1).verdict().is_none());
    }

    #[test]
    fn the_shortest_of_all_runs_is_the_best() {
        assert_eq!(best(&[vec![2.0, 9.0], vec![3.0, 1.0], vec![2.5, 2.5]]), PERIODS_MS[1]);
    }
}
