//! How quickly `cox report` turns a recording of `perf sched record` into an account, compared with `perf sched timehist -s`. timehist is
//! the baseline: it adds up times too, but does not distinguish thread states.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use super::analysis::{once, recording, silent};
use super::case::{Bench, CONTROL, noise, progress};
use crate::memory::most_anonymous;
use crate::process::ending;
use crate::results::{Case, Column, Figure, Shown};
use crate::rounds::interleave;
use crate::table;
use crate::verdict::{Outcome, Verdict, at_most};

const ROUNDS: usize = 11;
const REPORT: &str = "cox report";
const RATIO_LIMIT: f64 = 0.5;
const MEMORY_LIMIT: u64 = 32 << 20;
/// Duration of the recorded ping-pong, s; perf writes about 165 MB.
const SECONDS: &str = "2.8";
const QUICK_SECONDS: &str = "0.5";

/// Measures the case `reading`: `cox report` compared with `perf sched timehist -s`.
pub fn measure(bench: &Bench<'_>) -> Result<Case> {
    let perf = bench.tools.perf.as_ref().map_err(|why| anyhow!("{why}"))?;
    let cox = bench.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
    let file = bench.scratch.path().join("reading.data");
    let megabytes = recording(bench, perf, &file, if bench.options.quick { QUICK_SECONDS } else { SECONDS })?;
    let report = || {
        let mut command = Command::new(cox);
        command.arg("report").arg(&file);
        command
    };
    let summary = || {
        let mut command = Command::new(perf);
        command.args(["sched", "timehist", "-s", "-i"]).arg(&file);
        command
    };
    let columns = [REPORT, CONTROL].map(|name| Column { name, impossible: None });
    let rounds = bench.rounds(ROUNDS);
    progress(&format!("reading: {rounds} rounds of {} runs over {megabytes} MB", 2 * columns.len()));
    let all = interleave(columns.len(), rounds, |treatment| {
        bench.interrupt.check()?;
        once(&mut if treatment == Some(0) { report() } else { summary() })
    })?;
    let wall = Figure::new("wall", Shown::Ms, &columns, all.figure(|cost| cost.wall_ns as f64));
    let cpu_time = Figure::new("CPU time", Shown::Ms, &columns, all.figure(|cost| cost.cpu_ns as f64));
    let most = memory(report(), cox)?;
    Ok(Case {
        name: "reading",
        about: format!("{megabytes} MB recorded by perf sched record; 'plain' is perf sched timehist -s"),
        notes: noise(&wall, 1.1).into_iter().collect(),
        verdicts: vec![half(&wall), small(most)],
        figures: vec![wall, cpu_time],
    })
}

/// Returns the peak anonymous memory of one run in bytes. The run is not timed, because polling its memory costs time.
fn memory(mut report: Command, cox: &Path) -> Result<u64> {
    let (status, most) = most_anonymous(silent(&mut report)).with_context(|| format!("cannot start {cox:?}"))?;
    if !status.success() {
        bail!("{report:?}: {}", ending(status));
    }
    Ok(most)
}

fn half(wall: &Figure) -> Verdict {
    let criterion = format!("cox report takes at most {RATIO_LIMIT} times as long as perf sched timehist -s");
    match wall.with(REPORT).and_then(|report| report.ratio) {
        Some(ratio) => Verdict {
            outcome: at_most(&ratio, RATIO_LIMIT),
            text: format!("{criterion}: {} times", table::ratio(&ratio)),
        },
        None => Verdict { outcome: Outcome::NotMeasured, text: criterion },
    }
}

fn small(most: u64) -> Verdict {
    let outcome = match most {
        // The process had ended before its memory was read.
        0 => Outcome::NotMeasured,
        _ if most < MEMORY_LIMIT => Outcome::Pass,
        _ => Outcome::Fail,
    };
    let (limit, megabytes) = (MEMORY_LIMIT >> 20, most as f64 / f64::from(1 << 20));
    Verdict { outcome, text: format!("cox report's anonymous memory stays below {limit} MB: {megabytes:.1} MB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_not_seen_keeps_no_limit() {
        let outcomes = [0, 1, MEMORY_LIMIT - 1, MEMORY_LIMIT].map(|most| small(most).outcome);
        assert_eq!(outcomes, [Outcome::NotMeasured, Outcome::Pass, Outcome::Pass, Outcome::Fail]);
    }
}
