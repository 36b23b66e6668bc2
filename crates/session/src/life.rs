//! The life cycle of a session.
//!
//! 1. probe: each engine says whether it can work, before anything is started. Then each engine may add environment
//!    variables or the preload library to the first program.
//! 2. start: cox forks the program, which waits before its exec. Several programs are first checked to be executable.
//!    For running processes, cox only looks them up.
//! 3. apply: each engine attaches to the target. Then each is told that the target starts.
//! 4. go: the programs exec. If cox dies before this step, no program starts.
//! 5. tick: the engines do their work, until the last program ends, the time of `--for` is up, or Ctrl-C arrives.
//! 6. undo: each engine is told that the target has ended. The engines detach, in reverse order. Then each engine returns its result.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arch::laps::{self, Part};
use outputs::diagnostics::{chain, say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::engine::{Ended, Launched};
use crate::engines::{Engines, Findings};
use crate::launch::{self, Child, LaunchError, Rehearsed, Running};
use crate::signals::{Received, Signals};
use crate::target::{Exit, Launch, Subject, Target};

/// Time between two checks whether the processes have ended that cox has not started itself.
const TICK: Duration = Duration::from_millis(100);

/// Options for the length of a session, and for snapshots while it lasts.
#[derive(Default)]
pub struct Limits<'l> {
    /// Maximum duration. Only for sessions that have launched no program.
    pub length: Option<Duration>,
    /// Whether the session continues after the main process has ended, until all processes that it started have ended.
    pub wait_all: bool,
    /// Output of snapshots while the session lasts; `None` for no snapshots.
    pub live: Option<Live<'l>>,
}

/// Shows the engines' snapshots while a session lasts.
pub struct Live<'l> {
    /// Time between two snapshots, rounded to a whole number of ticks.
    pub every: Duration,
    /// Receives the snapshots.
    pub show: &'l mut dyn FnMut(Findings),
}

/// The result of a session.
pub struct Outcome {
    /// The end of the session.
    pub ended: Ended,
    /// Results and errors of the engines.
    pub findings: Findings,
}

/// Runs `engines` on `target`. Errors of engines after the target was started are in the findings.
///
/// # Errors
/// When an engine cannot work, or the target is not available. If a program cannot be started, the error contains a
/// [`LaunchError`].
pub fn run(target: &Target, mut engines: Engines, limits: Limits<'_>) -> Result<Outcome> {
    refuse_foreign_proc()?;
    target.look_up()?;
    engines.probe(target)?;
    let launches = match target {
        Target::Launch(launches) => prepared(launches, &mut engines)?,
        Target::Attach(_) | Target::Machine => Vec::new(),
    };
    let signals = Signals::take()?;
    // A single program needs no check beforehand: its own exec shows whether it can be executed.
    if launches.len() > 1 {
        rehearse(&launches, &signals)?;
    }
    let children = launches.iter().map(|launch| Child::fork(launch, signals.original_mask()));
    laps::done(Part::Preparing);
    let children = children.collect::<Result<Vec<Child>>>()?;
    laps::done(Part::Forking);
    let subject = match target {
        Target::Launch(_) => Subject::Launched(children.iter().map(Child::pid).collect()),
        Target::Attach(attached) => Subject::Attached(attached.clone()),
        Target::Machine => Subject::Machine,
    };
    engines.apply(&subject)?;
    engines.on_start();
    laps::done(Part::Enrolling);
    let start_ns = arch::monotonic_ns();
    let own_before_ns = arch::clock::thread_cpu_ns();
    let running = match let_go(children) {
        Ok(running) => running,
        Err(error) => {
            // The first error is returned. Changes that cannot be undone here are undone when the engine is dropped.
            engines.undo();
            let failures = engines.failures();
            for why in failures.iter().map(chain).chain(engines.unrestored()) {
                say(&format!("cannot undo: {why}"));
            }
            return Err(error);
        }
    };
    laps::done(Part::Starting);
    let mut ticking = Ticking { engines, signals, live: limits.live, shown: Instant::now() };
    let (launched, interrupted) = match target {
        Target::Launch(_) => ticking.follow(running)?,
        Target::Attach(_) | Target::Machine => {
            ticking.watch(&subject, limits.length)?;
            (Vec::new(), false)
        }
    };
    if limits.wait_all {
        ticking.wait_for_all()?;
    }
    let end_ns = arch::monotonic_ns();
    laps::done(Part::Running);
    let own_cpu_ns = arch::clock::thread_cpu_ns().saturating_sub(own_before_ns);
    let mut engines = ticking.engines;
    engines.on_end();
    engines.undo();
    laps::done(Part::Closing);
    let exit = launched.first().map(|first| first.exit);
    let ended = Ended { exit, launched, start_ns, end_ns, own_cpu_ns, interrupted };
    Ok(Outcome { findings: engines.into_findings(&ended), ended })
}

