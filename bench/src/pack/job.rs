//! Runs of one benchmark kernel with a given amount of work, in one of several ways (with taskset, packed by cox, ...).

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::catalogue::Kernel;
use super::field::{Confined, Field, Run};
use super::output::{self, KernelSaid};
use super::ratio::Ratio;

/// Target duration of a benchmark kernel with as many threads as CPUs, s.
pub const USUAL_S: f64 = 1.0;
/// Time limit for runs of a benchmark kernel whose duration is still unknown.
pub const FIRST_LIMIT: Duration = Duration::from_secs(120);

/// A way to run one of the twelve benchmark kernels (`workloads/kernels`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum With {
    /// All threads, confined by taskset and placed by Linux: TP in the PALM paper.
    Taskset,
    /// As many threads as CPUs: TR in the PALM paper.
    FewerThreads,
    /// All threads, packed with the fixed scheduling period with which the benchmark kernel was fastest.
    StaticBest,
    /// All threads, packed by the PALM paper's rules.
    Palm,
    /// All threads, packed by cox.
    Ours,
}

impl With {
    /// All ways to run a benchmark kernel, in the order of the table.
    pub const ALL: [With; 5] = [With::Taskset, With::FewerThreads, With::StaticBest, With::Palm, With::Ours];

    /// Returns the printed name.
    pub fn word(self) -> &'static str {
        match self {
            With::Taskset => "taskset",
            With::FewerThreads => "fewer threads",
            With::StaticBest => "static best",
            With::Palm => "palm",
            With::Ours => "cox pack",
        }
    }
}

/// The results of one run of a benchmark kernel.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time of the parallel part, s; if cut short, time of the whole command until it was ended.
    pub elapsed_s: f64,
    /// CPU time of the program and cox, s.
    pub cpu_s: f64,
    /// True if the run was ended at the time limit: the elapsed time is then a lower bound.
    pub cut_short: bool,
    /// CPU time of cox, in percent of one CPU.
    pub own_percent: Option<f64>,
    /// Number of times that a thread was moved to another CPU: in the whole run, and per second.
    pub moves: Option<(f64, f64)>,
    /// What the benchmark kernel printed at its end.
    pub said: Option<KernelSaid>,
}

impl Sample {
    fn of(run: &Run) -> Result<Sample> {
        let said = if run.cut_short { None } else { Some(output::kernel(&run.output)?) };
        Ok(Sample {
            elapsed_s: said.as_ref().map_or(run.wall_s, |said| said.elapsed_s),
            cpu_s: run.cpu_s,
            cut_short: run.cut_short,
            own_percent: run.told.as_ref().map(output::PackFigures::own_percent),
            moves: run.told.as_ref().map(|told| (told.moves as f64, told.moves_per_s())),
            said,
        })
    }
}

/// A benchmark kernel with its amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The benchmark kernel.
    pub kernel: &'static Kernel,
    /// Value of `--steps`.
    pub steps: u64,
    /// Number of threads and number of CPUs.
    pub ratio: Ratio,
}

impl Job {
    /// Chooses the amount of work such that the benchmark kernel runs for the target duration on `ratio.cpus` CPUs.
    pub fn calibrated(field: &Field<'_>, kernel: &'static Kernel, ratio: Ratio) -> Result<Job> {
        let tried = (kernel.steps / 4).max(kernel.least_steps);
        let trial = Job { kernel, steps: tried, ratio: Ratio { threads: 1, cpus: 1 } };
        let sample = trial.run(field, 1, &Confined::Taskset, FIRST_LIMIT)?;
        // Take the smaller one of the two times. The CPU time also contains the start and the end of the program; the elapsed time also contains
        // delays by other programs.
        let work_s = sample.elapsed_s.min(sample.cpu_s);
        let wanted_s = USUAL_S * field.scale * ratio.cpus as f64;
        Ok(Job { kernel, steps: steps_for(tried, work_s, wanted_s).max(kernel.least_steps), ratio })
    }

    /// Runs the benchmark kernel with `threads` threads.
    pub fn run(&self, field: &Field<'_>, threads: usize, confined: &Confined, limit: Duration) -> Result<Sample> {
        let arguments = ["--threads".into(), threads.to_string(), "--steps".into(), self.steps.to_string()];
        let program = field.program(&format!("kernel-{}", self.kernel.name), &arguments)?;
        Sample::of(&field.run(self.ratio.cpus, confined, &program, limit)?)
    }

    /// Runs the benchmark kernel in the way `with`. For `StaticBest`, `best_ms` is the scheduling period to use, ms; the other ways ignore it.
    pub fn run_with(&self, field: &Field<'_>, with: With, best_ms: f64, limit: Duration) -> Result<Sample> {
        let (threads, confined) = match with {
            With::Taskset => (self.ratio.threads, Confined::Taskset),
            With::FewerThreads => (self.ratio.cpus, Confined::Taskset),
            With::StaticBest => (self.ratio.threads, fixed(best_ms)),
            With::Palm => (self.ratio.threads, Confined::palm(None)),
            With::Ours => (self.ratio.threads, Confined::packed("")),
        };
        self.run(field, threads, &confined, limit)
    }
}

/// Returns `cox pack` with a fixed scheduling period of `period_ms`. Because of `--always`, cox rotates the threads even if nothing is gained by it.
fn fixed(period_ms: f64) -> Confined {
    Confined::packed(&format!("--always --period {period_ms}ms"))
}

/// Returns the number of steps that take `wanted_s`, if `tried` steps took `work_s`.
fn steps_for(tried: u64, work_s: f64, wanted_s: f64) -> u64 {
    (tried as f64 * wanted_s / work_s.max(1e-6)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_in_proportion_to_steps() {
        assert_eq!(steps_for(75, 0.3, 2.0), 500);
        assert_eq!(fixed(0.125), Confined::packed("--always --period 0.125ms"));
    }
}
