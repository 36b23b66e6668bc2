//! Compares the forecasts of `cox advise` with measured times.
//!
//! In each round, `cox advise` forecasts how long the kernel takes in each of several ways to run it (such as packed, or with fewer threads). In the
//! same round, the kernel runs in each of these ways, in an order that changes from round to round. A forecast is compared with the run of the same
//! round, because a machine's speed changes over hours.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};
use random::Random;
use serde::{Deserialize, Serialize};

use super::field::{Bench, Way};
use super::kernels::Kernel;
use super::order::{self, Times};
use crate::interrupt::Interrupt;
use crate::stats::{median, quartiles};
use crate::verdict::FAILED;

/// The part of `cox advise --json` that is read here.
#[derive(Debug, Deserialize)]
struct Advice {
    choices: Vec<Choice>,
}

/// The forecast for one way to run the program, such as packed or with fewer threads.
#[derive(Debug, Deserialize)]
struct Choice {
    way: Way,
    time_ns: f64,
    low_ns: f64,
    high_ns: f64,
}

/// The forecasts and the measured times for one way to run the program.
#[derive(Debug, Serialize)]
struct Row {
    way: Way,
    rounds: Vec<Round>,
}

/// Forecast and measured time of one round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    predicted_ns: f64,
    range_ns: (f64, f64),
    measured_ns: f64,
}

/// The results of one benchmark kernel.
#[derive(Debug, Serialize)]
struct Case {
    kernel: &'static str,
    rows: Vec<Row>,
    order_right: bool,
    /// Why the benchmark kernel could not be measured; `rows` is then empty.
    failed: Option<String>,
}

/// The results of the whole experiment.
#[derive(Debug, Serialize)]
struct Report {
    schema_version: u32,
    threads: u16,
    cpus: u16,
    cases: Vec<Case>,
}

/// Target: for this many kernels out of twelve, the ways to run the kernel must be predicted in the right order, from fastest to slowest.
const RIGHT: (usize, usize) = (10, 12);
/// Largest relative error with which a predicted time counts as right.
const NEAR: f64 = 0.15;

/// Measures the kernels and prints the results. Returns the exit code: 1 if a target was missed, 125 if a kernel could not be measured.
///
/// # Errors
/// When nothing can be measured, or the results cannot be written.
pub(super) fn judge(bench: &Bench<'_>, kernels: &[&'static Kernel]) -> Result<u8> {
    let Bench { options, interrupt, .. } = bench;
    let mut report = Report { schema_version: 2, threads: options.threads, cpus: options.ncpus, cases: Vec::new() };
    for kernel in kernels {
        let case = bench.case(kernel);
        Interrupt::check(interrupt)?;
        let case = case.unwrap_or_else(|error| Case {
            kernel: kernel.name,
            rows: Vec::new(),
            order_right: false,
            failed: Some(format!("{error:#}")),
        });
        options.common.print(&text(&case))?;
        report.cases.push(case);
    }
    let (told, code) = verdict(&report);
    options.common.print(&told)?;
    options.common.write(&report)?;
    Ok(code)
}

