//! Self-checks of an account, and the cost of observing: as absolute figures, and as shares if the base is long enough.
//!
//! A share of a short base is meaningless: a program that ran for 3 ms would be observed at "477 %" of its run time. Shares and relative
//! differences are therefore given only if their base reaches a minimum; below it, only the absolute figures are.

use ledger::Account;
use ledger::check::{Agreement, Capacity, check};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A relative difference is given only if the kernel's sum is at least this, nanoseconds: 10 ms. The start and the end of a short program make cox's
/// sum and the kernel's differ by a tenth of that.
pub const LEAST_BASE_NS: u64 = 10_000_000;

/// When run delay is compared, [`LEAST_BASE_NS`] is raised by this for each wake-up, nanoseconds. The reason: cox's wake delay begins when the waking
/// is traced, and the kernel's delay up to 50 µs later, when the thread is put on a run queue.
pub const LEAST_BASE_PER_WAKEUP_NS: u64 = 50_000;

/// Minimum length of the window for a share of one CPU, nanoseconds.
pub const LEAST_WINDOW_NS: u64 = 100_000_000;

/// Self-checks of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checks {
    /// The largest |Σ states − wall| / wall of any thread.
    pub worst_gap: f64,
    /// The thread with the worst gap; 0 if every thread's states sum to its wall time.
    pub worst_gap_tid: u32,
    /// Relative difference |ours − kernel| / kernel between cox's Σ (wake delay + preempt wait) and the kernel's Σ `run_delay`. Absent if
    /// `run_delay` was not read, or if the kernel's sum is below `run_delay.minimum_ns`.
    pub run_delay_difference: Option<f64>,
    /// The two sums of `run_delay_difference`; absent if `run_delay` was not read.
    #[serde(default)]
    pub run_delay: Option<Compared>,
    /// Relative difference |ours − kernel| / kernel between cox's Σ (run − steal − interrupts) and the sum of the kernel's CPU clocks. Absent if
    /// the clocks were not read, or if the kernel's sum is below `cpu_time.minimum_ns`.
    pub cpu_time_difference: Option<f64>,
    /// The two sums of `cpu_time_difference`; absent if the clocks were not read.
    #[serde(default)]
    pub cpu_time: Option<Compared>,
    /// Run time of all threads together. If it exceeds `capacity_ns`, the time of all CPUs, the account is wrong.
    #[serde(default)]
    pub run_ns: u64,
    /// Time of all CPUs: number of CPUs × length of the window; absent if the number of CPUs is unknown.
    #[serde(default)]
    pub capacity_ns: Option<u64>,
    /// True if the threads' run time exceeds the time of the CPUs, in sum or on one CPU. The account is then unreliable.
    #[serde(default)]
    pub capacity_exceeded: bool,
    /// Number of events that contradict others: events were lost or are wrong, and the time around them is unknown.
    #[serde(default)]
    pub contradictions: u64,
    /// CPU time of cox and its BPF programs; of cox alone if the time of the BPF programs cannot be measured.
    #[serde(default)]
    pub own_cost_ns: u64,
    /// `own_cost_ns` ÷ the length of the window (the observed time): the part of one CPU that cox used. Absent if the window is shorter than 100 ms.
    #[serde(default)]
    pub own_cost_of_one_cpu: Option<f64>,
    /// `own_cost_ns` as a part of the program's run time, however short that is.
    pub own_cost_share: f64,
}

/// One sum of times, as computed by cox and as reported by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// The sum from cox's account.
    pub ours_ns: u64,
    /// The kernel's sum: the base of a relative difference.
    pub kernel_ns: u64,
    /// The smallest base for which a relative difference is given.
    pub minimum_ns: u64,
    /// Number of wake-ups in the time that the sums cover. For each of them, cox's wake delay begins earlier than the kernel's run delay: when the waking
    /// is traced, and not when the thread is put on a run queue. If the thread is woken on another CPU that is idle, that CPU first leaves its idle state,
    /// which takes 10 to 60 µs in a virtual machine.
    #[serde(default)]
    pub wakeups: u64,
}

