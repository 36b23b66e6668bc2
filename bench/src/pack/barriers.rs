//! Threads that work and wait for each other at a barrier: cox compared with taskset, and the acceptance targets.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::field::{Confined, Field};
use super::judge::{self, Series};
use super::output;
use super::part::{Part, progress};
use super::ratio::Ratio;
use super::text;
use crate::named::by_name;
use crate::rounds::in_turns;
use crate::verdict::{Outcome, Verdict};

/// If threads wait by `spin-futex`: time for which a waiting thread spins before it sleeps, us.
pub const SPIN_US: u64 = 350;
/// Number of rounds of the control measurement, in which no thread waits for a CPU.
const CONTROL_ROUNDS: usize = 7;
/// Time limit of a run, as a multiple of its ideal time.
const LIMIT: f64 = 60.0;
/// Length of the run that measures the ideal time, as a share of the length of the other runs of the same table row.
const IDEAL_PART: f64 = 0.25;
/// If elapsed time ÷ ideal time with taskset is above this, taskset counts as bad, and cox must be clearly better.
const TASKSET_BAD: f64 = 1.5;
/// Smallest ratio of taskset's time to cox's time for which cox counts as clearly better.
const CLEARLY_BETTER: f64 = 1.5;

/// How threads wait; the names are those of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Spins in a loop.
    Spin,
    /// Spins for [`SPIN_US`], then sleeps.
    SpinFutex,
    /// Calls sched_yield(2) in a loop.
    Yield,
    /// Sleeps on a futex.
    Futex,
}

impl Wait {
    /// All ways to wait.
    pub const ALL: [Wait; 4] = [Wait::Spin, Wait::SpinFutex, Wait::Yield, Wait::Futex];

    /// Returns the workload's name for this way to wait.
    pub fn word(self) -> &'static str {
        match self {
            Wait::Spin => "spin",
            Wait::SpinFutex => "spin-futex",
            Wait::Yield => "yield",
            Wait::Futex => "futex",
        }
    }
}

/// The result that one row of the table ([`Line`]) has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// With cox, elapsed time ÷ ideal time is at most this.
    AtMost(f64),
    /// cox is at most 2 % slower than taskset.
    NoWorse,
    /// cox is at most 2 % slower than taskset. If taskset is bad (above 1.5 × ideal), cox is also clearly faster.
    NoWorseOrMuchBetter,
}

/// One line of the table: a number of threads, a way to wait, a length of phases, and the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Number of threads and number of CPUs.
    pub ratio: Ratio,
    /// How the threads wait.
    pub wait: Wait,
    /// CPU time that each thread works between two barriers, us.
    pub phase_us: u64,
    /// The target.
    pub target: Target,
    /// Elapsed time ÷ ideal time with taskset, as measured when the target was set; 0 if unknown.
    pub taskset_then: f64,
}

const fn line(threads: usize, wait: Wait, phase_us: u64, target: Target, taskset_then: f64) -> Line {
    Line { ratio: Ratio { threads, cpus: 2 }, wait, phase_us, target, taskset_then }
}

/// The lines with acceptance targets, for two CPUs.
pub const LINES: [Line; 23] = {
    use Target::{AtMost, NoWorse, NoWorseOrMuchBetter};
    [
        line(3, Wait::Spin, 200, AtMost(2.0), 13.0),
        line(3, Wait::Spin, 1_000, AtMost(1.35), 2.7),
        line(3, Wait::Spin, 10_000, AtMost(1.10), 1.5),
        line(3, Wait::SpinFutex, 1_000, AtMost(1.30), 0.0),
        line(3, Wait::SpinFutex, 10_000, AtMost(1.08), 0.0),
        line(3, Wait::Yield, 1_000, AtMost(1.20), 0.0),
        line(3, Wait::Futex, 10_000, AtMost(1.12), 1.24),
        line(3, Wait::Futex, 200, NoWorse, 0.0),
        line(3, Wait::Futex, 1_000, NoWorse, 0.0),
        line(5, Wait::Spin, 1_000, AtMost(1.35), 0.0),
        line(5, Wait::Spin, 10_000, AtMost(1.12), 0.0),
        line(4, Wait::Spin, 200, NoWorseOrMuchBetter, 0.0),
        line(4, Wait::Spin, 1_000, NoWorseOrMuchBetter, 0.0),
        line(4, Wait::Spin, 10_000, NoWorse, 0.0),
        line(4, Wait::SpinFutex, 200, NoWorse, 0.0),
        line(4, Wait::SpinFutex, 1_000, NoWorse, 0.0),
        line(4, Wait::SpinFutex, 10_000, NoWorse, 0.0),
        line(4, Wait::Yield, 200, NoWorse, 0.0),
        line(4, Wait::Yield, 1_000, NoWorse, 0.0),
        line(4, Wait::Yield, 10_000, NoWorse, 0.0),
        line(4, Wait::Futex, 200, NoWorse, 0.0),
        line(4, Wait::Futex, 1_000, NoWorse, 0.0),
        line(4, Wait::Futex, 10_000, NoWorse, 0.0),
    ]
};

