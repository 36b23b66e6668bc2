//! Self-checks of a report: do each thread's states sum to its wall time, and do cox's times agree with the kernel's?

use wire::Backend;

use crate::account::{Account, Thread};
use crate::figures::{Amount, RunByCpu};
use crate::summary::{threads, unlisted};

/// The self-checks of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Check {
    /// Largest relative gap of a thread: |Σ states − wall| / wall.
    pub worst_gap: f64,
    /// The thread with the largest gap; 0 if every thread's states sum to its wall time.
    pub worst_gap_tid: u32,
    /// Σ (wake delay + preempt wait) compared with the kernel's run_delay; absent if run_delay was not read.
    pub run_delay: Option<Agreement>,
    /// Σ (run − steal − interrupts) compared with the kernel's CPU clocks; absent if they were not read.
    pub cpu_time: Option<Agreement>,
}

/// One sum of times, as computed by cox and by the kernel, over the threads for which the kernel's account was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The sum as computed by cox.
    pub ours_ns: u64,
    /// The sum as computed by the kernel.
    pub kernel_ns: u64,
    /// Number of wake-ups of these threads. A waking is traced some microseconds before the kernel's delay begins, so the tolerance for delays grows
    /// with this number.
    pub wakeups: u64,
}

impl Agreement {
    fn add(&mut self, thread: &Thread, ours_ns: u64, kernel_ns: u64) {
        self.ours_ns = self.ours_ns.saturating_add(ours_ns);
        self.kernel_ns = self.kernel_ns.saturating_add(kernel_ns);
        self.wakeups = self.wakeups.saturating_add(thread.wakeups);
    }
}

/// Returns the sum of a thread's states, which should be its wall time.
fn states_ns(thread: &Thread) -> u64 {
    [thread.run_ns, thread.wake_delay_ns, thread.preempt_wait_ns, thread.blocked_ns, thread.unknown_ns]
        .iter()
        .fold(0, |sum, ns| sum.saturating_add(*ns))
}

/// Largest delay between the end of the window and the reading of a thread's account of time. The `proc` backend reads threads one after another,
/// which takes some milliseconds for many threads; the other backends read the time together with the account.
const LATE_NS: u64 = 20_000_000;
const LATE_BACKEND: Backend = Backend::Proc;

/// Largest difference between the times that two CPUs read at the same moment.
const SKEW_NS: u64 = 100_000;

/// The threads' run time, compared with the CPU time that the machine offered. The run time cannot be larger, because a CPU runs one thread at a
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Σ run over all threads of all programs.
    pub run_ns: u64,
    /// CPUs × window.
    pub capacity_ns: u64,
    /// Largest Σ run on one CPU; 0 if run time is not known by CPU.
    pub busiest_ns: u64,
    /// Length of the window.
    pub window_ns: u64,
    /// Tolerance for each CPU: excess run time that is not an error, because threads' accounts were read late or because CPUs disagree about the
    /// time.
    slack_ns: u64,
}

impl Capacity {
    /// Computes the capacity for an account of a machine with `cpus` CPUs; `None` if that number is not known.
    pub fn of(account: &Account, cpus: usize) -> Option<Capacity> {
        if cpus == 0 || account.window_ns == 0 {
            return None;
        }
        let mut on = RunByCpu::default();
        let mut run_ns = 0u64;
        for thread in threads(account).chain(unlisted(account)) {
            run_ns = run_ns.saturating_add(thread.run_ns);
            on.sum(&thread.cpus);
        }
        Some(Capacity {
            run_ns,
            capacity_ns: account.window_ns.saturating_mul(cpus as u64),
            busiest_ns: on.iter().map(|(_, ns)| ns).max().unwrap_or(0),
            window_ns: account.window_ns,
            slack_ns: if account.backend == LATE_BACKEND { LATE_NS } else { SKEW_NS },
        })
    }

    /// Returns whether the threads' run time exceeds what is possible, so that the account must be wrong.
    pub fn is_exceeded(&self) -> bool {
        let cpus = self.capacity_ns / self.window_ns.max(1);
        let slack_ns = self.slack_ns.saturating_mul(cpus);
        self.run_ns > self.capacity_ns.saturating_add(slack_ns)
            || self.busiest_ns > self.window_ns.saturating_add(self.slack_ns)
    }
}