impl Compared {
    fn new(agreement: &Agreement, per_wakeup_ns: u64) -> Compared {
        let minimum_ns = LEAST_BASE_NS.saturating_add(agreement.wakeups.saturating_mul(per_wakeup_ns));
        let Agreement { ours_ns, kernel_ns, wakeups } = *agreement;
        Compared { ours_ns, kernel_ns, minimum_ns, wakeups }
    }

    /// Returns the time, ns, by which cox's waits begin earlier than the kernel's, on average for each wake-up; `None` if they do not begin earlier.
    #[must_use]
    pub fn earlier_ns(&self) -> Option<u64> {
        self.ours_ns.checked_sub(self.kernel_ns)?.checked_div(self.wakeups).filter(|ns| *ns > 0)
    }

    /// Returns |`ours_ns` − `kernel_ns`| / `kernel_ns`, the relative difference between cox's sum and the kernel's; `None` if the kernel's sum is
    /// below `minimum_ns`.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        let difference = self.ours_ns.abs_diff(self.kernel_ns);
        (self.kernel_ns >= self.minimum_ns.max(1)).then(|| difference as f64 / self.kernel_ns as f64)
    }
}

impl Checks {
    /// Checks an account of a machine with `cpus` CPUs (0 if unknown).
    pub fn of(account: &Account, cpus: usize) -> Checks {
        let check = check(account);
        let run_delay = check.run_delay.map(|agreement| Compared::new(&agreement, LEAST_BASE_PER_WAKEUP_NS));
        let cpu_time = check.cpu_time.map(|agreement| Compared::new(&agreement, 0));
        let run_ns = ledger::summary::threads(account).fold(0u64, |sum, thread| sum.saturating_add(thread.run_ns));
        let own_ns = account.own_cost.user_ns.saturating_add(account.own_cost.kernel_ns.unwrap_or(0));
        let window_ns = account.window_ns;
        let capacity = Capacity::of(account, cpus);
        Checks {
            worst_gap: check.worst_gap,
            worst_gap_tid: check.worst_gap_tid,
            run_delay_difference: run_delay.and_then(|compared| compared.relative()),
            run_delay,
            cpu_time_difference: cpu_time.and_then(|compared| compared.relative()),
            cpu_time,
            run_ns,
            capacity_ns: capacity.map(|capacity| capacity.capacity_ns),
            capacity_exceeded: capacity.is_some_and(|capacity| capacity.is_exceeded()),
            contradictions: ledger::summary::threads(account).fold(0u64, |sum, t| sum.saturating_add(t.impossible)),
            own_cost_ns: own_ns,
            own_cost_of_one_cpu: (window_ns >= LEAST_WINDOW_NS).then(|| ledger::summary::share(own_ns, window_ns)),
            own_cost_share: ledger::summary::share(own_ns, run_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(ours_ns: u64, kernel_ns: u64, wakeups: u64) -> Compared {
        let agreement = Agreement { ours_ns, kernel_ns, wakeups };
        Compared::new(&agreement, LEAST_BASE_PER_WAKEUP_NS)
    }

    #[test]
    fn waits_begin_earlier_only_if_there_were_wakeups() {
        assert_eq!(compared(3_000_000, 1_000_000, 200).earlier_ns(), Some(10_000));
        for (ours_ns, kernel_ns, wakeups) in
            [(1_000_000, 1_000_000, 200), (900_000, 1_000_000, 200), (3_000_000, 1_000_000, 0)]
        {
            assert_eq!(compared(ours_ns, kernel_ns, wakeups).earlier_ns(), None);
        }
    }

    #[test]
    fn short_bases_have_no_percentage() {
        // What `true` showed: 14.8 times the kernel's few microseconds.
        assert_eq!(compared(94_000, 6_000, 3).relative(), None);
        assert_eq!(compared(11_000_000, 10_000_000, 0).relative(), Some(0.1));
        // A program that is woken half a million times: most of ours is where the delay begins.
        assert_eq!(compared(3_000_000_000, 1_000_000_000, 500_000).relative(), None);
        assert_eq!(compared(0, 0, 0).relative(), None);
    }
}