impl Line {
    /// Returns the name of the line, such as `3/2 spin 0.2 ms`.
    pub fn name(&self) -> String {
        format!("{} {} {} ms", self.ratio, self.wait.word(), self.phase_us as f64 / 1000.0)
    }

    /// Returns how long a run takes under ideal conditions, s. Most runs take 4 s, so that cox's first quarter of a second, in which it only
    /// observes, hardly changes the result. If threads spin in short phases, runs are shorter: cox then observes for less time, and with taskset such
    /// runs take up to 13 times as long.
    pub fn ideal_s(&self, scale: f64) -> f64 {
        let usual = match (self.wait, self.phase_us) {
            (Wait::Futex | Wait::SpinFutex | Wait::Yield, _) => 4.0,
            (Wait::Spin, ..1_000) => 1.0,
            (Wait::Spin, ..5_000) => 1.6,
            (Wait::Spin, _) => 4.0,
        };
        usual * scale
    }

    /// Returns the number of barrier rounds with which an ideal run takes `ideal_s` seconds.
    pub fn rounds(&self, scale: f64) -> u64 {
        let phase_s = self.phase_us as f64 / 1e6 * self.ratio.ideal();
        ((self.ideal_s(scale) / phase_s).round() as u64).max(1)
    }

    /// Returns the workload's arguments.
    fn arguments(&self, scale: f64, iterations_per_us: f64) -> Vec<String> {
        arguments(self.ratio, self.wait, self.phase_us, self.rounds(scale), iterations_per_us)
    }

    /// Returns the expected time for one run of each treatment, s.
    fn expected_s(&self, scale: f64) -> f64 {
        let taskset = match (self.taskset_then, self.wait, self.phase_us) {
            (then, ..) if then > 0.0 => then,
            (_, Wait::Spin, ..1_000) => 10.0,
            (_, Wait::Spin, _) => 2.0,
            _ => 1.3,
        };
        self.ideal_s(scale) * (taskset + 1.4 + IDEAL_PART) + 1.0
    }

    fn demanded(&self) -> String {
        let demand = match self.target {
            Target::AtMost(limit) => format!("at most {limit:.2}"),
            Target::NoWorse => "no worse".to_owned(),
            Target::NoWorseOrMuchBetter => format!("no worse; {CLEARLY_BETTER} times faster if taskset is bad"),
        };
        if self.taskset_then > 0.0 { format!("{demand} ({})", text::figure(self.taskset_then)) } else { demand }
    }
}

fn arguments(ratio: Ratio, wait: Wait, phase_us: u64, rounds: u64, iterations_per_us: f64) -> Vec<String> {
    let words = format!(
        "--threads {} --wait {} --spin-us {SPIN_US} --work-us {phase_us} --rounds {rounds} --iterations-per-us \
         {iterations_per_us}",
        ratio.threads,
        wait.word(),
    );
    words.split(' ').map(str::to_owned).collect()
}

/// The measurements of one line.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The row of the table that was measured.
    #[serde(flatten)]
    pub line: Line,
    /// `measured ideal time ÷ computed ideal time`. Ideal is the time of a run in which no thread waits. It is measured on these CPUs, and computed
    /// from the speed of one CPU on an otherwise idle machine.
    pub ideal_to_one_cpu: Series,
    /// Elapsed time with taskset ÷ ideal time.
    pub taskset: Series,
    /// Elapsed time with cox ÷ ideal time.
    pub cox: Series,
    /// Elapsed time with cox ÷ elapsed time with taskset, by round.
    pub ratio: Series,
    /// CPU time of cox, in percent of one CPU.
    pub controller_percent: Series,
    /// Number of runs that were ended at the time limit: their values are lower bounds.
    pub cut_short: usize,
}