impl Bench<'_> {
    fn case(&self, kernel: &'static Kernel) -> Result<Case> {
        self.interrupt.check()?;
        // `cox advise` names the same ways to run the kernel in each round. The first forecast is made here to learn these ways, and is used in the
        // first round.
        let mut first = Some(self.advice(kernel)?);
        let ways = first.iter().flat_map(|advice| &advice.choices).map(|choice| choice.way);
        let mut rows: Vec<Row> = ways.map(|way| Row { way, rounds: Vec::new() }).collect();
        // `order` has one index for each way to run the kernel, and one more for the forecast, which is made at a random place among the runs.
        let mut order: Vec<usize> = (0..=rows.len()).collect();
        let mut random = Random::new(kernel.steps);
        for _ in 0..if self.options.quick { 1 } else { self.options.runs } {
            random.shuffle(&mut order);
            let (mut advice, mut measured_ns) = (None, vec![0.0; rows.len()]);
            for &at in &order {
                self.interrupt.check()?;
                match rows.get(at) {
                    Some(row) => measured_ns[at] = self.measure(kernel, row.way)?,
                    None => advice = Some(first.take().map_or_else(|| self.advice(kernel), Ok)?),
                }
            }
            let choices = advice.map(|advice| advice.choices).unwrap_or_default();
            for (row, measured_ns) in rows.iter_mut().zip(measured_ns) {
                let choice = choices.iter().find(|choice| choice.way == row.way);
                let choice = choice.with_context(|| format!("cox advise has no forecast for: {}", row.way.name()))?;
                row.rounds.push(Round {
                    predicted_ns: choice.time_ns,
                    range_ns: (choice.low_ns, choice.high_ns),
                    measured_ns,
                });
            }
        }
        let times: Vec<Times> = rows.iter().map(Row::times).collect();
        Ok(Case { kernel: kernel.name, order_right: order::is_right(&times), rows, failed: None })
    }

    fn advice(&self, kernel: &Kernel) -> Result<Advice> {
        let json = self.scratch.path().join("advice.json");
        let mut command = self.cox("advise", &json)?;
        command.arg("--").args(self.line(kernel, self.options.threads)?);
        self.finish(&mut command)?;
        self.read(&json)
    }

    /// Runs the benchmark kernel once in the given way (such as packed by cox). Returns its wall time in ns.
    fn measure(&self, kernel: &Kernel, way: Way) -> Result<f64> {
        let threads = match way {
            Way::OneThread => 1,
            Way::FewerThreads => self.options.ncpus,
            _ => self.options.threads,
        };
        let line = self.line(kernel, threads)?;
        if way == Way::Packing {
            let json = self.scratch.path().join("pack.json");
            let mut command = self.cox("pack", &json)?;
            return self.packed(command.arg("--").args(line), &json);
        }
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).envs(way.policy().map(|policy| ("OMP_WAIT_POLICY", policy)));
        self.finish(&mut command)
    }

    fn line(&self, kernel: &Kernel, threads: u16) -> Result<Vec<OsString>> {
        let program = self.tools.workload(&format!("kernel-{}", kernel.name))?;
        let words = ["--threads".into(), threads.to_string().into(), "--steps".into(), kernel.steps.to_string().into()];
        Ok(std::iter::once(program.into_os_string()).chain(words).collect())
    }
}

impl Row {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    fn predicted_ns(&self) -> f64 {
        self.median(|round| round.predicted_ns)
    }

    fn measured_ns(&self) -> f64 {
        self.median(|round| round.measured_ns)
    }

    fn times(&self) -> Times {
        let measured = self.rounds.iter().map(|round| round.measured_ns).collect();
        Times { predicted: self.predicted_ns(), measured }
    }

    /// Returns `m − 1`, where `m` is the median of `predicted time ÷ measured time` over the rounds.
    fn error(&self) -> f64 {
        self.median(|round| round.predicted_ns / round.measured_ns) - 1.0
    }

    /// Returns whether the measured time was inside the predicted range in more than half of the rounds.
    fn is_in_range(&self) -> bool {
        let inside = |round: &&Round| (round.range_ns.0..=round.range_ns.1).contains(&round.measured_ns);
        self.rounds.iter().filter(inside).count() * 2 > self.rounds.len()
    }
}

fn text(case: &Case) -> String {
    let mut lines = vec![format!("{}: order {}", case.kernel, if case.order_right { "right" } else { "WRONG" })];
    if let Some(why) = &case.failed {
        lines = vec![format!("{}: not measured: {why}", case.kernel)];
    } else {
        lines.push(format!(
            "  {:14} {:>9} {:>17} {:>9} {:>17} {:>7}",
            "", "predicted", "range", "measured", "quartiles", "error"
        ));
    }
    for row in &case.rows {
        let range = (row.median(|round| round.range_ns.0), row.median(|round| round.range_ns.1));
        let measured = quartiles(&row.rounds.iter().map(|round| round.measured_ns).collect::<Vec<_>>());
        let span = |(from, to): (f64, f64)| format!("{:.2} .. {:.2}", from / 1e9, to / 1e9);
        lines.push(format!(
            "  {:14} {:>7.2} s {:>17} {:>7.2} s {:>17} {:>+5.1} %",
            row.way.name(),
            row.predicted_ns() / 1e9,
            span(range),
            row.measured_ns() / 1e9,
            span(measured),
            100.0 * row.error()
        ));
    }
    lines.join("\n") + "\n"
}

