//! Whole runs of a program: alone, under `cox run`, under `perf sched record`.
//!
//! Each run gives four figures. Two describe the program, and are measured by a stopwatch between the observer and the program: wall time, which has
//! the limit, and CPU time. Two describe the whole command: the same times, with the observer's start and the writing of its report or trace. This
//! additional time does not depend on how long the program runs.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use super::case::{Bench, CONTROL, COX, PERF, noise, progress};
use crate::process::{Cost, ending, first_line, run};
use crate::results::{Case, Column, Figure, Shown};
use crate::rounds::interleave;
use crate::stopwatch;
use crate::table;
use crate::verdict::{Outcome, Verdict, at_most};

const ROUNDS: usize = 11;
const RATIO_LIMIT: f64 = 1.01;

/// A program whose running time can be chosen by its amount of work.
pub struct Program<'a> {
    /// Name on the command line.
    pub name: &'static str,
    /// Returns a description of the run with the given amount of work.
    pub about: Box<dyn Fn(u64) -> String + 'a>,
    /// Amount of work to try first. It is increased until a run takes long enough to be measured.
    pub least_work: u64,
    /// Returns the command that does the given amount of work.
    pub command: Box<dyn Fn(u64) -> Result<Vec<OsString>> + 'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Control,
    Cox,
    Perf,
}

impl Treatment {
    fn name(self) -> &'static str {
        match self {
            Treatment::Control => CONTROL,
            Treatment::Cox => COX,
            Treatment::Perf => PERF,
        }
    }
}

/// Costs of one run: of the program alone, and of the whole command with the observer.
#[derive(Clone, Copy, Debug)]
struct Run {
    program: Cost,
    command: Cost,
}

/// Measures the case of this program by whole runs: alone, under cox, under perf.
pub fn measure(bench: &Bench<'_>, program: &Program<'_>) -> Result<Case> {
    let target_ns = if bench.options.quick { 300_000_000 } else { 1_300_000_000 };
    let work = enough_work(program.least_work, target_ns, |work| {
        let command = (program.command)(work)?;
        let mut shortest_ns = u64::MAX;
        // Run twice, and use the shorter time: if a run is disturbed, it takes longer, and too little work would look like enough.
        for _ in 0..2 {
            bench.interrupt.check()?;
            shortest_ns = shortest_ns.min(run_once(bench, &command, None)?.program.wall_ns);
        }
        Ok(shortest_ns)
    })?;
    let command = (program.command)(work)?;

    let mut columns = Vec::new();
    let mut possible = Vec::new();
    for treatment in [Treatment::Control, Treatment::Cox, Treatment::Perf] {
        let tried = run_once(bench, &command, Some(treatment));
        bench.interrupt.check()?;
        let impossible = tried.err().map(|error| format!("{error:#}"));
        if impossible.is_none() {
            possible.push(treatment);
        }
        columns.push(Column { name: treatment.name(), impossible });
    }
    let rounds = bench.rounds(ROUNDS);
    progress(&format!("{}: {rounds} rounds of {} runs", program.name, 2 * possible.len()));
    let all = interleave(possible.len(), rounds, |treatment| {
        bench.interrupt.check()?;
        run_once(bench, &command, treatment.map(|index| possible[index]))
    })?;

    let figure = |name, of: fn(&Run) -> u64| Figure::new(name, Shown::Ms, &columns, all.figure(|run| of(run) as f64));
    let wall = figure("program wall", |run| run.program.wall_ns);
    Ok(Case {
        name: program.name,
        about: format!("{}; {rounds} rounds of whole runs", (program.about)(work)),
        notes: noise(&wall, RATIO_LIMIT).into_iter().collect(),
        verdicts: vec![cost(&wall)],
        figures: vec![
            wall,
            figure("program CPU", |run| run.program.cpu_ns),
            figure("command wall", |run| run.command.wall_ns),
            figure("command CPU", |run| run.command.cpu_ns),
        ],
    })
}

