//! A session: one target, some engines, one life cycle.
//!
//! 1. probe: each engine says whether it can work here, before anything is started.
//! 2. start: the program is forked but waits, before its exec, for the go; so do others that shall run beside it, when each has been
//!    seen to be executable; or the processes to attach to are looked up.
//! 3. apply: each engine takes hold of the target.
//! 4. go: the programs exec. Had cox died before this, nothing would have been started.
//! 5. tick until the end: of the last program, of `--for`, or by Ctrl-C.
//! 6. undo, in reverse order; then each engine has its section.

pub mod control;
pub mod engine;
pub mod hidden;
pub mod launch;
pub mod observing;
pub mod overlapping;
pub mod packing;
mod peer;
pub mod recording;
mod signals;
pub mod sigpipe;
mod streams;
pub mod target;
pub mod together;
pub mod trying;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use arch::laps::{self, Part};
use engine::Engine;
use launch::{Child, LaunchError, Rehearsed, Running};
use outputs::diagnostics::{chain, say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signals::{Received, Signals};
pub use target::{Exit, Launch, Subject, Target};

/// Engines are ticked at least this often.
const TICK: Duration = Duration::from_millis(100);

/// How long a session lasts, apart from its target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// End after this long (attached sessions).
    pub length: Option<Duration>,
    /// After the main process has ended, wait for all that it has started.
    pub wait_all: bool,
}

/// How a session ended.
#[derive(Debug)]
pub struct Outcome {
    /// How the launched program ended; `None` for an attached session.
    pub exit: Option<Exit>,
    /// Programs that were launched, in the order in which they were named.
    pub launched: Vec<Launched>,
    /// When the target got going, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When the main process ended (with `wait_all`: all that it started), or the session did.
    pub end_ns: u64,
    /// CPU time of the session's thread while the target ran: of all engines that have no threads of their own, as
    /// observing. Loading comes before and reading binaries for the report after: they disturb nobody.
    pub own_cpu_ns: u64,
    /// Whether somebody asked for the end: a signal that ends programs reached cox, or SIGINT ended the program.
    pub interrupted: bool,
    /// What went wrong after the program was let go: there is no account, but its exit stands.
    pub failed: Option<anyhow::Error>,
}

/// A program that was launched, and has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its first process.
    pub pid: u32,
    /// How that ended.
    pub exit: Exit,
    /// When it got going, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended, as far as was looked: a tick later at most.
    pub end_ns: u64,
}

/// Run `engine` over `target`. Programs that cannot be started are a [`LaunchError`] inside the error.
pub fn run(target: &Target, engine: &mut dyn Engine, limits: Limits) -> Result<Outcome> {
    refuse_foreign_proc()?;
    match target {
        Target::Launch(launches) => {
            let signals = Signals::take()?;
            // Of one program the exec itself says it.
            if launches.len() > 1 {
                rehearse(launches, &signals)?;
            }
            let children = launches.iter().map(|launch| Child::fork(launch, signals.original_mask()));
            laps::done(Part::Preparing);
            let children = children.collect::<Result<Vec<Child>>>()?;
            laps::done(Part::Forking);
            engine.apply(&Subject::Launched(children.iter().map(Child::pid).collect()))?;
            laps::done(Part::Enrolling);
            let start_ns = arch::monotonic_ns();
            let own_before_ns = arch::clock::thread_cpu_ns();
            let running = match let_go(children) {
                Ok(running) => running,
                Err(error) => {
                    // The session ends with this error; what cannot be undone now is when the engine goes.
                    if let Err(error) = engine.undo() {
                        say(&format!("undoing: {}", chain(&error)));
                    }
                    return Err(error);
                }
            };
            laps::done(Part::Starting);
            let mut failed = None;
            let (launched, interrupted) = follow(running, engine, &signals, &mut failed)?;
            if limits.wait_all && failed.is_none() {
                failed = wait_for_all(engine, &signals).err();
            }
            let end_ns = arch::monotonic_ns();
            laps::done(Part::Running);
            let own_cpu_ns = arch::clock::thread_cpu_ns().saturating_sub(own_before_ns);
            let failed = failed.or(engine.undo().err());
            laps::done(Part::Closing);
            let exit = launched.first().map(|first| first.exit);
            Ok(Outcome { exit, launched, start_ns, end_ns, own_cpu_ns, interrupted, failed })
        }
        Target::Attach(subject) => {
            subject.look_up()?;
            let signals = Signals::take()?;
            engine.apply(subject)?;
            let start_ns = arch::monotonic_ns();
            let own_before_ns = arch::clock::thread_cpu_ns();
            watch(subject, engine, &signals, limits)?;
            let end_ns = arch::monotonic_ns();
            let own_cpu_ns = arch::clock::thread_cpu_ns().saturating_sub(own_before_ns);
            engine.undo()?;
            let launched = Vec::new();
            Ok(Outcome { exit: None, launched, start_ns, end_ns, own_cpu_ns, interrupted: false, failed: None })
        }
    }
}

