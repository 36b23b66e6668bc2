//! Ablation of the PALM paper's rules: runs by the whole rules, and without each of their three parts (progress, locality, period control). The
//! slow-down without a part shows what the part contributes.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use super::catalogue::Kernel;
use super::field::{Confined, Field};
use super::job::{Job, Sample};
use super::judge::{self, Series};
use super::part::{Part, progress};
use super::ratio::Ratio;
use super::text;
use crate::rounds::in_turns;
use crate::stats::median;
use crate::verdict::Verdict;

/// The parts of PALM, as `cox-bench pack palm --without` names them.
const PARTS: [&str; 3] = ["progress", "locality", "period"];
/// Time limit of a run, as a multiple of the time that a run with all parts of PALM takes.
const LIMIT: f64 = 20.0;

/// The results of one benchmark kernel that is packed by the PALM paper's rules, with all of their parts or without one of them.
#[derive(Clone, Debug, Serialize)]
struct Row {
    kernel: &'static str,
    ratio: Ratio,
    /// The part that was left out; `None`: all parts are in use.
    without: Option<&'static str>,
    /// True if the PALM paper names this benchmark kernel in its experiment without this part.
    named_by_paper: bool,
    elapsed_s: Series,
    /// Elapsed time ÷ elapsed time with all parts of PALM, by round.
    to_palm: Series,
    cut_short: usize,
    /// Number of times per run that a thread was moved to another CPU; median.
    moves: f64,
    /// Number of times per second that a thread was moved to another CPU; median.
    moves_per_s: f64,
}

/// Returns the parts to leave out, one per treatment. `None` leaves nothing out.
fn treatments() -> [Option<&'static str>; 4] {
    [None, Some(PARTS[0]), Some(PARTS[1]), Some(PARTS[2])]
}

fn rows(job: &Job, samples: &[Vec<Sample>]) -> Vec<Row> {
    let elapsed = |samples: &[Sample]| Series::of(samples.iter().map(|sample| sample.elapsed_s).collect());
    let middle = |samples: &[Sample], of: fn((f64, f64)) -> f64| {
        median(&samples.iter().filter_map(|sample| sample.moves.map(of)).collect::<Vec<_>>())
    };
    let palm = samples.first().map_or_else(|| Series::of(Vec::new()), |samples| elapsed(samples));
    let row = |(without, samples): (Option<&'static str>, &Vec<Sample>)| {
        let elapsed_s = elapsed(samples);
        Row {
            kernel: job.kernel.name,
            ratio: job.ratio,
            without,
            named_by_paper: without.is_some_and(|part| job.kernel.parts.contains(&part)),
            to_palm: elapsed_s.over(&palm),
            elapsed_s,
            cut_short: samples.iter().filter(|sample| sample.cut_short).count(),
            moves: middle(samples, |(moves, _)| moves),
            moves_per_s: middle(samples, |(_, per_s)| per_s),
        }
    };
    treatments().into_iter().zip(samples).map(row).collect()
}

fn measure(field: &Field<'_>, kernel: &'static Kernel, ratio: Ratio, rounds: usize) -> Result<Vec<Row>> {
    let job = Job::calibrated(field, kernel, ratio)?;
    let run = |without: Option<&str>, limit| job.run(field, ratio.threads, &Confined::palm(without), limit);
    let first = run(None, Duration::from_secs(120))?;
    let limit = Duration::from_secs_f64(first.elapsed_s * LIMIT + 2.0);
    let samples = in_turns(treatments().len(), rounds, |place| run(treatments()[place], limit))?;
    let checksums: Vec<&String> =
        samples.iter().flatten().filter_map(|sample| Some(&sample.said.as_ref()?.checksum)).collect();
    if checksums.windows(2).any(|pair| pair[0] != pair[1]) {
        bail!("results differ: checksums {checksums:?}");
    }
    Ok(rows(&job, &samples))
}

