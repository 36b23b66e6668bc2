//! Runs a command and measures what it and its descendants cost.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};

/// Wall and CPU time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Wall time from before the fork until the process was reaped.
    pub wall_ns: u64,
    /// User and system time of the process and of all descendants that were waited for, without hypervisor steal.
    pub cpu_ns: u64,
}

/// Runs `command` to its end. Returns its exit status and its cost.
///
/// # Errors
/// When the command cannot be started.
pub fn run(command: &mut Command) -> io::Result<(ExitStatus, Cost)> {
    let begin_ns = arch::monotonic_ns();
    let child = command.spawn()?;
    let (status, cpu_ns) = reap(child)?;
    Ok((status, Cost { wall_ns: arch::monotonic_ns() - begin_ns, cpu_ns }))
}

/// How a run with a time limit ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Exit status, also if the process was killed at the time limit.
    pub status: ExitStatus,
    /// Wall and CPU time of the run.
    pub cost: Cost,
    /// True if the time limit was reached or `stop` returned true, so that we ended the process group.
    pub cut_short: bool,
}

/// Time from SIGTERM to SIGKILL for a process group.
const LAST_ORDERS: Duration = Duration::from_secs(5);
/// Interval at which `stop` is polled.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `command` in a process group of its own, and ends the group when `limit` has passed or `stop` returns true.
///
/// # Errors
/// When the command cannot be started or waited for.
pub fn run_within(command: &mut Command, limit: Duration, stop: impl Fn() -> bool) -> io::Result<Ended> {
    let begin_ns = arch::monotonic_ns();
    let child = command.process_group(0).spawn()?;
    let group = Pid::from_child(&child);
    let watched = pidfd_open(group, PidfdFlags::empty())?;
    let until_ns = begin_ns + limit.as_nanos() as u64;
    let cut_short = !ends_until(&watched, until_ns, stop)?;
    if cut_short {
        // The call fails if the group has just ended by itself, which is fine.
        let _ = kill_process_group(group, Signal::TERM);
        if !ends_until(&watched, arch::monotonic_ns() + LAST_ORDERS.as_nanos() as u64, || false)? {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    let (status, cpu_ns) = reap(child)?;
    Ok(Ended { status, cost: Cost { wall_ns: arch::monotonic_ns() - begin_ns, cpu_ns }, cut_short })
}

/// Returns whether the process ends before `until_ns` and before `stop` returns true.
fn ends_until(process: &OwnedFd, until_ns: u64, stop: impl Fn() -> bool) -> io::Result<bool> {
    loop {
        let left_ns = until_ns.saturating_sub(arch::monotonic_ns());
        if left_ns == 0 || stop() {
            return Ok(false);
        }
        let step_ns = left_ns.min(LOOK.as_nanos() as u64);
        let step = Timespec { tv_sec: 0, tv_nsec: step_ns as i64 };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&step)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

fn reap(child: Child) -> io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    // SAFETY: `rusage` has only integer fields, for which all zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the right types. No other code has waited for the child process: `child` is owned here and
        // only dropped afterwards.
        let reaped = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
        if reaped >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok((ExitStatus::from_raw(status), ns(usage.ru_utime) + ns(usage.ru_stime)))
}

/// Describes an exit status: "exit code 3" or "killed by signal 9".
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Returns the first non-empty line of a file: the error message of a tool that failed.
pub fn first_line(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_count_as_cpu_time_and_sleep_does_not() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (status, spun) = run(Command::new("sh").args(["-c", &format!("sh -c '{busy}'; exit 3")])).unwrap();
        assert_eq!(ending(status), "exit code 3");
        let (status, slept) = run(Command::new("sleep").arg("0.2")).unwrap();
        assert!(status.success());
        assert!(slept.wall_ns >= 200_000_000 && slept.cpu_ns < slept.wall_ns / 2, "{slept:?}");
        assert!(spun.cpu_ns > slept.cpu_ns && spun.cpu_ns <= spun.wall_ns, "{spun:?} {slept:?}");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_children() {
        let limit = Duration::from_millis(100);
        let ended = run_within(Command::new("sh").args(["-c", "sleep 60; exit 0"]), limit, || false).unwrap();
        assert!(ended.cut_short && ended.cost.wall_ns >= 100_000_000, "{ended:?}");
        assert_eq!(ending(ended.status), "killed by signal 15");
        let limit = Duration::from_secs(60);
        let ended = run_within(Command::new("sh").args(["-c", "exit 4"]), limit, || false).unwrap();
        assert!(!ended.cut_short);
        assert_eq!(ending(ended.status), "exit code 4");
        assert!(run_within(Command::new("sleep").arg("60"), limit, || true).unwrap().cut_short);
    }

    #[test]
    fn signals_are_named() {
        let (status, _) = run(Command::new("sh").args(["-c", "kill -9 $$"])).unwrap();
        assert_eq!(ending(status), "killed by signal 9");
        assert!(run(&mut Command::new("/nonexistent/program")).is_err());
    }
}