impl Measured {
    fn outcome(&self) -> Outcome {
        match self.line.target {
            Target::AtMost(limit) => judge::median_at_most(&self.cox.estimate, limit),
            Target::NoWorse => judge::no_worse(&self.ratio.estimate),
            Target::NoWorseOrMuchBetter => {
                let harmless = judge::no_worse(&self.ratio.estimate);
                if self.taskset.estimate.median <= TASKSET_BAD {
                    return harmless;
                }
                let wins = self.taskset.over(&self.cox);
                judge::all(&[harmless, judge::median_at_least(&wins.estimate, CLEARLY_BETTER)])
            }
        }
    }

    fn verdict(&self) -> Verdict {
        let demand = match self.line.target {
            Target::AtMost(limit) => format!("elapsed time at most {limit:.2} times the ideal"),
            Target::NoWorse => "at most 2 % slower than taskset".to_owned(),
            Target::NoWorseOrMuchBetter => {
                format!(
                    "at most 2 % slower than taskset, and {CLEARLY_BETTER} times faster if taskset takes more than {TASKSET_BAD} times the ideal"
                )
            }
        };
        let found = match self.line.target {
            Target::AtMost(_) => format!("{} x", text::estimate(&self.cox.estimate)),
            _ => format!("{} x taskset", text::estimate(&self.ratio.estimate)),
        };
        Verdict { outcome: self.outcome(), text: format!("{}: {demand} (measured: {found})", self.line.name()) }
    }
}

/// Returns the expected time to measure these lines, s.
pub fn expected_s(lines: &[Line], rounds: usize, scale: f64) -> f64 {
    lines.iter().map(|line| line.expected_s(scale)).sum::<f64>() * rounds as f64
}

/// Measures the ideal time of a run: one thread runs on each CPU, so no thread waits. Returns `measured ideal time ÷ computed ideal time`; the latter
/// is computed from the speed of one CPU on an otherwise idle machine.
fn ideal_once(field: &Field<'_>, line: &Line) -> Result<f64> {
    let ratio = Ratio { threads: line.ratio.cpus, ..line.ratio };
    let phase_us = (line.ideal_s(field.scale) * IDEAL_PART * 1e6) as u64;
    let program = field.program("barriers", &arguments(ratio, Wait::Futex, phase_us, 1, field.iterations_per_us))?;
    let run = field.run(ratio.cpus, &Confined::Taskset, &program, Duration::from_secs(60))?;
    Ok(output::barriers_elapsed_s(&run.output)? / (phase_us as f64 / 1e6))
}

/// Results of one run: elapsed time ÷ ideal time, cox's CPU time in percent of one CPU, and whether the run was ended at the time limit.
pub type Once = (f64, f64, bool);

/// Runs the workload of this table row once. In the returned `elapsed time ÷ ideal time`, the ideal time is computed from the speed of one CPU, not
/// measured.
pub fn run_once(field: &Field<'_>, line: &Line, confined: &Confined) -> Result<Once> {
    let program = field.program("barriers", &line.arguments(field.scale, field.iterations_per_us))?;
    let ideal_s = line.rounds(field.scale) as f64 * line.phase_us as f64 / 1e6 * line.ratio.ideal();
    let limit = Duration::from_secs_f64(ideal_s * LIMIT + 5.0);
    let run = field.run(line.ratio.cpus, confined, &program, limit)?;
    let elapsed_s = if run.cut_short { run.wall_s } else { output::barriers_elapsed_s(&run.output)? };
    let own = run.told.map_or(f64::NAN, |told| told.own_percent());
    Ok((elapsed_s / ideal_s, own, run.cut_short))
}

/// Measures the treatments and the ideal time in the same rounds. Returns the runs of each treatment, with `elapsed time ÷ measured ideal time`. Also
/// returns `measured ideal time ÷ ideal time that is computed from the speed of one CPU`.
fn against_ideal(
    field: &Field<'_>,
    line: &Line,
    treatments: &[Confined],
    rounds: usize,
) -> Result<(Vec<Vec<Once>>, Series)> {
    let mut all = in_turns(treatments.len() + 1, rounds, |treatment| match treatments.get(treatment) {
        Some(confined) => run_once(field, line, confined),
        None => Ok((ideal_once(field, line)?, 0.0, false)),
    })?;
    let ideals = all.pop().unwrap_or_default();
    let ideal = Series::of(ideals.into_iter().map(|(ideal, ..)| ideal).collect());
    // Divide by the median over all rounds. The ideal time of a single round is as noisy as the elapsed time that is divided by it.
    all.iter_mut().flatten().for_each(|(slowdown, ..)| *slowdown /= ideal.estimate.median);
    Ok((all, ideal))
}