/// Computes the self-checks of an account.
pub fn check(account: &Account) -> Check {
    let mut check = Check::default();
    for thread in threads(account) {
        let gap = states_ns(thread).abs_diff(thread.wall_ns) as f64 / thread.wall_ns.max(1) as f64;
        if gap > check.worst_gap {
            (check.worst_gap, check.worst_gap_tid) = (gap, thread.tid);
        }
        if let Some(kernel_ns) = thread.kernel_run_delay_ns {
            let ours_ns = thread.wake_delay_ns.saturating_add(thread.preempt_wait_ns);
            check.run_delay.get_or_insert_default().add(thread, ours_ns, kernel_ns);
        }
        if let Some(kernel_ns) = thread.kernel_cpu_ns {
            let ours_ns = thread.run_ns.saturating_sub(thread.steal_ns).saturating_sub(thread.irq_ns);
            check.cpu_time.get_or_insert_default().add(thread, ours_ns, kernel_ns);
        }
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Process, Program};

    fn account(threads: Vec<Thread>) -> Account {
        let process = Process { threads, ..Process::default() };
        Account {
            programs: vec![Program { processes: vec![process], ..Program::default() }],
            ..crate::summary::tests::empty()
        }
    }

    fn whole() -> Thread {
        Thread {
            tid: 1,
            wall_ns: 1_000,
            run_ns: 500,
            steal_ns: 20,
            irq_ns: 10,
            wake_delay_ns: 60,
            preempt_wait_ns: 140,
            blocked_ns: 290,
            unknown_ns: 10,
            wakeups: 7,
            kernel_cpu_ns: Some(480),
            kernel_run_delay_ns: Some(160),
            ..Thread::default()
        }
    }

    #[test]
    fn states_that_sum_to_wall_have_no_gap() {
        let check = check(&account(vec![whole()]));
        assert_eq!((check.worst_gap, check.worst_gap_tid), (0.0, 0));
    }

    #[test]
    fn the_worst_thread_is_named_by_its_relative_gap() {
        let short = Thread { tid: 2, wall_ns: 10, run_ns: 9, ..Thread::default() };
        let long = Thread { tid: 3, wall_ns: 1_000_000, run_ns: 1_000_500, ..Thread::default() };
        let check = check(&account(vec![whole(), short, long]));
        assert_eq!((check.worst_gap, check.worst_gap_tid), (0.1, 2));
    }

    #[test]
    fn delays_are_compared_with_run_delay_and_run_with_the_cpu_clock() {
        let blind = Thread { kernel_cpu_ns: None, kernel_run_delay_ns: None, ..whole() };
        let check = check(&account(vec![whole(), whole(), blind]));
        let delay = check.run_delay.expect("two threads");
        assert_eq!(delay, Agreement { ours_ns: 400, kernel_ns: 320, wakeups: 14 });
        let cpu = check.cpu_time.expect("two threads");
        assert_eq!((cpu.ours_ns, cpu.kernel_ns), (940, 960));
    }

    #[test]
    fn no_more_can_run_than_there_are_cpus() {
        let run = |ms: u64, cpu: Option<u32>| {
            let cpus = [(cpu, ms * 1_000_000)].into_iter().collect();
            Thread { run_ns: ms * 1_000_000, cpus, ..Thread::default() }
        };
        let capacity = |threads: Vec<Thread>, cpus| {
            let account = Account { window_ns: 666_000_000, backend: Backend::PerfData, ..account(threads) };
            Capacity::of(&account, cpus).map(|capacity| capacity.is_exceeded())
        };
        assert_eq!(capacity(vec![run(666, Some(0)), run(666, Some(1))], 2), Some(false));
        assert_eq!(
            capacity(vec![run(660, Some(0)), run(600, Some(1)), run(545, Some(2))], 2),
            Some(true),
            "1.805 s on 2 CPUs"
        );
        assert_eq!(capacity(vec![run(400, Some(0)), run(400, Some(0))], 2), Some(true), "on one of them");
        assert_eq!(capacity(vec![run(600, None), run(600, None)], 2), Some(false), "where is not known");
        assert_eq!(capacity(vec![run(700, Some(0))], 0), None);
    }

    #[test]
    fn nothing_read_is_no_agreement() {
        let blind = Thread { kernel_cpu_ns: None, kernel_run_delay_ns: None, ..whole() };
        let check = check(&account(vec![blind]));
        assert_eq!((check.run_delay, check.cpu_time), (None, None));
    }
}
