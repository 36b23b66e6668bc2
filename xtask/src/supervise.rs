//! Runs a test program so that the result does not depend on how it was started, and so that it leaves nothing behind.
//!
//! 1. Signals have their default actions. A test started by nohup(1), by cron(8) or with `&` would otherwise ignore SIGINT or SIGHUP, and so would
//!    all its child processes.
//! 2. Processes that the program leaves behind when it ends are found and killed. This process is a child subreaper (PR_SET_CHILD_SUBREAPER), so each
//!    orphan becomes its child. Otherwise the children of a failed test would keep the pipe of `make test` open forever. Processes that are about to
//!    end get time to do so. If one remains, the test is faulty: the process is named, and a passed run fails.
//! 3. The program has a time limit. SIGTERM from the test runner ends it, too.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

/// Time in which leftover processes may end by themselves.
const GRACE: Duration = Duration::from_secs(10);

/// Polling interval.
const LOOK: Duration = Duration::from_millis(2);

/// Exit code of a run that reached its time limit, as in timeout(1).
const TIMED_OUT: u8 = 124;

/// Exit code of a run that passed but left processes behind.
const LEFT_BEHIND: u8 = 1;

/// Runs `command` with a time limit. Returns the exit code to end with: the program's own, or 128 + n after signal n.
///
/// # Errors
/// When the command cannot be started.
pub fn supervise(command: &[OsString], limit: Duration) -> Result<u8> {
    let Some((program, arguments)) = command.split_first() else { bail!("no program to run") };
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&asked))
        .context("cannot install a handler for SIGTERM")?;
    let (mut command, is_asked) = (with_default_signals(program), || asked.load(Relaxed));
    let watched = watch_unless(command.args(arguments), limit, is_asked)?;
    let (name, left) = (program.display(), watched.left);
    let Some(status) = watched.status else {
        let why = if is_asked() {
            "was stopped by SIGTERM".to_owned()
        } else {
            format!("took more than {} s", limit.as_secs())
        };
        eprintln!("supervise: '{name}' {why} and was killed, together with {}", named(&left));
        return Ok(TIMED_OUT);
    };
    if !left.is_empty() {
        eprintln!("supervise: killed processes that '{name}' left behind: {}", named(&left));
    }
    let code = code(status);
    Ok(if code == 0 && !left.is_empty() { LEFT_BEHIND } else { code })
}

/// Option of env(1) that restores the default actions of signals.
pub const DEFAULT_SIGNALS: &str = "--default-signal=HUP,INT,QUIT,PIPE,TERM,ALRM,USR1,USR2";

/// Returns a command that starts a program with default signal actions.
#[must_use]
pub fn with_default_signals(program: &OsStr) -> Command {
    let mut command = Command::new("env");
    command.arg(DEFAULT_SIGNALS).arg(program);
    command
}

/// How a watched program ended.
#[derive(Debug)]
pub struct Watched {
    /// Exit status; `None` if the time limit was reached.
    pub status: Option<ExitStatus>,
    /// The processes that were killed, by process ID, with their names.
    pub left: BTreeMap<u32, String>,
}

/// Runs `command` with a time limit, and kills the processes that it leaves behind. This process must have no other children meanwhile.
///
/// # Errors
/// When the command cannot be started.
pub fn watch(command: &mut Command, limit: Duration) -> Result<Watched> {
    watch_unless(command, limit, || false)
}

/// Same as [`watch`], but also ends when `is_over` returns true.
fn watch_unless(command: &mut Command, limit: Duration, is_over: impl Fn() -> bool) -> Result<Watched> {
    // Any process ID works here: the kernel only sets the flag.
    set_child_subreaper(Some(rustix::process::getpid())).context("cannot become the reaper of orphaned processes")?;
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let main = child.id();
    let started = Instant::now();
    let mut status = None;
    while status.is_none() && started.elapsed() < limit && !is_over() {
        status = reap(main)?;
        if status.is_none() {
            thread::sleep(LOOK);
        }
    }
    let over = Instant::now();
    while status.is_some() && over.elapsed() < GRACE && !descendants()?.is_empty() {
        reap(main)?;
        thread::sleep(LOOK);
    }
    let left = kill_all(main)?;
    Ok(Watched { status, left })
}

fn code(status: ExitStatus) -> u8 {
    status.code().or(status.signal().map(|signal| 128 + signal)).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn named(left: &BTreeMap<u32, String>) -> String {
    left.iter().map(|(pid, name)| format!("{pid} ({name})")).collect::<Vec<_>>().join(", ")
}

/// Reaps all children that have ended. Returns the exit status of `main`, if it was among them.
fn reap(main: u32) -> Result<Option<ExitStatus>> {
    let mut ended = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == main => {
                ended = Some(ExitStatus::from_raw(status.as_raw()));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for child processes"),
        }
    }
}

/// Kills all descendants, including those that are started meanwhile. Returns the killed processes.
fn kill_all(main: u32) -> Result<BTreeMap<u32, String>> {
    let mut killed = BTreeMap::new();
    let deadline = Instant::now() + GRACE;
    loop {
        let left = descendants()?;
        if left.is_empty() || Instant::now() > deadline {
            return Ok(killed);
        }
        for (pid, name) in left {
            // The kernel refuses the signal if a test has started the process as another user, and this process is not root.
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            killed.insert(pid, name);
        }
        reap(main)?;
        thread::sleep(LOOK);
    }
}

/// Returns the running descendants of this process, with their names.
fn descendants() -> Result<BTreeMap<u32, String>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Skip a process that has ended meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        all.extend(parse(&stat).map(|process| (pid, process)));
    }
    Ok(below(std::process::id(), &all))
}

/// A process as described by /proc/PID/stat. This does not use the crate `machine`, because xtask checks the crates and therefore depends on none of
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    name: String,
    ended: bool,
}

fn parse(stat: &str) -> Option<Process> {
    // The name can contain any characters, including parentheses.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Process { parent: fields.next()?.parse().ok()?, name: name.to_owned(), ended: matches!(state, "Z" | "X") })
}

fn below(top: u32, all: &BTreeMap<u32, Process>) -> BTreeMap<u32, String> {
    let is_below = |pid: u32| {
        let mut at = pid;
        // The chain of parents cannot be longer than the number of processes; reused process IDs could form a loop.
        for _ in 0..all.len() {
            match all.get(&at) {
                Some(process) if process.parent == top => return true,
                Some(process) => at = process.parent,
                None => return false,
            }
        }
        false
    };
    let alive = all.iter().filter(|(_, process)| !process.ended);
    alive.filter(|(pid, _)| is_below(**pid)).map(|(pid, process)| (*pid, process.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_below_orphans_and_zombies_are_not_alive() {
        let process = |stat: &str| parse(stat).unwrap();
        let all = BTreeMap::from([
            (1, process("1 (init) S 0 1 1")),
            (10, process("10 (supervise) S 1 1 1")),
            (11, process("11 (a (b) c) R 10 1 1")),
            (12, process("12 (zombie) Z 10 1 1")),
            (13, process("13 (below) S 12 1 1")),
            (14, process("14 (stranger) S 1 1 1")),
        ]);
        let expected = [(11, "a (b) c".to_owned()), (13, "below".to_owned())];
        assert_eq!(below(10, &all), BTreeMap::from(expected));
        assert_eq!(parse("7 (cut"), None);
    }
}
