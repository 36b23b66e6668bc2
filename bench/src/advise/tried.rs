//! Judges `cox advise --runs 3`, which tries the ways instead of forecasting their times.
//!
//! Each round asks cox, and runs the kernel once in every way of its list, in an order that changes. So the answers are compared with runs that cox
//! has not seen, of the same minutes.
//!
//! An *answer* is a fastest way, or one that is slower than the fastest by at most 5 %. It is right if no other way was faster than the first one by 5 % or
//! more, by the median over all rounds. If cox calls the difference undecided, or gives no advice, it *abstains*.

use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::field::{Bench, Way};
use super::kernels::Kernel;
use super::order::SAME;
use crate::interrupt::Interrupt;
use crate::stats::median;
use crate::verdict::FAILED;
use random::Random;

/// Runs of each way that cox is asked for: the fewest.
const RUNS: &str = "3";
/// A tried kernel makes this part of its steps: it is run some thirty times per round, and needs no windows.
const STEPS: u64 = 4;

/// Targets: part of the answers that must be right, and largest part of the questions without an answer.
const RIGHT: f64 = 0.95;
const ABSTAINS: f64 = 0.15;
/// Target for the times: this part of them must be near the measured ones.
const TIMES: f64 = 0.90;
/// Largest relative error of a time that is near.
const NEAR: f64 = 0.15;

/// The part of `cox advise --json` that is read here.
#[derive(Debug, Deserialize)]
struct Advice {
    tried: Tried,
    choices: Vec<Choice>,
}

#[derive(Debug, Deserialize)]
struct Tried {
    answer: Answer,
}

/// What cox says about the two ways that it found fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Fastest,
    Equal,
    NearFastest,
    Undecided,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Choice {
    way: Way,
    time_ns: f64,
}

/// A question to cox, and its answer.
#[derive(Debug, Serialize)]
struct Asked {
    /// `None`: no advice.
    answer: Option<Answer>,
    /// The ways with their times, fastest first.
    choices: Vec<Choice>,
}

/// The results of one kernel.
#[derive(Debug, Default, Serialize)]
struct Case {
    kernel: &'static str,
    asked: Vec<Asked>,
    /// For each way, its measured time in each round, in ns.
    measured_ns: Vec<(Way, Vec<f64>)>,
    /// Why the kernel could not be measured.
    failed: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    schema_version: u32,
    threads: u16,
    cpus: u16,
    cases: Vec<Case>,
}

/// Measures the kernels and prints the results. Returns the exit code, as for forecasts.
pub fn judge(bench: &Bench<'_>, kernels: &[&'static Kernel]) -> Result<u8> {
    let options = bench.options;
    let mut report = Report { schema_version: 1, threads: options.threads, cpus: options.ncpus, cases: Vec::new() };
    for kernel in kernels {
        let case = bench.tried(kernel);
        bench.interrupt.check()?;
        let case = case.unwrap_or_else(|error| Case {
            kernel: kernel.name,
            failed: Some(format!("{error:#}")),
            ..Case::default()
        });
        options.common.print(&text(&case))?;
        report.cases.push(case);
    }
    let (told, code) = verdict(&report.cases);
    options.common.print(&told)?;
    options.common.write(&report)?;
    Ok(code)
}

