//! What it costs that members exist: the time from their creation to their end, and their memory.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::kind::Kind;
use crate::interrupt::Interrupt;
use crate::process::{ending, run_within};
use crate::tools::Tools;

/// The kernel frees the memory of thousands of programs that have ended in steps, for seconds. All but so many bytes must be free for the next run.
const NEARLY_BYTES: u64 = 4 << 20;
/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(60);
/// The kernel's account of free memory has settled when it changes by less than so many bytes in this time.
const SETTLED_BYTES: u64 = 1 << 20;
const SETTLED: Duration = Duration::from_millis(500);

/// Starts `count` programs by posix_spawn(3), and waits for all.
///
/// # Errors
/// When one cannot be started.
pub fn spawns(count: u64, program: &[OsString]) -> Result<u8> {
    let [name, arguments @ ..] = program else { bail!("no program") };
    let start = |_| Command::new(name).args(arguments).spawn().context("cannot start a program");
    let children = (0..count).map(start).collect::<Result<Vec<_>>>()?;
    for mut child in children {
        child.wait().context("cannot wait for a program")?;
    }
    Ok(0)
}

/// The command that starts `count` members of a kind, all of which run `program`.
fn members(tools: &Tools, cox: &Path, kind: Kind, count: u64, program: &[&str]) -> Command {
    let count = count.to_string();
    let mut command = match kind {
        Kind::Ulps => Command::new(cox),
        _ => Command::new(&tools.own),
    };
    match kind {
        Kind::Ulps => command.args(["ulp", "-q", "-n", &count, "--"]),
        _ => command.args(["spawns", &count, "--"]),
    };
    // Otherwise, programs map a dozen files of their locale.
    command.env("LC_ALL", "C").args(program).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Measures the time from the creation of a member to its end, ns: all run an empty program on one CPU. The command that starts them is part of it.
pub(super) fn time(
    tools: &Tools,
    cox: &Path,
    kind: Kind,
    count: u64,
    cpu: usize,
    interrupt: &Interrupt,
) -> Result<f64> {
    let inner = members(tools, cox, kind, count, &["true"]);
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(inner.get_program()).args(inner.get_args()).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let ended = run_within(&mut command, LIMIT, || interrupt.check().is_err())?;
    interrupt.check()?;
    if !ended.status.success() {
        bail!("{}: {}", kind.name(), ending(ended.status));
    }
    Ok(ended.cost.wall_ns as f64 / count as f64)
}

/// Measures the memory of a member that sleeps, bytes: what the kernel no longer has for others while all of them do.
pub(super) fn memory(tools: &Tools, cox: &Path, kind: Kind, count: u64, interrupt: &Interrupt) -> Result<f64> {
    let (before, (all, asleep)) = (settled_bytes()?, sleepers()?);
    let measured = Cell::new(None);
    let all_sleep = || sleepers().is_ok_and(|(_, now)| now >= asleep + count as usize);
    run_within(&mut members(tools, cox, kind, count, &["sleep", "60"]), LIMIT, || {
        if all_sleep() {
            measured.set(settled_bytes().ok());
        }
        measured.get().is_some() || interrupt.check().is_err()
    })?;
    interrupt.check()?;
    let begun = Instant::now();
    while (sleepers()?.0 > all || available_bytes()? + NEARLY_BYTES < before) && begun.elapsed() < LIMIT / 2 {
        sleep(SETTLED);
    }
    let now = measured.get().with_context(|| format!("{}: {count} sleeping programs were not seen", kind.name()))?;
    Ok((before as f64 - now as f64) / count as f64)
}

/// Returns the number of processes that run sleep(1), and how many of them sleep; the others begin or end. ULPs have a number behind the name.
fn sleepers() -> Result<(usize, usize)> {
    let processes = fs::read_dir("/proc").context("cannot read /proc")?.flatten();
    let stats = processes.filter_map(|one| fs::read_to_string(one.path().join("stat")).ok());
    let asleep: Vec<bool> = stats.filter_map(|stat| is_asleep(&stat)).collect();
    Ok((asleep.len(), asleep.iter().filter(|is_asleep| **is_asleep).count()))
}

/// Returns whether the sleep(1) of this line of /proc/PID/stat sleeps; `None` if it is that of another program.
fn is_asleep(stat: &str) -> Option<bool> {
    let (_, name) = stat.split_once('(')?;
    let (_, state) = stat.rsplit_once(") ")?;
    (name.starts_with("sleep)") || name.starts_with("sleep.")).then(|| state.starts_with('S'))
}

/// Returns the memory that programs can still get when it has settled, bytes.
fn settled_bytes() -> Result<u64> {
    let begun = Instant::now();
    let mut last = available_bytes()?;
    loop {
        sleep(SETTLED);
        let now = available_bytes()?;
        if now.abs_diff(last) < SETTLED_BYTES || begun.elapsed() > LIMIT / 2 {
            return Ok(now);
        }
        last = now;
    }
}

/// Returns the memory that programs can still get, bytes (MemAvailable in /proc/meminfo).
fn available_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map(|kib: u64| kib << 10).context("/proc/meminfo has no MemAvailable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_recognised_by_name_and_state() {
        assert_eq!(is_asleep("12 (sleep) S 1 12 12"), Some(true));
        assert_eq!(is_asleep("12 (sleep.7) S 1 12 12"), Some(true));
        assert_eq!(is_asleep("12 (sleep.7) Z 1 12 12"), Some(false));
        assert_eq!(is_asleep("12 (sleepy) S 1 12 12"), None);
        assert_eq!(is_asleep("12 (a (sleep) S 1) R 1 12 12"), None);
    }
}