/// Every id that cox reads in /proc would name another thread than the same id in a system call.
fn refuse_foreign_proc() -> Result<()> {
    let own = std::process::id();
    if !machine::namespace::proc_is_ours(&machine::Root::live(), own).context("a session needs /proc")? {
        bail!(
            "/proc belongs to another PID namespace than cox, which is process {own} in its own; mount one of this namespace \
             (mount -t proc proc /proc; with unshare: --mount-proc)"
        );
    }
    Ok(())
}

/// Refuses what cannot be executed. Of what is not known, one line is said: then others may have begun when the exec tells.
fn rehearse(launches: &[Launch], signals: &Signals) -> Result<()> {
    let known = launches.iter().map(|launch| launch::rehearse(launch, signals.original_mask()));
    let known = known.collect::<Result<Vec<Rehearsed>>>()?;
    let unknown = known.into_iter().find_map(|known| match known {
        Rehearsed::Can => None,
        Rehearsed::Unknown(why) => Some(why),
    });
    if let Some(why) = unknown {
        say(&format!("cannot see beforehand whether all programs can be executed: {why}"));
    }
    Ok(())
}

/// Lets all of them go. One that cannot be executed all of a sudden ends the others, which have hardly begun.
fn let_go(children: Vec<Child>) -> Result<Vec<(Running, u64)>> {
    let mut running: Vec<(Running, u64)> = Vec::new();
    for child in children {
        let start_ns = arch::monotonic_ns();
        match child.go() {
            Ok(one) => running.push((one, start_ns)),
            Err(error) => {
                for (other, _) in running {
                    other.send(libc::SIGKILL);
                    other.reap()?;
                }
                return Err(error);
            }
        }
    }
    Ok(running)
}

/// Until the launched programs end; signals sent to cox are passed on to them. An engine that fails is
/// left alone from then on: programs come first. Returns how they ended, and whether by somebody's wish.
fn follow(
    mut running: Vec<(Running, u64)>,
    engine: &mut dyn Engine,
    signals: &Signals,
    failed: &mut Option<anyhow::Error>,
) -> Result<(Vec<Launched>, bool)> {
    let mut interrupted = false;
    let order: Vec<u32> = running.iter().map(|(one, _)| one.pid()).collect();
    let mut launched = Vec::new();
    while !running.is_empty() {
        let readiness = if failed.is_none() { engine.readiness() } else { Vec::new() };
        let fds: Vec<BorrowedFd<'_>> =
            std::iter::once(signals.as_fd()).chain(running.iter().map(|(one, _)| one.as_fd())).collect();
        wait_for_something(&fds, readiness, TICK)?;
        for received in signals.read()? {
            interrupted |= received.asks_for_the_end();
            match received {
                // The terminal sends to the whole foreground group: the programs have it already.
                Received::FromTerminal(_) => {}
                Received::FromProcess(signal) => running.iter().for_each(|(one, _)| one.send(signal)),
            }
        }
        // Ended but not reaped: whoever reads /proc finds the final sums there once more.
        let mut ended = Vec::new();
        for at in (0..running.len()).rev() {
            if running[at].0.has_ended()? {
                ended.push((running.swap_remove(at), arch::monotonic_ns()));
            }
        }
        if failed.is_none() {
            *failed = engine.tick().err();
        }
        for ((one, start_ns), end_ns) in ended {
            launched.push(Launched { pid: one.pid(), exit: one.reap()?, start_ns, end_ns });
        }
    }
    launched.sort_by_key(|one| order.iter().position(|pid| *pid == one.pid));
    interrupted |= launched.iter().any(|one| one.exit == Exit::Signal(libc::SIGINT));
    Ok((launched, interrupted))
}

