//! The `proc` backend, which polls /proc. It works for any user's own processes, and reports the least.
//!
//! Its figures for a thread that lives for at least two polls are exact: they come from the scheduler's own sums (`schedstat`), not from sampling.
//!
//! * **run**, without hypervisor steal. (Steal is part of blocked and unknown here; the other backends count it as run.)
//! * **run delay**, undivided, since /proc does not distinguish wake delay from preempt wait. All of it is in
//!   [`Clock::preempt_wait_ns`](wire::Clock). Linux counts some sleep as run delay: since 6.12 a thread that blocks may stay queued for a while. If
//!   the load balancer moves it then, its sleep is counted as a wait (seen on 6.18: 287 ms of a sleep of 300 ms). Therefore, if a poll finds a thread
//!   blocked, the blocked time up to then is never counted as delay here. At most the time between two polls is wrong. `kernel_delay_ns` is the
//!   kernel's figure.
//! * **blocked** = wall − run − run delay, without causes.
//! * **unknown**: time that the module `thread` could not divide. Also up to 10 ms after a thread's birth, whose exact time is not known, and the
//!   time from the last poll to a death that was not observed. If a process is polled after its end and before it is reaped, the sums of its main
//!   thread are final; see [`ProcObserver::tick`].
//! * voluntary and involuntary switches. There are no wake-ups, migrations, CPUs or samples.
//!
//! Threads and processes that live and die between two polls are missing without a trace, and so are children whose parent is gone before they are
//! found.

mod thread;
pub(crate) mod tree;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use arch::monotonic_ns;
use machine::process::Task;
use machine::{Error, Root};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use wire::{Backend, Record};

use crate::observer::{Intake, Observer, WatchError};
use tree::Tree;

/// Shortest time between two polls. With a pause shorter than a clock tick, the times of births would not be more exact.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
/// Longest time between two polls. The session calls `tick`, which polls, at least this often anyway.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// A pause is at least this many times as long as the poll before it. Polling thus takes at most 2 % of one CPU, however many threads there are,
/// until the longest pause is reached.
const PAUSE_PER_POLL: u32 = 50;

/// The `proc` backend as an [`Observer`].
#[derive(Debug)]
pub struct ProcObserver {
    tree: Tree,
    timer: OwnedFd,
    start_ns: u64,
}

/// Returns how far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC: the time for which the machine was suspended. /proc gives start times on
/// CLOCK_BOOTTIME. The result is too large by the time between the two readings, far below a tick.
pub(crate) fn suspended_ns() -> u64 {
    let (monotonic_ns, boottime_ns, _) = arch::clock::three_at_once();
    boottime_ns.saturating_sub(monotonic_ns)
}

/// Checks that the kernel provides what this backend needs. Returns the root of /proc.
pub(crate) fn check(children: bool) -> Result<Root, WatchError> {
    let root = Root::live();
    let own = Task::thread(&root, std::process::id(), std::process::id());
    let missing = |file: &str, error: Error, needs: &str| WatchError::Unavailable {
        what: format!("proc backend: cannot read /proc/PID/task/TID/{file}"),
        why: format!("{}; {needs}", error.into_io()),
    };
    let needs = "this backend needs a mounted /proc and a kernel with CONFIG_SCHED_INFO";
    own.schedstat().map_err(|error| missing("schedstat", error, needs))?;
    if children {
        let needs =
            "to observe child processes, this backend needs a kernel with CONFIG_PROC_CHILDREN. Fix: use --no-children";
        own.children_of_thread().map_err(|error| missing("children", error, needs))?;
    }
    Ok(root)
}

/// Converts an error from reading /proc into the error of a failed poll.
pub(crate) fn failed(error: Error) -> WatchError {
    WatchError::system("polling /proc", error.into_io())
}

impl ProcObserver {
    /// Checks that the kernel provides what this backend needs, and makes an observer. With `children`, child processes of tracked processes are
    /// tracked.
    ///
    /// # Errors
    /// [`WatchError::Unavailable`] if the kernel does not provide it, [`WatchError::System`] if no timer can be created.
    pub fn new(children: bool) -> Result<ProcObserver, WatchError> {
        let root = check(children)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .map_err(|source| WatchError::system("timerfd_create", source))?;
        Ok(ProcObserver { tree: Tree::new(root, suspended_ns(), children), timer, start_ns: monotonic_ns() })
    }

    fn poll(&mut self) -> Result<(), WatchError> {
        let begin_ns = monotonic_ns();
        self.tree.poll(&monotonic_ns).map_err(failed)?;
        self.rest_after(Duration::from_nanos(monotonic_ns().saturating_sub(begin_ns)))
    }

    /// Sets the timer to the pause after a poll: `PAUSE_PER_POLL` × the duration of the poll, but between `SHORTEST_PAUSE` and `LONGEST_PAUSE`. This
    /// also makes the timer's descriptor unreadable until the pause is over.
    fn rest_after(&self, poll: Duration) -> Result<(), WatchError> {
        let pause = poll.saturating_mul(PAUSE_PER_POLL).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let pause =
            Timespec::try_from(pause).map_err(|_| WatchError::system("timer pause", io::ErrorKind::InvalidInput))?;
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: never, it_value: pause };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
            .map(drop)
            .map_err(|source| WatchError::system("timerfd_settime", source))
    }
}

impl Observer for ProcObserver {
    fn backend(&self) -> Backend {
        Backend::Proc
    }

    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        self.tree.enrol(pid, &monotonic_ns).map_err(|error| {
            if error.is_gone() {
                WatchError::NoTarget { pid, why: "there is no such process".to_owned() }
            } else {
                WatchError::system(format!("reading /proc/{pid}"), error.into_io())
            }
        })?;
        self.rest_after(Duration::ZERO)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.timer.as_fd())
    }

    /// Polls. Nothing goes into the intake, since this backend keeps its clocks itself. Call it once more after a process has ended and before it
    /// is reaped (waitid with WNOWAIT): what /proc then says of its main thread is final.
    fn tick(&mut self, _intake: &mut Intake) -> Result<(), WatchError> {
        self.poll()
    }

    fn living(&mut self) -> Result<Vec<(u32, u32, String)>, WatchError> {
        self.poll()?;
        Ok(self.tree.living())
    }

    fn finish(&mut self, intake: &mut Intake) -> Result<Record, WatchError> {
        self.snapshot(intake)
    }

    fn snapshot(&mut self, _intake: &mut Intake) -> Result<Record, WatchError> {
        self.poll()?;
        let end_ns = monotonic_ns();
        let mut record = Record::new(Backend::Proc, self.start_ns, end_ns);
        record.clocks = self.tree.clocks(end_ns);
        Ok(record)
    }
}
