//! Runs a test program so that neither where it was started nor how it ends matters to others.
//!
//! 1. Signals mean what they mean by default: a test started by nohup(1), by cron(8) or behind `&` would find SIGINT or SIGHUP
//!    ignored, and so would all that it starts.
//! 2. Whatever the program leaves behind when it ends is found and killed: this process is their reaper (PR_SET_CHILD_SUBREAPER), so
//!    that each orphan becomes a child of it. Otherwise a red test's children would hold the pipe of `make test` open for ever. Processes
//!    that are about to end are waited for; one that stays is a fault of a test, is named, and makes a passed run fail.
//! 3. The program has a time limit. When the test runner says that the time is over (SIGTERM), it is over, too.

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

/// How long what a program has left behind may take to end by itself.
const GRACE: Duration = Duration::from_secs(10);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// Exit code of a run that took too long, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// Exit code of a passed run that left processes behind.
const LEFT_BEHIND: u8 = 1;

/// Runs `command` with a limit and returns the exit code to end with: the program's own, 128 + n after signal n.
///
/// # Errors
/// When it cannot be started.
pub fn supervise(command: &[OsString], limit: Duration) -> Result<u8> {
    let Some((program, arguments)) = command.split_first() else { bail!("no program to run") };
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&asked)).context("listening for SIGTERM")?;
    let (mut command, is_asked) = (with_default_signals(program), || asked.load(Relaxed));
    let watched = watch_unless(command.args(arguments), limit, is_asked)?;
    let (name, left) = (program.display(), watched.left);
    let Some(status) = watched.status else {
        let why = if is_asked() { "was to end".to_owned() } else { format!("took more than {} s", limit.as_secs()) };
        eprintln!("supervise: '{name}' {why} and was killed, with {}", named(&left));
        return Ok(TIMED_OUT);
    };
    if !left.is_empty() {
        eprintln!("supervise: '{name}' left behind, and they were killed: {}", named(&left));
    }
    let code = code(status);
    Ok(if code == 0 && !left.is_empty() { LEFT_BEHIND } else { code })
}

/// The option of env(1) that gives signals their default meaning.
pub const DEFAULT_SIGNALS: &str = "--default-signal=HUP,INT,QUIT,PIPE,TERM,ALRM,USR1,USR2";

/// A program that is started with signals as by default.
#[must_use]
pub fn with_default_signals(program: &OsStr) -> Command {
    let mut command = Command::new("env");
    command.arg(DEFAULT_SIGNALS).arg(program);
    command
}

/// How a watched program ended.
#[derive(Debug)]
pub struct Watched {
    /// `None`: the time was over.
    pub status: Option<ExitStatus>,
    /// What had to be killed, by process number, with names.
    pub left: BTreeMap<u32, String>,
}

/// Runs `command` with a limit, and kills what it leaves behind. This process may have no other children meanwhile.
///
/// # Errors
/// When it cannot be started.
pub fn watch(command: &mut Command, limit: Duration) -> Result<Watched> {
    watch_unless(command, limit, || false)
}

/// … or until `is_over`.
fn watch_unless(command: &mut Command, limit: Duration, is_over: impl Fn() -> bool) -> Result<Watched> {
    // The flag is what counts; which process it names does not matter.
    set_child_subreaper(Some(rustix::process::getpid())).context("becoming the reaper of orphans")?;
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

/// Takes leave of all children that have ended; how the main one did, if it is among them.
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
            Err(error) => return Err(error).context("waiting for children"),
        }
    }
}

/// Kills all descendants, also those that are born meanwhile; which these were.
fn kill_all(main: u32) -> Result<BTreeMap<u32, String>> {
    let mut killed = BTreeMap::new();
    let deadline = Instant::now() + GRACE;
    loop {
        let left = descendants()?;
        if left.is_empty() || Instant::now() > deadline {
            return Ok(killed);
        }
        for (pid, name) in left {
            // Others' processes (a test that runs as another user) may not be ours to kill; root's supervisor can.
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            killed.insert(pid, name);
        }
        reap(main)?;
        thread::sleep(LOOK);
    }
}

/// Descendants of this process that have not ended, with their names.
fn descendants() -> Result<BTreeMap<u32, String>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Gone meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        all.extend(parse(&stat).map(|process| (pid, process)));
    }
    Ok(below(std::process::id(), &all))
}

/// A process as /proc/PID/stat has it. Read here and not by `machine`: xtask, which judges the crates, uses none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    name: String,
    ended: bool,
}

fn parse(stat: &str) -> Option<Process> {
    // The name may hold anything, parentheses too.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Process { parent: fields.next()?.parse().ok()?, name: name.to_owned(), ended: matches!(state, "Z" | "X") })
}

fn below(top: u32, all: &BTreeMap<u32, Process>) -> BTreeMap<u32, String> {
    let is_below = |pid: u32| {
        let mut at = pid;
        // A chain of parents is no longer than there are processes; ids that were used again could make a ring.
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