fn cost(wall: &Figure) -> Verdict {
    let criterion = format!("the program's wall time with cox is at most {RATIO_LIMIT} times the plain one");
    match wall.with(COX).and_then(|cox| cox.ratio) {
        Some(ratio) => Verdict {
            outcome: at_most(&ratio, RATIO_LIMIT),
            text: format!("{criterion}: {} times", table::ratio(&ratio)),
        },
        None => Verdict { outcome: Outcome::NotMeasured, text: criterion },
    }
}

/// Returns an amount of work, at least `least`, whose run takes at least `target_ns` (found in at most eight tries). Each try is measured, because a
/// run has a fixed part, so its time is not proportional to the work.
fn enough_work(least: u64, target_ns: u64, mut wall_ns: impl FnMut(u64) -> Result<u64>) -> Result<u64> {
    let mut work = least;
    for _ in 0..8 {
        let took_ns = wall_ns(work)?.max(1);
        if took_ns >= target_ns {
            break;
        }
        let factor = (target_ns as f64 / took_ns as f64 * 1.05).min(20.0);
        work = (work as f64 * factor).ceil() as u64;
    }
    Ok(work)
}

fn run_once(bench: &Bench<'_>, program: &[OsString], treatment: Option<Treatment>) -> Result<Run> {
    let scratch = bench.scratch.path();
    let (time, messages) = (scratch.join("time"), scratch.join("messages"));
    let (mut command, output) = observer(bench, treatment, scratch)?;
    command
        .arg("stopwatch")
        .arg(&time)
        .arg("--")
        .args(program)
        // These variables of a make that runs cox-bench must not reach the measured make.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&messages).context("cannot write into the temporary folder")?);
    let (status, cost) = run(&mut command).context("cannot start the command")?;
    if !status.success() {
        let words = first_line(&messages).unwrap_or_else(|| "no message".into());
        bail!("{}: {words}", ending(status));
    }
    if let Some(output) = output {
        let bytes = output.metadata().map_or(0, |info| info.len());
        if bytes == 0 {
            bail!("its output file is missing or empty");
        }
        std::fs::remove_file(&output).context("cannot remove the observer's output file")?;
    }
    Ok(Run { program: stopwatch::take(&time)?, command: cost })
}

/// Returns a command that runs cox-bench (which then times the program) under the observer, and the file that the observer must write. The caller
/// appends the arguments of cox-bench. Without an observer, the command is cox-bench alone, and there is no file.
fn observer(bench: &Bench<'_>, treatment: Option<Treatment>, scratch: &Path) -> Result<(Command, Option<PathBuf>)> {
    let own = &bench.tools.own;
    let (tool, arguments, file) = match treatment {
        None | Some(Treatment::Control) => return Ok((Command::new(own), None)),
        Some(Treatment::Cox) => (&bench.tools.cox, &["run", "--output"][..], "report"),
        Some(Treatment::Perf) => (&bench.tools.perf, &["sched", "record", "-o"][..], "perf.data"),
    };
    let tool = tool.as_ref().map_err(|why| anyhow!("{why}"))?;
    let output = scratch.join(file);
    let mut command = Command::new(tool);
    command.args(arguments).arg(&output).arg("--").arg(own);
    Ok((command, Some(output)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_raised_until_it_lasts_in_spite_of_a_fixed_part() {
        let mut tries = 0;
        let wall = |work: u64| 200 + work * 3;
        let work = enough_work(10, 10_000, |work| {
            tries += 1;
            Ok(wall(work))
        })
        .unwrap();
        assert!(wall(work) >= 10_000 && wall(work) < 11_000, "{work}");
        assert!(tries <= 6, "{tries}");
        assert_eq!(enough_work(10, 100, |work| Ok(wall(work))).unwrap(), 10, "never less than the least");
        assert!(enough_work(10, 100, |_| bail!("no")).is_err());
    }
}
