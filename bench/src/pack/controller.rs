//! Measures the CPU time of cox itself while it packs a program with 5 ms or more of work between two barriers.

use anyhow::Result;
use serde::Serialize;

use super::barriers::{Line, Target, Wait, run_once};
use super::field::{Confined, Field};
use super::judge::{self, Series};
use super::part::{Part, progress};
use super::ratio::Ratio;
use super::text;
use crate::rounds::in_turns;
use crate::verdict::Verdict;

const PHASES_US: [u64; 4] = [5_000, 10_000, 20_000, 50_000];
/// Largest permitted CPU time of cox, in percent of one CPU.
const LIMIT_PERCENT: f64 = 5.0;

#[derive(Debug, Serialize)]
struct Row {
    ratio: Ratio,
    wait: Wait,
    phase_us: u64,
    /// CPU time of cox, in percent of one CPU.
    controller_percent: Series,
    /// Elapsed time ÷ ideal time, which is computed from the speed of one CPU.
    slowdown: Series,
}

fn lines(ratio: Ratio) -> Vec<Line> {
    let line = |wait, phase_us| Line { ratio, wait, phase_us, target: Target::NoWorse, taskset_then: 0.0 };
    Wait::ALL.iter().flat_map(|&wait| PHASES_US.map(|phase_us| line(wait, phase_us))).collect()
}

/// Returns the expected duration of the part `controller` of the experiment, s.
pub fn expected_s(ratio: Ratio, rounds: usize, scale: f64) -> f64 {
    lines(ratio).iter().map(|line| line.ideal_s(scale) * 1.2 + 0.4).sum::<f64>() * rounds as f64
}

fn verdict(line: &Line, percent: &Series) -> Verdict {
    let outcome = judge::median_at_most(&percent.estimate, LIMIT_PERCENT);
    let found = text::estimate(&percent.estimate);
    let text = format!("{}: cox uses at most {LIMIT_PERCENT} % of one CPU (measured: {found} %)", line.name());
    Verdict { outcome, text }
}

/// Measures and reports the part `controller` of the experiment.
pub fn part(field: &Field<'_>, ratio: Ratio, rounds: usize) -> Result<Part> {
    let lines = lines(ratio);
    let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
    progress(&format!("controller: {} lines, {rounds} rounds", lines.len()));
    for line in &lines {
        let measured = in_turns(1, rounds, |_| run_once(field, line, &Confined::packed("")));
        match measured {
            Ok(all) => {
                let runs = &all[0];
                let controller_percent = Series::of(runs.iter().map(|(_, own, _)| *own).collect());
                verdicts.push(verdict(line, &controller_percent));
                rows.push(Row {
                    ratio: line.ratio,
                    wait: line.wait,
                    phase_us: line.phase_us,
                    controller_percent,
                    slowdown: Series::of(runs.iter().map(|(slowdown, ..)| *slowdown).collect()),
                });
            }
            Err(error) => {
                field.interrupt.check()?;
                verdicts.push(judge::not_measured(&line.name(), &format!("{error:#}")));
            }
        }
    }
    let cells = rows.iter().map(|row| {
        vec![
            format!("{} {} {} ms", row.ratio, row.wait.word(), row.phase_us as f64 / 1000.0),
            text::estimate(&row.controller_percent.estimate),
            text::estimate(&row.slowdown.estimate),
        ]
    });
    let table =
        text::table(&["phases", "cox, % of one CPU", "elapsed / ideal (by the speed of one CPU)"], 1, cells.collect());
    Ok(Part::new("controller", "CPU time of cox itself, including its start and end")
        .with_table(table)
        .with_lines(&rows)?
        .with_verdicts(verdicts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn all_ways_of_waiting_from_5_ms_on() {
        let lines = lines(Ratio { threads: 3, cpus: 2 });
        assert_eq!(lines.len(), 16);
        assert!(lines.iter().all(|line| line.phase_us >= 5_000));
    }

    #[test]
    fn the_limit() {
        let line = lines(Ratio { threads: 3, cpus: 2 })[0];
        assert_eq!(verdict(&line, &Series::of(vec![4.9; 15])).outcome, Outcome::Pass);
        assert_eq!(verdict(&line, &Series::of(vec![5.1; 15])).outcome, Outcome::Fail);
        assert_eq!(verdict(&line, &Series::of(vec![f64::NAN; 15])).outcome, Outcome::NotMeasured);
    }
}