/// Lets the engines add environment variables or libraries to the first program. Returns all programs.
fn prepared(launches: &[Launch], engines: &mut Engines) -> Result<Vec<Launch>> {
    let mut launches = launches.to_vec();
    engines.prepare(launches.first_mut().context("no program given")?)?;
    Ok(launches)
}

/// Refuses a /proc of another PID namespace: its ids name other threads than the same ids in system calls.
fn refuse_foreign_proc() -> Result<()> {
    let own = std::process::id();
    if !machine::namespace::proc_is_ours(&machine::Root::live(), own)
        .context("cannot read /proc, which a session needs")?
    {
        bail!(
            "/proc belongs to another PID namespace (in its own namespace, cox is process {own}); mount /proc of this namespace \
             (mount -t proc proc /proc; with unshare: --mount-proc)"
        );
    }
    Ok(())
}

/// Refuses programs that cannot be executed. If a program cannot be checked, cox reports that in one line. If the exec
/// of such a program fails later, the other programs may have started already.
fn rehearse(launches: &[Launch], signals: &Signals) -> Result<()> {
    let known = launches.iter().map(|launch| launch::rehearse(launch, signals.original_mask()));
    let known = known.collect::<Result<Vec<Rehearsed>>>()?;
    let unknown = known.into_iter().find_map(|known| match known {
        Rehearsed::Can => None,
        Rehearsed::Unknown(why) => Some(why),
    });
    if let Some(why) = unknown {
        say(&format!("cannot check beforehand whether all programs can be executed: {why}"));
    }
    Ok(())
}

/// Lets all programs start. If the exec of one of them fails, the programs that have already started are killed.
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

/// A session whose target has started.
struct Ticking<'l> {
    engines: Engines,
    signals: Signals,
    live: Option<Live<'l>>,
    /// Time of the last shown snapshot.
    shown: Instant,
}

impl Ticking<'_> {
    /// Waits until the launched programs end, and passes signals sent to cox on to them. If an engine fails, the
    /// programs continue without it. Returns the ended programs, and whether the end was requested by a signal.
    fn follow(&mut self, mut running: Vec<(Running, u64)>) -> Result<(Vec<Launched>, bool)> {
        let mut interrupted = false;
        let order: Vec<u32> = running.iter().map(|(one, _)| one.pid()).collect();
        let mut launched = Vec::new();
        while !running.is_empty() {
            let fds: Vec<BorrowedFd<'_>> = running.iter().map(|(one, _)| one.as_fd()).collect();
            self.wait(&fds, self.tick_every())?;
            for received in self.signals.read()? {
                interrupted |= received.asks_for_the_end();
                match received {
                    // The terminal sends the signal to the whole foreground group, so the programs have received it
                    // already.
                    Received::FromTerminal(_) => {}
                    Received::FromProcess(signal) => running.iter().for_each(|(one, _)| one.send(signal)),
                }
            }
            // The programs have ended but are not reaped yet, so the engines can read their final figures in /proc
            // during the tick.
            let mut ended = Vec::new();
            for at in (0..running.len()).rev() {
                if running[at].0.has_ended()? {
                    ended.push((running.swap_remove(at), arch::monotonic_ns()));
                }
            }
            self.tick();
            for ((one, start_ns), end_ns) in ended {
                let (exit, cpu_ns) = one.reap()?;
                launched.push(Launched { pid: one.pid(), exit, start_ns, end_ns, cpu_ns });
            }
        }
        launched.sort_by_key(|one| order.iter().position(|pid| *pid == one.pid));
        interrupted |= launched.iter().any(|one| one.exit == Exit::Signal(libc::SIGINT));
        Ok((launched, interrupted))
    }

    /// Waits until no process that the program started is left, or a signal arrives.
    fn wait_for_all(&mut self) -> Result<()> {
        while self.engines.anything_alive() {
            self.wait(&[], TICK)?;
            if !self.signals.read()?.is_empty() {
                break;
            }
            self.tick();
        }
        Ok(())
    }

    /// Waits until all processes of the target have ended, the time is up, a signal asks for the end, or all engines have
    /// failed.
    fn watch(&mut self, subject: &Subject, length: Option<Duration>) -> Result<()> {
        let deadline_ns = length.map(|length| arch::monotonic_ns().saturating_add(length.as_nanos() as u64));
        loop {
            let left = deadline_ns.map(|at| Duration::from_nanos(at.saturating_sub(arch::monotonic_ns())));
            // The machine does not end, so nothing has to be looked up between the engines' ticks.
            let at_most = if matches!(subject, Subject::Machine) { self.tick_every() } else { TICK };
            self.wait(&[], left.unwrap_or(TICK).min(at_most))?;
            self.tick();
            let over = deadline_ns.is_some_and(|at| arch::monotonic_ns() >= at);
            if over || !self.signals.read()?.is_empty() || subject.is_gone() || !self.engines.any_works() {
                return Ok(());
            }
        }
    }

    /// Returns the maximum time between two ticks.
    fn tick_every(&self) -> Duration {
        let live = self.live.as_ref().map(|live| live.every.min(TICK));
        self.engines.tick_every().into_iter().chain(live).min().unwrap_or(TICK)
    }

    /// Waits until a signal arrives, or one of these descriptors or of the engines' descriptors is readable.
    fn wait(&self, fds: &[BorrowedFd<'_>], at_most: Duration) -> Result<()> {
        let own = std::iter::once(self.signals.as_fd());
        let all = own.chain(fds.iter().copied()).chain(self.engines.readiness());
        let mut polled: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(at_most).context("invalid time limit")?;
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }

    fn tick(&mut self) {
        self.engines.tick();
        if let Some(live) = self.live.as_mut().filter(|live| self.shown.elapsed() >= live.every) {
            self.shown = Instant::now();
            (live.show)(self.engines.snapshot());
        }
    }
}

