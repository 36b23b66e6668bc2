//! `cox quiet measure`: what each level wins on this machine, and what a housekeeping CPU pays.
//!
//! Each measurement is a session of its own, as a user would start it: `cox quiet --level LEVEL -- cox noise`. So what
//! is measured is what the commands do, and whatever happens to this process, nothing stays changed. All levels take
//! turns in each round, in an order of its own, so that a slow drift of the machine affects all of them alike.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use changes::LiveKnobIo;
use compare::stats::{Estimate, median_estimate};
use forecast::Question;
use machine::{CpuSet, Root};
use outputs::Output;
use quiet::{Chosen, Facts, Level};
use random::Random;
use report::noise::NoiseReport;
use report::quiet::{AtLevel, LEVELS_SCHEMA_VERSION, LevelsReport};
use session::provenance;
use tempfile::TempDir;

use crate::cli::QuietMeasure;
use crate::faces::print;
use crate::recordings::noise::of_report;

/// Warm-up of the loop on the quiet CPUs.
const WARM_UP: Duration = Duration::from_secs(1);
/// Warm-up of the loop on the housekeeping CPU, which begins while the other one warms up: cox has changed everything
/// by then.
const WARM_UP_BESIDE: Duration = Duration::from_millis(200);

/// What one measurement found.
struct Found {
    /// Share of the CPUs' time that was stolen, its parts (ticks, this kernel otherwise, the rest), and the steal
    /// clock.
    shares: [f64; 5],
    /// Slowdown of the program of the forecast; `None` if there is no estimate.
    slowdown: Option<f64>,
    /// The least that it is.
    at_least: f64,
    /// Stolen share of the housekeeping CPU.
    housekeeping: Option<f64>,
}