impl Bench<'_> {
    fn tried(&self, kernel: &'static Kernel) -> Result<Case> {
        let mut case = Case { kernel: kernel.name, ..Case::default() };
        let mut first = Some(self.ask(kernel)?);
        let ways = first.iter().flat_map(|asked| &asked.choices).map(|choice| (choice.way, Vec::new()));
        case.measured_ns = ways.collect();
        let mut order: Vec<usize> = (0..=case.measured_ns.len()).collect();
        let mut random = Random::new(kernel.steps);
        for _ in 0..if self.options.quick { 1 } else { self.options.runs } {
            random.shuffle(&mut order);
            for &at in &order {
                Interrupt::check(self.interrupt)?;
                match case.measured_ns.get_mut(at) {
                    Some((way, times_ns)) => times_ns.push(self.measure_as_tried(kernel, *way)?),
                    None => case.asked.push(first.take().map_or_else(|| self.ask(kernel), Ok)?),
                }
            }
        }
        Ok(case)
    }

    /// Asks cox for the fastest way.
    fn ask(&self, kernel: &Kernel) -> Result<Asked> {
        let json = self.scratch.path().join("advice.json");
        let mut command = self.cox("advise", &json)?;
        self.tried_kernel(command.args(["--runs", RUNS, "--"]).arg(self.program(kernel)?), kernel);
        self.finish(&mut command)?;
        // Without advice there is no file, or an empty one.
        if std::fs::read_to_string(&json).is_ok_and(|text| !text.is_empty()) {
            let advice: Advice = self.read(&json)?;
            return Ok(Asked { answer: Some(advice.tried.answer), choices: advice.choices });
        }
        Ok(Asked { answer: None, choices: Vec::new() })
    }

    /// Runs the kernel once as cox tries it: the number of threads comes from the environment. Returns its wall time in ns.
    fn measure_as_tried(&self, kernel: &Kernel, way: Way) -> Result<f64> {
        let program = self.program(kernel)?;
        let mut command = Command::new(&program);
        let json = self.scratch.path().join("pack.json");
        if way == Way::Packing {
            command = self.cox("pack", &json)?;
            command.arg("--").arg(program);
        }
        self.tried_kernel(&mut command, kernel);
        command.envs(way.policy().map(|policy| ("OMP_WAIT_POLICY", policy)));
        match way {
            Way::Packing => return self.packed(&mut command, &json),
            Way::OneThread => command.env("OMP_NUM_THREADS", "1"),
            Way::FewerThreads => command.env("OMP_NUM_THREADS", self.options.ncpus.to_string()),
            Way::Taskset | Way::Passive | Way::Active => &mut command,
        };
        self.finish(&mut command)
    }

    fn program(&self, kernel: &Kernel) -> Result<std::path::PathBuf> {
        self.tools.workload(&format!("kernel-{}", kernel.name))
    }

    /// Adds the kernel's arguments and its number of threads to a command.
    fn tried_kernel(&self, command: &mut Command, kernel: &Kernel) {
        let steps = (kernel.steps / STEPS).max(1).to_string();
        command.args(["--steps", &steps]).env("OMP_NUM_THREADS", self.options.threads.to_string());
    }
}

impl Case {
    /// Returns the median over the rounds of the time of `way` ÷ the time of the way that was fastest; `None` if it was not measured.
    fn behind_fastest(&self, way: Way) -> Option<f64> {
        let (_, own) = self.measured_ns.iter().find(|(other, _)| *other == way)?;
        let behind = self.measured_ns.iter().map(|(_, other)| {
            let ratios: Vec<f64> = own.iter().zip(other).map(|(own, other)| own / other).collect();
            median(&ratios)
        });
        behind.reduce(f64::max)
    }

    /// Returns, for each answer, whether it is right.
    fn answers(&self) -> Vec<bool> {
        let given = self.asked.iter().filter(|asked| asked.answer.is_some_and(|answer| answer != Answer::Undecided));
        let first = given.filter_map(|asked| self.behind_fastest(asked.choices.first()?.way));
        first.map(|behind| behind < 1.0 / (1.0 - SAME)).collect()
    }

    /// Returns the relative errors of all times, compared with the medians of the measured ones.
    fn errors(&self) -> Vec<f64> {
        let error = |choice: &Choice| {
            let (_, times_ns) = self.measured_ns.iter().find(|(way, _)| *way == choice.way)?;
            Some((choice.time_ns / median(times_ns) - 1.0).abs())
        };
        self.asked.iter().flat_map(|asked| &asked.choices).filter_map(error).collect()
    }
}

fn text(case: &Case) -> String {
    if let Some(why) = &case.failed {
        return format!("{}: not measured: {why}\n", case.kernel);
    }
    let answers = case.answers();
    let right = answers.iter().filter(|right| **right).count();
    let mut lines = vec![format!(
        "{}: {} questions, {} answers, {right} of them right",
        case.kernel,
        case.asked.len(),
        answers.len()
    )];
    for (way, times_ns) in &case.measured_ns {
        let named = |asked: &&Asked| {
            asked.answer == Some(Answer::Fastest) && asked.choices.first().is_some_and(|first| first.way == *way)
        };
        let named = case.asked.iter().filter(named).count();
        let told = case.asked.iter().flat_map(|asked| &asked.choices).filter(|choice| choice.way == *way);
        let told_ns: Vec<f64> = told.map(|choice| choice.time_ns).collect();
        lines.push(format!(
            "  {:14} cox {:>7.2} s   measured {:>7.2} s   {:>5.2} × the fastest   named fastest {named} times",
            way.name(),
            median(&told_ns) / 1e9,
            median(times_ns) / 1e9,
            case.behind_fastest(*way).unwrap_or(f64::NAN),
        ));
    }
    lines.join("\n") + "\n"
}