/// Returns the [`LaunchError`] that is the cause of `error`; `None` if it has another cause. cox ends with a special exit code
/// ([`LaunchError::exit_code`]) if a program could not be started.
#[must_use]
pub fn launch_error(error: &anyhow::Error) -> Option<&LaunchError> {
    error.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ffi::OsString;
    use std::rc::Rc;

    use super::*;
    use crate::engine::{Engine, NoCommand};

    /// An engine that fails as soon as the program runs.
    struct Failing {
        undone: Rc<Cell<bool>>,
    }

    impl Engine for Failing {
        const NAME: &'static str = "failing";
        type Section = ();
        type Command = NoCommand;

        fn probe(&mut self, _: &Target) -> Result<()> {
            Ok(())
        }

        fn apply(&mut self, _: &Subject) -> Result<()> {
            Ok(())
        }

        fn tick(&mut self) -> Result<()> {
            bail!("broken")
        }

        fn undo(&mut self) -> Result<()> {
            self.undone.set(true);
            bail!("broken again")
        }

        fn section(&mut self, _: &Ended) -> Result<()> {
            Ok(())
        }
    }

    fn launch(command: &[&str]) -> Target {
        let command = command.iter().map(OsString::from).collect();
        Target::Launch(vec![Launch { command, ..Launch::default() }])
    }

    #[test]
    fn an_exec_that_fails_undoes_what_was_applied() {
        let undone = Rc::new(Cell::new(false));
        let engines = Engines::new().with(Failing { undone: Rc::clone(&undone) });
        let error = run(&launch(&["/no/such/program"]), engines, Limits::default()).err().unwrap();
        // Also when that fails, the program's own code is the one to end with.
        assert_eq!(launch_error(&error).map(LaunchError::exit_code), Some(127));
        assert!(undone.get());
    }

    /// An engine with a thread of its own, which says for itself what that takes.
    struct Busy {
        threads_ns: u64,
    }

    impl Engine for Busy {
        const NAME: &'static str = "busy";
        type Section = u64;
        type Command = NoCommand;

        fn probe(&mut self, _: &Target) -> Result<()> {
            Ok(())
        }

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

        fn section(&mut self, _: &Ended) -> Result<u64> {
            Ok(self.threads_ns)
        }
    }

    #[test]
    fn what_threads_of_engines_take_is_theirs_to_tell() {
        let engines = Engines::new().with(Busy { threads_ns: 0 });
        let mut outcome = run(&launch(&["true"]), engines, Limits::default()).unwrap();
        let (own_cpu_ns, threads_ns) = (outcome.ended.own_cpu_ns, outcome.findings.section::<Busy>().unwrap());
        assert!(own_cpu_ns > 0 && own_cpu_ns < threads_ns / 2, "{own_cpu_ns}");
    }

    #[test]
    fn a_failing_engine_costs_the_report_and_not_the_exit() {
        let undone = Rc::new(Cell::new(false));
        let engines = Engines::new().with(Failing { undone: Rc::clone(&undone) });
        let mut outcome = run(&launch(&["sh", "-c", "sleep 0.2; exit 7"]), engines, Limits::default()).unwrap();
        assert_eq!(outcome.ended.exit, Some(Exit::Code(7)));
        assert_eq!(outcome.findings.failure::<Failing>().unwrap().to_string(), "broken");
        assert!(undone.get());
    }
}
