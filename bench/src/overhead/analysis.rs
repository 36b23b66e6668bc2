//! How long it takes to read a recording of `perf sched record`: `cox report` compared with `perf sched timehist`, which is the baseline.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use super::case::{Bench, progress};
use crate::process::{Cost, ending, run};
use crate::results::{Case, Column, Figure, Shown};
use crate::rounds::interleave;
use crate::table;
use crate::verdict::{Outcome, Verdict, at_most};

const ROUNDS: usize = 5;
const REPORT: &str = "cox report";
const RATIO_LIMIT: f64 = 1.0;
/// Duration of the recorded ping-pong, s; perf writes about 50 MB per second.
const SECONDS: &str = "20";
const QUICK_SECONDS: &str = "1";

/// Measures the case `analysis`: how long it takes to read a recording of perf.
pub fn measure(bench: &Bench<'_>) -> Result<Case> {
    let perf = bench.tools.perf.as_ref().map_err(|why| anyhow!("{why}"))?;
    let cox = bench.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
    let file = bench.scratch.path().join("perf.data");
    let seconds = if bench.options.quick { QUICK_SECONDS } else { SECONDS };
    let megabytes = recording(bench, perf, &file, seconds)?;

    let commands: [(&str, &Path, &[&str]); 4] = [
        ("perf sched timehist", perf, &["sched", "timehist", "-i"]),
        ("perf … timehist -s", perf, &["sched", "timehist", "-s", "-i"]),
        (REPORT, cox, &["report"]),
        ("cox … --timehist", cox, &["report", "--timehist"]),
    ];
    let rounds = bench.rounds(ROUNDS);
    progress(&format!("analysis: {rounds} rounds of {} runs over {megabytes} MB", 2 * (commands.len() - 1)));
    let all = interleave(commands.len() - 1, rounds, |treatment| {
        bench.interrupt.check()?;
        let (_, program, arguments) = commands[treatment.map_or(0, |index| index + 1)];
        once(Command::new(program).args(arguments).arg(&file))
    })?;
    let columns: Vec<Column> = commands[1..].iter().map(|(name, ..)| Column { name, impossible: None }).collect();
    let wall = Figure::new("wall", Shown::Ms, &columns, all.figure(|cost| cost.wall_ns as f64));
    let cpu_time = Figure::new("CPU time", Shown::Ms, &columns, all.figure(|cost| cost.cpu_ns as f64));
    Ok(Case {
        name: "analysis",
        about: format!(
            "{megabytes} MB recorded by perf sched record; 'plain' is perf sched timehist with discarded output"
        ),
        notes: Vec::new(),
        verdicts: vec![no_longer(&wall)],
        figures: vec![wall, cpu_time],
    })
}

fn no_longer(wall: &Figure) -> Verdict {
    let criterion = "cox report takes no longer than perf sched timehist".to_owned();
    match wall.with(REPORT).and_then(|report| report.ratio) {
        Some(ratio) => Verdict {
            outcome: at_most(&ratio, RATIO_LIMIT),
            text: format!("{criterion}: {} times", table::ratio(&ratio)),
        },
        None => Verdict { outcome: Outcome::NotMeasured, text: criterion },
    }
}

/// Records a ping-pong with perf. Returns the size of the recording in MB.
pub(super) fn recording(bench: &Bench<'_>, perf: &Path, file: &Path, seconds: &str) -> Result<u64> {
    let mut recording = Command::new(perf);
    recording.args(["sched", "record", "-o"]).arg(file).arg("--").arg(bench.tools.workload("pingpong")?);
    once(recording.args(["--seconds", seconds]))?;
    Ok(file.metadata().context("perf wrote no perf.data")?.len() >> 20)
}

/// Runs a command without its output. Returns its cost.
pub(super) fn once(command: &mut Command) -> Result<Cost> {
    let (status, cost) = run(silent(command)).with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {}", ending(status));
    }
    Ok(cost)
}

/// Redirects standard input, output and error output to /dev/null.
pub(super) fn silent(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