/// Returns the text of the verdict, and the exit code.
fn verdict(report: &Report) -> (String, u8) {
    let measured: Vec<&Case> = report.cases.iter().filter(|case| case.failed.is_none()).collect();
    let right = measured.iter().filter(|case| case.order_right).count();
    let errors: Vec<f64> = measured.iter().flat_map(|case| &case.rows).map(|row| row.error().abs()).collect();
    let near = errors.iter().filter(|error| **error <= NEAR).count();
    let inside = measured.iter().flat_map(|case| &case.rows).filter(|row| row.is_in_range());
    let word = |passed| if passed { "PASS" } else { "FAIL" };
    // If fewer than twelve kernels were measured, the same share of them must be right: 10 of 12.
    let order = right * RIGHT.1 >= RIGHT.0 * report.cases.len();
    let times = near == errors.len() && !errors.is_empty();
    let told = format!(
        "{}  predicted order right for {right} of {} benchmark kernels (target: {} of {})\n\
         {}  {near} of {} predicted times within {:.0} % of the measured times (median error {:.1} %, worst {:.1} %); {} measured times within the predicted range\n",
        word(order),
        report.cases.len(),
        RIGHT.0,
        RIGHT.1,
        word(times),
        errors.len(),
        100.0 * NEAR,
        100.0 * median(&errors),
        100.0 * errors.iter().copied().fold(0.0, f64::max),
        inside.count(),
    );
    let code = match () {
        () if measured.len() < report.cases.len() => FAILED,
        () if order && times => 0,
        () => 1,
    };
    (told, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(times: &[(Way, f64, f64)]) -> Case {
        let row = |&(way, predicted, measured): &(Way, f64, f64)| Row {
            way,
            rounds: vec![Round {
                predicted_ns: predicted * 1e9,
                range_ns: (predicted * 0.9e9, predicted * 1.1e9),
                measured_ns: measured * 1e9,
            }],
        };
        let rows: Vec<Row> = times.iter().map(row).collect();
        let times: Vec<Times> = rows.iter().map(Row::times).collect();
        Case { kernel: "cg", rows, order_right: order::is_right(&times), failed: None }
    }

    fn report(cases: Vec<Case>) -> Report {
        Report { schema_version: 2, threads: 3, cpus: 2, cases }
    }

    #[test]
    fn both_targets_decide() {
        let good = || case(&[(Way::FewerThreads, 1.0, 1.1), (Way::Taskset, 2.0, 2.2)]);
        let (told, code) = verdict(&report(vec![good()]));
        assert!(
            told.contains("PASS  predicted order right for 1 of 1") && told.contains("2 of 2 predicted times"),
            "{told}"
        );
        assert!(
            told.contains("median error 9.1 %, worst 9.1 %); 2 measured times within the predicted range"),
            "{told}"
        );
        assert_eq!(code, 0);
        let far = case(&[(Way::FewerThreads, 1.0, 1.1), (Way::Taskset, 2.0, 2.6)]);
        assert_eq!(verdict(&report(vec![good(), far])).1, 1);
        let wrong = case(&[(Way::FewerThreads, 1.0, 1.1), (Way::Taskset, 1.05, 0.95)]);
        let (told, code) = verdict(&report(vec![wrong]));
        assert!(told.contains("FAIL  predicted order right for 0 of 1") && code == 1, "{told}");
        let failed = Case { failed: Some("no".into()), ..case(&[]) };
        assert_eq!(verdict(&report(vec![good(), failed])).1, FAILED);
    }

    #[test]
    fn a_prediction_is_compared_with_the_run_of_its_own_round() {
        let round = |speed: f64| Round {
            predicted_ns: 1.1e9 / speed,
            range_ns: (1.0e9 / speed, 1.2e9 / speed),
            measured_ns: 1.0e9 / speed,
        };
        let row = Row { way: Way::Taskset, rounds: [1.0, 0.5, 2.0].map(round).to_vec() };
        assert!((row.error() - 0.1).abs() < 1e-9, "however fast the machine was: {}", row.error());
        assert!(row.is_in_range());
        let late = Round { measured_ns: 2.0e9, ..round(1.0) };
        let row = Row { way: Way::Taskset, rounds: vec![round(1.0), late] };
        assert!(!row.is_in_range(), "half of them is not most");
    }

    #[test]
    fn rows_show_prediction_beside_measurement() {
        let text = text(&case(&[(Way::FewerThreads, 1.0, 1.25)]));
        assert!(
            text.contains("cg: order right") && text.contains("fewer threads") && text.contains("-20.0 %"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