/// Returns the text of the verdict, and the exit code.
fn verdict(cases: &[Case]) -> (String, u8) {
    let share = |part: usize, whole: usize| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
    let asked: usize = cases.iter().map(|case| case.asked.len()).sum();
    let answers: Vec<bool> = cases.iter().flat_map(Case::answers).collect();
    let right = answers.iter().filter(|right| **right).count();
    let abstained = asked - answers.len();
    let errors: Vec<f64> = cases.iter().flat_map(Case::errors).collect();
    let near = errors.iter().filter(|error| **error <= NEAR).count();
    let passes = [
        share(right, answers.len()) >= RIGHT,
        asked > 0 && share(abstained, asked) <= ABSTAINS,
        share(near, errors.len()) >= TIMES,
    ];
    let word = |passed: bool| if passed { "PASS" } else { "FAIL" };
    let told = format!(
        "{}  {right} of {} answers right (target: {:.0} %)\n\
         {}  {abstained} of {asked} questions without an answer (target: at most {:.0} %)\n\
         {}  {near} of {} times within {:.0} % of the measured ones (target: {:.0} %)\n",
        word(passes[0]),
        answers.len(),
        100.0 * RIGHT,
        word(passes[1]),
        100.0 * ABSTAINS,
        word(passes[2]),
        errors.len(),
        100.0 * NEAR,
        100.0 * TIMES,
    );
    let failed = cases.iter().any(|case| case.failed.is_some());
    (told, if failed { FAILED } else { u8::from(passes.contains(&false)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(answer: Option<Answer>, ways: &[(Way, f64)]) -> Asked {
        Asked { answer, choices: ways.iter().map(|&(way, time_ns)| Choice { way, time_ns }).collect() }
    }

    fn case(asked: Vec<Asked>) -> Case {
        let measured_ns = vec![(Way::FewerThreads, vec![1.0, 2.0, 1.0]), (Way::Taskset, vec![1.3, 2.5, 1.4])];
        Case { kernel: "cg", asked, measured_ns, failed: None }
    }

    const RIGHT_WAY: [(Way, f64); 2] = [(Way::FewerThreads, 1.1), (Way::Taskset, 1.3)];
    const WRONG_WAY: [(Way, f64); 2] = [(Way::Taskset, 1.0), (Way::FewerThreads, 1.1)];

    #[test]
    fn an_answer_is_right_if_nothing_was_faster() {
        let case = case(vec![
            asked(Some(Answer::Fastest), &RIGHT_WAY),
            asked(Some(Answer::Fastest), &WRONG_WAY),
            asked(Some(Answer::Equal), &WRONG_WAY),
            asked(Some(Answer::Undecided), &WRONG_WAY),
            asked(None, &[]),
        ]);
        assert_eq!(case.answers(), [true, false, false]);
        assert!((case.behind_fastest(Way::Taskset).unwrap() - 1.3).abs() < 1e-9, "round by round");
        assert_eq!(case.behind_fastest(Way::Packing), None);
        let (told, code) = verdict(&[case]);
        assert!(told.contains("FAIL  1 of 3 answers right") && told.contains("FAIL  2 of 5 questions"), "{told}");
        assert_eq!(code, 1);
    }

    #[test]
    fn all_targets_must_be_met() {
        let good = || case(vec![asked(Some(Answer::Fastest), &RIGHT_WAY)]);
        let (told, code) = verdict(&[good()]);
        assert!(told.contains("PASS  2 of 2 times within 15 %") && code == 0, "{told}");
        let far = case(vec![asked(Some(Answer::Fastest), &[(Way::FewerThreads, 2.0), (Way::Taskset, 2.9)])]);
        assert_eq!(verdict(&[far]).1, 1);
        assert_eq!(verdict(&[]).1, 1, "nothing was asked");
        let failed = Case { failed: Some("no".into()), ..Case::default() };
        assert_eq!(verdict(&[good(), failed]).1, FAILED);
    }

    #[test]
    fn rows_fit_the_terminal() {
        let text = text(&case(vec![asked(Some(Answer::Fastest), &RIGHT_WAY)]));
        assert!(text.contains("cg: 1 questions, 1 answers, 1 of them right") && text.contains("named fastest 1 times"));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