/// Measures all levels and reports.
pub fn measure(options: &QuietMeasure) -> Result<u8> {
    let json_output = Output::wanted(options.json.as_deref())?;
    let mut facts = Facts::read(&Root::live()).context("cannot examine this machine")?;
    let wanted = options.wanted();
    if rustix::process::geteuid().is_root() {
        facts.probe_interrupts(&LiveKnobIo::new(Root::live()), &wanted.candidates(&facts));
    }
    let chosen = wanted.choose(&facts)?;
    let levels: Vec<Level> = Level::ALL.into_iter().filter(|level| *level < Level::Tickless).collect();
    if !rustix::process::geteuid().is_root() {
        bail!("only root may change settings of the machine. Fix: sudo cox quiet measure …");
    }
    let field = Field::new(options, chosen)?;
    let mut found: Vec<Vec<Found>> = levels.iter().map(|_| Vec::new()).collect();
    let mut random = Random::new(levels.len() as u64);
    let mut order: Vec<usize> = (0..levels.len()).collect();
    for _ in 0..options.rounds {
        random.shuffle(&mut order);
        for &at in &order {
            found[at].push(field.at(levels[at])?);
        }
    }
    let report = LevelsReport {
        schema_version: LEVELS_SCHEMA_VERSION,
        cox_version: env!("CARGO_PKG_VERSION").to_owned(),
        provenance: provenance::here("cox", None),
        cpus: field.chosen.cpus.to_string(),
        housekeeping_cpu: field.beside(),
        rounds: u64::from(options.rounds),
        length_ns: options.length.as_nanos() as u64,
        ranks: options.ranks,
        work_ns: options.work.as_nanos() as u64,
        levels: (0..levels.len())
            .map(|at| of_level(levels[at], &found[at], at.checked_sub(1).map(|at| &found[at])))
            .collect(),
    };
    let text_output = (!matches!(json_output, Some(Output::Stdout))).then_some(Output::Stdout);
    print(text_output, false, |style| report.text(style))?;
    if let Some(output) = json_output {
        output.write(&serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(0)
}

fn of_level(level: Level, found: &[Found], before: Option<&Vec<Found>>) -> AtLevel {
    let of = |figure: &dyn Fn(&Found) -> f64| median_estimate(&found.iter().map(figure).collect::<Vec<f64>>());
    let gain = |before: &Vec<Found>| {
        let pairs = before.iter().zip(found);
        median_estimate(&pairs.map(|(before, after)| before.shares[0] - after.shares[0]).collect::<Vec<f64>>())
    };
    let (slowdown, slowdown_is_bound) = slowdown(found);
    let housekeeping: Vec<f64> = found.iter().filter_map(|found| found.housekeeping).collect();
    AtLevel {
        level: level.to_string(),
        stolen: of(&|found| found.shares[0]),
        ticks: of(&|found| found.shares[1]),
        kernel: of(&|found| found.shares[2]),
        rest: of(&|found| found.shares[3]),
        steal: of(&|found| found.shares[4]),
        gain: before.map(gain),
        slowdown: Some(slowdown),
        slowdown_is_bound,
        housekeeping: (!housekeeping.is_empty()).then(|| median_estimate(&housekeeping)),
        values: found.iter().map(|found| found.shares).collect(),
    }
}

/// Returns the slowdown of the program over the rounds, and whether it is a lower bound: if a round has no estimate,
/// only the bounds are known of all of them.
fn slowdown(found: &[Found]) -> (Estimate, bool) {
    let estimates: Option<Vec<f64>> = found.iter().map(|found| found.slowdown).collect();
    match estimates {
        Some(estimates) => (median_estimate(&estimates), false),
        None => (median_estimate(&found.iter().map(|found| found.at_least).collect::<Vec<f64>>()), true),
    }
}

/// The CPUs, and how they are measured.
struct Field<'o> {
    options: &'o QuietMeasure,
    chosen: Chosen,
    program: PathBuf,
    scratch: TempDir,
}

impl<'o> Field<'o> {
    fn new(options: &'o QuietMeasure, chosen: Chosen) -> Result<Field<'o>> {
        let program = env::current_exe().context("cannot find this program")?;
        let scratch = tempfile::Builder::new().prefix("cox.").tempdir().context("no temporary folder")?;
        Ok(Field { options, chosen, program, scratch })
    }

    /// Returns the housekeeping CPU that is measured beside: only one, so that the others have their usual work.
    fn beside(&self) -> Option<u32> {
        self.chosen.housekeeping.first().filter(|_| !self.options.alone)
    }

    fn at(&self, level: Level) -> Result<Found> {
        let (quiet, beside) = (self.scratch.path().join("quiet.json"), self.scratch.path().join("beside.json"));
        let mut command = Command::new(&self.program);
        let (cpus, length) = (self.chosen.cpus.to_string(), self.options.length);
        command.args(["quiet", "--quiet", "--cpus", &cpus, "--level", level.name(), "--"]).arg(&self.program);
        noise(&mut command, &self.chosen.cpus, length, WARM_UP, &quiet);
        let running = start(&mut command)?;
        let other = self.beside().map(|cpu| {
            thread::sleep(WARM_UP);
            let mut command = Command::new(&self.program);
            noise(&mut command, &[cpu].into_iter().collect(), length / 2, WARM_UP_BESIDE, &beside);
            start(command.arg("--no-causes"))
        });
        finish(running, level)?;
        if let Some(other) = other {
            finish(other?, level)?;
        }
        let report = read(&quiet)?;
        let beside = self.beside().map(|_| read(&beside)).transpose()?;
        let shares = report.shares();
        let (slowdown, at_least) = self.slowdown(report)?;
        Ok(Found { shares, slowdown, at_least, housekeeping: beside.map(|report| report.shares()[0]) })
    }

    /// Returns the estimate of the program's slowdown, if there is one, and the least that it is.
    fn slowdown(&self, report: NoiseReport) -> Result<(Option<f64>, f64)> {
        let recording = of_report(report)?.recording;
        let question = Question {
            ranks: vec![self.options.ranks],
            ranks_per_node: recording.cpus.len() as u32,
            work_ns: vec![self.options.work.as_nanos() as u64],
            sync_ns: 0,
            seed: 1,
        };
        let answer = forecast::forecast(&recording, &question)?;
        let scale = answer.works[0].scales[0];
        Ok((scale.estimate.map(|estimate| estimate.value), scale.at_least))
    }
}

fn read(json: &Path) -> Result<NoiseReport> {
    let bytes = fs::read(json).context("cox noise wrote no JSON")?;
    NoiseReport::of_json(&bytes).map_err(anyhow::Error::msg)
}

/// Adds the words of `cox noise`.
fn noise(command: &mut Command, cpus: &CpuSet, length: Duration, warm_up: Duration, json: &Path) {
    let ms = |time: Duration| format!("{}ms", time.as_millis());
    command.args(["noise", "--quiet", "--cpus", &cpus.to_string(), "--for", &ms(length), "--warm-up", &ms(warm_up)]);
    command.arg("--json").arg(json);
}

fn start(command: &mut Command) -> Result<Child> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    piped.spawn().context("cannot start cox")
}

fn finish(child: Child, level: Level) -> Result<()> {
    let output = child.wait_with_output().context("cannot wait for cox")?;
    if !output.status.success() {
        bail!("level {level}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_never_mixes_estimates_and_bounds() {
        let found =
            |slowdown: Option<f64>, at_least| Found { shares: [0.0; 5], slowdown, at_least, housekeeping: None };
        let all = [found(Some(3.0), 1.1), found(Some(4.0), 1.2), found(Some(5.0), 1.3)];
        assert_eq!(slowdown(&all), (Estimate { median: 4.0, interval: None }, false));
        let one_bound = [found(Some(3.0), 1.1), found(None, 1.2), found(Some(5.0), 1.3)];
        assert_eq!(slowdown(&one_bound), (Estimate { median: 1.2, interval: None }, true));
    }
}