/// Measures one line of the table.
pub fn measure_line(field: &Field<'_>, line: &Line, rounds: usize) -> Result<Measured> {
    let (all, ideal_to_one_cpu) = against_ideal(field, line, &[Confined::Taskset, Confined::packed("")], rounds)?;
    let slowdowns = |index: usize| Series::of(all[index].iter().map(|(slowdown, ..)| *slowdown).collect());
    let (taskset, cox) = (slowdowns(0), slowdowns(1));
    Ok(Measured {
        line: *line,
        ideal_to_one_cpu,
        ratio: cox.over(&taskset),
        taskset,
        cox,
        controller_percent: Series::of(all[1].iter().map(|(_, own, _)| *own).collect()),
        cut_short: all.iter().flatten().filter(|(.., cut_short)| *cut_short).count(),
    })
}

/// The results of several lines of the table.
#[derive(Debug)]
pub struct Found {
    /// Lines of the table that were measured.
    pub measured: Vec<Measured>,
    /// Lines of the table that could not be measured, and why.
    pub failed: Vec<(Line, String)>,
}

/// Measures these lines of the table. The result also lists the lines that could not be measured, with the reason.
pub fn measure(field: &Field<'_>, part: &str, lines: &[Line], rounds: usize) -> Result<Found> {
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    for (place, line) in lines.iter().enumerate() {
        progress(&format!("{part}: {}, {} of {}", line.name(), place + 1, lines.len()));
        match measure_line(field, line, rounds) {
            Ok(found) => measured.push(found),
            Err(error) => {
                field.interrupt.check()?;
                failed.push((*line, format!("{error:#}")));
            }
        }
    }
    Ok(Found { measured, failed })
}

/// Measures the control: two threads on two CPUs, so that no thread waits for a CPU. Returns elapsed time ÷ ideal time. The difference from 1 is the
/// cost of the barriers alone.
fn control(field: &Field<'_>, rounds: usize) -> Result<Series> {
    let line = line(2, Wait::Spin, 1_000, Target::NoWorse, 0.0);
    let (all, _) = against_ideal(field, &line, &[Confined::Taskset], rounds)?;
    Ok(Series::of(all[0].iter().map(|(slowdown, ..)| *slowdown).collect()))
}

/// Parses a command-line argument: returns the line of the table with this name.
///
/// # Errors
/// The list of all names, if there is no such line.
pub fn named(name: &str) -> Result<Line, String> {
    by_name(LINES, Line::name, name, "known lines:")
}

