//! Figures that verdict and report compute from an [`Account`], each defined once.
//!
//! All sums are thread time: three threads that live for one second have three thread-seconds. Shares are relative to `wall_ns`, the sum of the
//! threads' lifetimes.

use std::ops::Deref;

use wire::Cause;

use crate::account::{Account, CpuAccount, PreemptorKind, Program, SpinBasis, Thread};
use crate::figures::ByCause;
use crate::sees::Sees;

/// Returns the threads of an account that have an entry of their own.
pub fn threads(account: &Account) -> impl Iterator<Item = &Thread> {
    account.programs.iter().flat_map(threads_of)
}

/// Returns whether an account contains no thread, so that there is nothing to report.
pub fn is_empty(account: &Account) -> bool {
    threads(account).next().is_none() && unlisted(account).next().is_none()
}

/// Returns the sums of threads without an entry, one for each program that has such threads.
pub fn unlisted(account: &Account) -> impl Iterator<Item = &Thread> {
    account.programs.iter().filter_map(|program| program.unlisted.as_ref())
}

/// Returns the threads of one program that have an entry of their own.
pub fn threads_of(program: &Program) -> impl Iterator<Item = &Thread> {
    program.processes.iter().flat_map(|process| &process.threads)
}

/// Returns whether spinning was seen on at least one of these threads.
pub fn is_spin_seen<'a>(threads: impl IntoIterator<Item = &'a Thread>) -> bool {
    threads.into_iter().any(|thread| thread.spin_basis != SpinBasis::None)
}

impl Account {
    /// Returns what the backend could see. Reports of older versions do not contain this information; for them it is derived from the backend's name.
    pub fn sees(&self) -> Sees {
        self.sees.unwrap_or_else(|| Sees::of(self.backend, is_spin_seen(threads(self))))
    }
}

/// Returns `part / whole`; 0 if the whole is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Several threads as one: each figure is added by its own rule. Fields that are not figures, such as id and name, are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Number of threads.
    pub threads: u64,
    figures: Thread,
}

/// Gives access to the summed figures by the same names as the figures of one thread.
impl Deref for Sums {
    type Target = Thread;

    fn deref(&self) -> &Thread {
        &self.figures
    }
}

impl Sums {
    /// Returns the sums over the given threads.
    pub fn over<'a>(threads: impl IntoIterator<Item = &'a Thread>) -> Sums {
        let mut sums = Sums::default();
        for thread in threads {
            sums.threads = sums.threads.saturating_add(1);
            sums.figures.add(thread);
        }
        sums
    }

    /// Returns the sums over all threads of an account. Threads without an entry are included in the times and in the number of threads.
    pub fn of(account: &Account) -> Sums {
        let listed = threads(account).count() as u64;
        Sums {
            threads: listed.saturating_add(account.lost.finals),
            ..Sums::over(threads(account).chain(unlisted(account)))
        }
    }

    /// Returns `ns` as a part of all thread time.
    pub fn share(&self, ns: u64) -> f64 {
        share(ns, self.wall_ns)
    }

    /// Splits all thread time by what the threads did; the parts do not overlap.
    pub fn division(&self) -> Division {
        let mut blocked_by = self.blocked_by;
        blocked_by[Cause::Futex] = 0;
        Division {
            work_ns: self.work_ns(),
            waiting_for_threads_ns: self.waiting_for_threads_ns(),
            preempted_ns: self.preempted_ns(),
            wake_delay_ns: self.wake_delay_ns,
            blocked_by,
            unknown_ns: self.unknown_ns,
        }
    }
}

/// Thread time, split by what the threads did; the parts sum to the threads' lifetimes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Working.
    pub work_ns: u64,
    /// Waiting for other threads: spin, yield, futex.
    pub waiting_for_threads_ns: u64,
    /// Waiting for a CPU after a preemption.
    pub preempted_ns: u64,
    /// Waiting for a CPU after a waking.
    pub wake_delay_ns: u64,
    /// Blocked on anything but a futex, by cause.
    pub blocked_by: ByCause,
    /// Unknown.
    pub unknown_ns: u64,
}

impl Division {
    /// Returns the sum of all parts.
    pub fn total_ns(&self) -> u64 {
        let parts = [self.work_ns, self.waiting_for_threads_ns, self.preempted_ns, self.wake_delay_ns, self.unknown_ns];
        parts.into_iter().fold(self.blocked_by.total(), u64::saturating_add)
    }
}

/// Average numbers of threads by what they did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Concurrency {
    /// Time over which the averages are taken: the wall time of the longest program, or the window if no program has a wall time.
    pub wall_ns: u64,
    /// Average number of threads on a CPU: Σ run / wall.
    pub running: f64,
    /// Average number of threads that did work: Σ work / wall.
    pub working: f64,
    /// Average number of threads that wanted a CPU: Σ (run + wake delay + preempt wait) / wall.
    pub runnable: f64,
}

/// Computes the average numbers of threads; `sums` must be [`Sums::of`] the same account.
pub fn concurrency(account: &Account, sums: &Sums) -> Concurrency {
    let longest_ns = account.programs.iter().map(|program| program.wall_ns).max().unwrap_or(0);
    let wall_ns = if longest_ns > 0 { longest_ns } else { account.window_ns };
    let runnable_ns = sums.run_ns.saturating_add(sums.wake_delay_ns).saturating_add(sums.preempt_wait_ns);
    Concurrency {
        wall_ns,
        running: share(sums.run_ns, wall_ns),
        working: share(sums.work_ns(), wall_ns),
        runnable: share(runnable_ns, wall_ns),
    }
}

/// Time for which tracked threads waited for a CPU, summed over threads, by what held the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Time in which another tracked thread held the CPU.
    pub siblings_ns: u64,
    /// Time in which cox itself held the CPU.
    pub cox_ns: u64,
    /// Time in which any other untracked thread held the CPU.
    pub others_ns: u64,
    /// Time in which the CPU was idle.
    pub idle_ns: u64,
}

/// Computes how long tracked threads waited for CPUs, by what held the CPU.
pub fn behind(account: &Account) -> Behind {
    let mut behind = Behind::default();
    for preemptor in &account.preemptors {
        let ns = match preemptor.kind {
            PreemptorKind::Sibling => &mut behind.siblings_ns,
            PreemptorKind::Cox => &mut behind.cox_ns,
            PreemptorKind::Other => &mut behind.others_ns,
            PreemptorKind::Idle => &mut behind.idle_ns,
        };
        *ns = ns.saturating_add(preemptor.wait_ns);
    }
    behind
}

/// Returns the sum over all CPUs; the CPU number in the result has no meaning.
pub fn cpus(account: &Account) -> CpuAccount {
    let mut sum = CpuAccount::default();
    for cpu in &account.cpus {
        sum.add(cpu);
    }
    sum
}

#[cfg(test)]
pub(crate) mod tests;