/// Returns the expected duration of the part `ablation` of the experiment, s.
pub fn expected_s(kernels: &[&Kernel], rounds: usize, scale: f64) -> f64 {
    let kernels = kernels.iter().filter(|kernel| !kernel.parts.is_empty()).count();
    kernels as f64 * (rounds as f64 * treatments().len() as f64 * (2.0 * scale + 0.3) + 5.0 * scale)
}

/// Measures and reports the part `ablation` of the experiment.
pub fn part(field: &Field<'_>, kernels: &[&'static Kernel], ratio: Ratio, rounds: usize) -> Result<Part> {
    let about = format!("the PALM paper's rules, with all parts and with one part left out; threads/CPUs = {ratio}");
    let kernels: Vec<&'static Kernel> = kernels.iter().copied().filter(|kernel| !kernel.parts.is_empty()).collect();
    let (mut all, mut failed): (Vec<Row>, Vec<Verdict>) = (Vec::new(), Vec::new());
    for (place, &kernel) in kernels.iter().enumerate() {
        progress(&format!("ablation: {name} {ratio}, {} of {} kernels", place + 1, kernels.len(), name = kernel.name));
        match measure(field, kernel, ratio, rounds) {
            Ok(rows) => all.extend(rows),
            Err(error) => {
                field.interrupt.check()?;
                failed.push(judge::not_measured(kernel.name, &format!("{error:#}")));
            }
        }
    }
    let notes = vec![
        format!(
            "medians of {rounds} rounds, 95 % intervals; *: the PALM paper reports this benchmark kernel without this part, too"
        ),
        "'>' marks a lower bound, because runs were ended at the time limit".to_owned(),
    ];
    Ok(Part::new("ablation", &about)
        .with_table(printed(&all))
        .with_lines(&all)?
        .with_notes(notes)
        .with_verdicts(failed))
}

fn printed(rows: &[Row]) -> String {
    let headings = ["kernel", "palm", "time, s", "/ palm", "moves", "moves/s"];
    let cells = rows.iter().map(|row| {
        let star = if row.named_by_paper { " *" } else { "" };
        let bound = if row.cut_short * 2 > row.elapsed_s.values.len() { "> " } else { "" };
        vec![
            row.kernel.to_owned(),
            row.without.map_or_else(|| "whole".to_owned(), |part| format!("without {part}{star}")),
            format!("{bound}{}", text::estimate(&row.elapsed_s.estimate)),
            format!("{bound}{}", text::estimate(&row.to_palm.estimate)),
            text::figure(row.moves),
            text::figure(row.moves_per_s),
        ]
    });
    text::table(&headings, 2, cells.collect())
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    #[test]
    fn each_part_is_left_out_once_and_compared_with_palm() {
        let job = Job { kernel: catalogue::named("fft").unwrap(), steps: 40, ratio: Ratio { threads: 3, cpus: 2 } };
        let sample = |elapsed_s, moves| Sample {
            elapsed_s,
            cpu_s: 1.0,
            cut_short: false,
            own_percent: None,
            moves: Some((moves, moves / elapsed_s)),
            said: None,
        };
        let samples = [(2.0, 10.0), (3.0, 20.0), (4.0, 30.0), (1.0, 40.0)].map(|(s, moves)| vec![sample(s, moves); 7]);
        let rows = rows(&job, &samples);
        let found: Vec<_> = rows.iter().map(|r| (r.without, r.to_palm.estimate.median, r.moves)).collect();
        let expected = [
            (None, 1.0, 10.0),
            (Some("progress"), 1.5, 20.0),
            (Some("locality"), 2.0, 30.0),
            (Some("period"), 0.5, 40.0),
        ];
        assert_eq!(found, expected);
        assert_eq!(rows.iter().map(|row| row.named_by_paper).collect::<Vec<_>>(), [false, false, true, true]);
        let text = printed(&rows);
        assert!(text.contains("without locality *") && !text.contains("without progress *"), "{text}");
    }
}