/// Until nothing that the program started is left, or somebody loses patience.
fn wait_for_all(engine: &mut dyn Engine, signals: &Signals) -> Result<()> {
    while engine.anything_alive()? {
        wait_for_something(&[signals.as_fd()], engine.readiness(), TICK)?;
        if !signals.read()?.is_empty() {
            break;
        }
        engine.tick()?;
    }
    Ok(())
}

/// Until the target is gone, the time is up, or a signal asks for the end.
fn watch(subject: &Subject, engine: &mut dyn Engine, signals: &Signals, limits: Limits) -> Result<()> {
    let deadline_ns = limits.length.map(|length| arch::monotonic_ns().saturating_add(length.as_nanos() as u64));
    loop {
        let left = deadline_ns.map_or(TICK, |at| Duration::from_nanos(at.saturating_sub(arch::monotonic_ns())));
        wait_for_something(&[signals.as_fd()], engine.readiness(), left.min(TICK))?;
        engine.tick()?;
        let over = deadline_ns.is_some_and(|at| arch::monotonic_ns() >= at);
        if over || !signals.read()?.is_empty() || subject.is_gone() {
            return Ok(());
        }
    }
}

fn wait_for_something(fds: &[BorrowedFd<'_>], readiness: Vec<BorrowedFd<'_>>, at_most: Duration) -> Result<()> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().copied().chain(readiness).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(at_most).context("a tick is short")?;
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("waiting for events"),
    }
}

/// Whether an error is a program that could not be started, which has an exit code of its own.
pub fn launch_error(error: &anyhow::Error) -> Option<&LaunchError> {
    error.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// An engine that fails as soon as the program runs.
    struct Failing {
        undone: bool,
    }

    impl Engine for Failing {
        fn apply(&mut self, _: &Subject) -> Result<()> {
            Ok(())
        }

        fn tick(&mut self) -> Result<()> {
            bail!("broken")
        }

        fn undo(&mut self) -> Result<()> {
            self.undone = true;
            bail!("broken again")
        }
    }

    #[test]
    fn an_exec_that_fails_undoes_what_was_applied() {
        let mut engine = Failing { undone: false };
        let launch = Launch { command: vec![OsString::from("/no/such/program")], ..Launch::default() };
        let error = run(&Target::Launch(vec![launch]), &mut engine, Limits::default()).unwrap_err();
        // Also when that fails, the program's own code is the one to end with.
        assert_eq!(launch_error(&error).map(LaunchError::exit_code), Some(127));
        assert!(engine.undone);
    }

    /// An engine with a thread of its own, which says for itself what that takes.
    struct Busy {
        threads_ns: u64,
    }

    impl Engine for Busy {
        fn apply(&mut self, _: &Subject) -> Result<()> {
            Ok(())
        }

        fn tick(&mut self) -> Result<()> {
            let thread = std::thread::spawn(|| {
                let until_ns = 100_000_000;
                while arch::clock::thread_cpu_ns() < until_ns {}
                until_ns
            });
            self.threads_ns += thread.join().unwrap();
            Ok(())
        }

        fn undo(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_threads_of_engines_take_is_theirs_to_tell() {
        let mut engine = Busy { threads_ns: 0 };
        let launch = Launch { command: vec![OsString::from("true")], ..Launch::default() };
        let outcome = run(&Target::Launch(vec![launch]), &mut engine, Limits::default()).unwrap();
        assert!(outcome.own_cpu_ns > 0 && outcome.own_cpu_ns < engine.threads_ns / 2, "{}", outcome.own_cpu_ns);
    }

    #[test]
    fn a_failing_engine_costs_the_report_and_not_the_exit() {
        let command = ["sh", "-c", "sleep 0.2; exit 7"].map(OsString::from).to_vec();
        let mut engine = Failing { undone: false };
        let launch = Launch { command, ..Launch::default() };
        let outcome = run(&Target::Launch(vec![launch]), &mut engine, Limits::default()).unwrap();
        assert_eq!(outcome.exit, Some(Exit::Code(7)));
        assert_eq!(outcome.failed.unwrap().to_string(), "broken");
        assert!(engine.undone);
    }
}