/// Measures and reports the part `barriers` of the experiment: these lines of its table.
pub fn part(field: &Field<'_>, lines: &[Line], rounds: usize) -> Result<(Part, Vec<Measured>)> {
    let Found { measured, failed } = measure(field, "barriers", lines, rounds)?;
    let control = control(field, rounds.min(CONTROL_ROUNDS))?;
    let headings = ["elapsed / ideal", "taskset", "cox pack", "cox / taskset", "target (then)", "cox CPU %", ""];
    let rows = measured.iter().map(|m| {
        vec![
            m.line.name(),
            text::estimate(&m.taskset.estimate),
            text::estimate(&m.cox.estimate),
            text::estimate(&m.ratio.estimate),
            m.line.demanded(),
            text::figure(m.controller_percent.estimate.median),
            m.outcome().word().to_owned(),
        ]
    });
    let mut verdicts: Vec<Verdict> = measured.iter().map(Measured::verdict).collect();
    verdicts.extend(failed.iter().map(|(line, why)| judge::not_measured(&line.name(), why)));
    let mut notes = vec![
        format!(
            "ideal: the time of the same work by one thread per CPU without waiting, measured in the same rounds. It is {1} times \
             the time computed from the speed of one CPU while the others are idle ({0} iterations per us). Medians, 95 % intervals",
            text::figure(field.iterations_per_us),
            text::estimate(&Series::of(measured.iter().map(|m| m.ideal_to_one_cpu.estimate.median).collect()).estimate)
        ),
        format!(
            "ideal time of a run: {} s, but {} s for spin 1 ms and {} s for spin 0.2 ms; times with cox include the first \
             quarter of a second, in which cox only observes",
            text::figure(4.0 * field.scale),
            text::figure(1.6 * field.scale),
            text::figure(field.scale)
        ),
        format!(
            "control: two threads on two CPUs (spin 1 ms) take {} times the ideal time; the difference is the cost of one barrier per millisecond",
            text::estimate(&control.estimate)
        ),
        format!(
            "target (then): in brackets, elapsed / ideal with taskset when the target was set; taskset counts as bad above {TASKSET_BAD} times the ideal"
        ),
    ];
    let cut_short: usize = measured.iter().map(|m| m.cut_short).sum();
    if cut_short > 0 {
        notes.push(format!(
            "{cut_short} runs were ended after {LIMIT} times the ideal time: their values are lower bounds"
        ));
    }
    let part = Part::new("barriers", "threads that wait for each other at barriers: taskset compared with cox pack")
        .with_table(text::table(&headings, 1, rows.collect()))
        .with_lines(&measured)?
        .with_notes(notes)
        .with_verdicts(verdicts);
    Ok((part, measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(target: Target, taskset: f64, cox: f64) -> Measured {
        let series = |value: f64| Series::of(vec![value; 15]);
        let line = Line { target, ..LINES[0] };
        Measured {
            line,
            ideal_to_one_cpu: series(1.0),
            taskset: series(taskset),
            cox: series(cox),
            ratio: series(cox / taskset),
            controller_percent: series(3.0),
            cut_short: 0,
        }
    }

    #[test]
    fn every_line_of_acceptance_is_there_once() {
        let count =
            |threads, wait| LINES.iter().filter(|line| line.ratio.threads == threads && line.wait == wait).count();
        assert_eq!(Wait::ALL.map(|wait| count(3, wait)), [3, 2, 1, 3]);
        assert_eq!(Wait::ALL.map(|wait| count(5, wait)), [2, 0, 0, 0]);
        assert_eq!(Wait::ALL.map(|wait| count(4, wait)), [3; 4], "all modes");
        for (place, line) in LINES.iter().enumerate() {
            assert!(LINES[..place].iter().all(|other| other.name() != line.name()), "{}", line.name());
        }
    }

    #[test]
    fn work_is_that_of_the_ideal_time() {
        for line in LINES {
            let ideal_s = line.rounds(1.0) as f64 * line.phase_us as f64 / 1e6 * line.ratio.ideal();
            assert!((ideal_s / line.ideal_s(1.0) - 1.0).abs() < 0.01, "{}", line.name());
            assert!(line.rounds(1e-9) == 1);
        }
        assert_eq!(LINES[0].rounds(1.0), 3333);
        let arguments = LINES[0].arguments(1.0, 885.5).join(" ");
        assert!(
            arguments.starts_with("--threads 3 --wait spin --spin-us 350 --work-us 200 --rounds 3333"),
            "{arguments}"
        );
        assert!(arguments.ends_with("--iterations-per-us 885.5"), "{arguments}");
    }

    #[test]
    fn targets() {
        use Outcome::{Fail, Pass};
        assert_eq!(measured(Target::AtMost(1.35), 2.7, 1.35).outcome(), Pass);
        assert_eq!(measured(Target::AtMost(1.35), 2.7, 1.36).outcome(), Fail);
        assert_eq!(measured(Target::NoWorse, 1.0, 1.02).outcome(), Pass);
        assert_eq!(measured(Target::NoWorse, 1.0, 1.03).outcome(), Fail);
        assert_eq!(measured(Target::NoWorseOrMuchBetter, 1.5, 1.5).outcome(), Pass, "taskset is good enough");
        assert_eq!(measured(Target::NoWorseOrMuchBetter, 3.0, 2.1).outcome(), Fail, "1.43 times better");
        assert_eq!(measured(Target::NoWorseOrMuchBetter, 3.0, 2.0).outcome(), Pass);
        let text = measured(Target::AtMost(1.35), 2.7, 1.36).verdict().text;
        assert!(text.contains("3/2 spin 0.2 ms") && text.contains("1.36 (1.36 .. 1.36)"), "{text}");
    }

    #[test]
    fn more_rounds_take_longer() {
        assert_eq!(expected_s(&LINES, 30, 1.0), 2.0 * expected_s(&LINES, 15, 1.0));
        assert!(expected_s(&LINES, 15, 0.1) < expected_s(&LINES, 15, 1.0));
    }
}
