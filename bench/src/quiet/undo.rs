//! The time until everything is back: after the program's normal end, and after SIGKILL of cox, when the guardian
//! restores.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use changes::{JournalFolder, LiveKnobIo};
use machine::Root;
use quiet::ENGINE;

use super::place::Place;
use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::{median, median_estimate, shown};
use crate::verdict::at_most;

/// The guardian may take this many times as long.
const LIMIT: f64 = 2.0;
const LONGEST: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_micros(500);

pub fn undo(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    let cpu = Place::chosen()?.cpu.to_string();
    let times = in_turns(2, runs.into(), |at| time(field, &cpu, at == 1))?;
    let [normal_ms, killed_ms] = [0, 1].map(|at: usize| 1e3 * median(&times[at]));
    found.line(format!(
        "until everything is back: {normal_ms:.1} ms after the program's end, {killed_ms:.1} ms after SIGKILL"
    ));
    let ratios: Vec<f64> = times[1].iter().zip(&times[0]).map(|(killed, normal)| killed / normal).collect();
    let ratio = median_estimate(&ratios);
    found.judge(
        at_most(&ratio, LIMIT),
        format!("time of the guardian / time of cox: {} (limit {LIMIT})", shown(&ratio, 2)),
    );
    Ok(found)
}

/// Returns whether any session keeps CPUs quiet: its journal is removed last.
fn is_quiet() -> Result<bool> {
    let entries = JournalFolder::of_user().look(&LiveKnobIo::new(Root::live()))?.entries;
    Ok(entries.iter().any(|entry| entry.changes().iter().any(|change| change.engine == ENGINE)))
}

fn wait(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_so()? {
        if start.elapsed() > LONGEST {
            bail!("{what} after {LONGEST:?}");
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns the time from the program's end, or from SIGKILL of cox, until everything is back, s.
fn time(field: &Field<'_>, cpu: &str, is_killed: bool) -> Result<f64> {
    field.check()?;
    let mut command = Command::new(&field.cox);
    // The program says when it runs, and ends when its input does.
    command.args(["quiet", "--quiet", "--cpus", cpu, "--", "sh", "-c", "echo; read line"]);
    let mut cox = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start cox")?;
    let mut byte = [0];
    std::io::Read::read_exact(cox.stdout.as_mut().context("no output")?, &mut byte)?;
    let start = Instant::now();
    if is_killed {
        cox.kill()?;
    } else {
        drop(cox.stdin.take());
    }
    wait("not everything is back", || Ok(!is_quiet()?))?;
    let seconds = start.elapsed().as_secs_f64();
    drop(cox.stdin.take());
    cox.wait()?;
    Ok(seconds)
}
