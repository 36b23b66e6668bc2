//! The figures that a verdict and a report are made of, each defined once, over an [`Account`].
//!
//! Thread time: all sums are over threads, so three threads that live for one second have three
//! thread-seconds. Shares are of `wall_ns`, the sum of the threads' lifetimes.

use std::collections::BTreeSet;
use std::ops::Deref;

use wire::Cause;

use crate::account::{Account, CpuAccount, Process, Program, SpinBasis, PreemptorKind, Thread};
use crate::figures::ByCause;
use crate::sees::Sees;

/// The threads of an account that have an entry of their own.
pub fn threads(account: &Account) -> impl Iterator<Item = &Thread> {
    account.programs.iter().flat_map(threads_of)
}

/// Whether nothing of any thread is in an account: then there is nothing to report.
pub fn is_empty(account: &Account) -> bool {
    threads(account).next().is_none() && unlisted(account).next().is_none()
}

/// Times of threads without an entry, added up.
pub fn unlisted(account: &Account) -> impl Iterator<Item = &Thread> {
    account.programs.iter().filter_map(|program| program.unlisted.as_ref())
}

/// Those of one program that have an entry.
pub fn threads_of(program: &Program) -> impl Iterator<Item = &Thread> {
    program.processes.iter().flat_map(|process| &process.threads)
}

/// Whether spinning was seen on at least one of these threads.
pub fn is_spin_seen<'a>(threads: impl IntoIterator<Item = &'a Thread>) -> bool {
    threads.into_iter().any(|thread| thread.spin_basis != SpinBasis::None)
}

impl Account {
    /// What could be seen. Reports of older versions do not say it themselves: there it follows from the backend.
    pub fn sees(&self) -> Sees {
        self.sees.unwrap_or_else(|| Sees::of(self.backend, is_spin_seen(threads(self))))
    }
}

/// `part / whole`; 0 when the whole is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Several threads as one: their figures, each added by its own rule. What is no figure, as its id and its name, is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// How many threads.
    pub threads: u64,
    figures: Thread,
}

/// What can be asked of a thread can be asked of several.
impl Deref for Sums {
    type Target = Thread;

    fn deref(&self) -> &Thread {
        &self.figures
    }
}

impl Sums {
    /// Over some threads.
    pub fn over<'a>(threads: impl IntoIterator<Item = &'a Thread>) -> Sums {
        let mut sums = Sums::default();
        for thread in threads {
            sums.threads = sums.threads.saturating_add(1);
            sums.figures.add(thread);
        }
        sums
    }

    /// Over all threads of an account. Threads without an entry count with their times, and by number.
    pub fn of(account: &Account) -> Sums {
        let listed = threads(account).count() as u64;
        Sums {
            threads: listed.saturating_add(account.lost.finals),
            ..Sums::over(threads(account).chain(unlisted(account)))
        }
    }

    /// A part of all thread time.
    pub fn share(&self, ns: u64) -> f64 {
        share(ns, self.wall_ns)
    }

    /// All thread time divided without rest or overlap.
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

/// Thread time divided as a verdict tells it; the parts sum to the threads' lifetimes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Did work.
    pub work_ns: u64,
    /// Waited for other threads: spin, yield, futex.
    pub waiting_for_threads_ns: u64,
    /// Waited for a CPU after a preemption.
    pub preempted_ns: u64,
    /// Waited for a CPU after a waking.
    pub wake_delay_ns: u64,
    /// Blocked on anything but a futex, by cause.
    pub blocked_by: ByCause,
    /// Not known.
    pub unknown_ns: u64,
}

impl Division {
    /// The sum of all parts.
    pub fn total_ns(&self) -> u64 {
        let parts = [self.work_ns, self.waiting_for_threads_ns, self.preempted_ns, self.wake_delay_ns, self.unknown_ns];
        parts.into_iter().fold(self.blocked_by.total(), u64::saturating_add)
    }
}

/// How many threads ran, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Concurrency {
    /// What it is averaged over: the longest program's wall time, else the window.
    pub wall_ns: u64,
    /// Average number of threads on a CPU: Σ run / wall.
    pub running: f64,
    /// … of threads doing work: Σ (run − spin) / wall.
    pub working: f64,
    /// … of threads that wanted a CPU: Σ (run + wake delay + preempt wait) / wall.
    pub runnable: f64,
    /// CPUs that members ran on. Where CPUs are not seen, those named by threads: at least so many.
    pub cpus_used: usize,
}

/// See [`Concurrency`]; `sums` are [`Sums::of`] the account.
pub fn concurrency(account: &Account, sums: &Sums) -> Concurrency {
    let longest_ns = account.programs.iter().map(|program| program.wall_ns).max().unwrap_or(0);
    let wall_ns = if longest_ns > 0 { longest_ns } else { account.window_ns };
    let cpus_used = if account.cpus.is_empty() {
        threads(account).flat_map(|thread| thread.cpus.cpus()).collect::<BTreeSet<_>>().len()
    } else {
        account.cpus.iter().filter(|cpu| cpu.busy_program_ns > 0).count()
    };
    let runnable_ns = sums.run_ns.saturating_add(sums.wake_delay_ns).saturating_add(sums.preempt_wait_ns);
    Concurrency {
        wall_ns,
        running: share(sums.run_ns, wall_ns),
        working: share(sums.work_ns(), wall_ns),
        runnable: share(runnable_ns, wall_ns),
        cpus_used,
    }
}

/// How unevenly a process's threads worked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Imbalance {
    /// Threads compared.
    pub threads: usize,
    /// Mean work.
    pub mean_work_ns: u64,
    /// Most work.
    pub max_work_ns: u64,
    /// Who did most.
    pub busiest: u32,
    /// (max − mean) / max: the part of the busiest thread's work that even shares would have saved it.
    pub fraction: f64,
}

/// See [`Imbalance`]; `None` of fewer than two threads, or when nobody worked.
pub fn imbalance(process: &Process) -> Option<Imbalance> {
    let threads = process.threads.len();
    let busiest = process.threads.iter().max_by_key(|thread| thread.work_ns())?;
    let max_work_ns = busiest.work_ns();
    if threads < 2 || max_work_ns == 0 {
        return None;
    }
    let total: u128 = process.threads.iter().map(|thread| u128::from(thread.work_ns())).sum();
    let mean = total as f64 / threads as f64;
    Some(Imbalance {
        threads,
        mean_work_ns: mean as u64,
        max_work_ns,
        busiest: busiest.tid,
        fraction: 1.0 - mean / max_work_ns as f64,
    })
}

/// Whom members waited behind for a CPU, in thread time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Other members.
    pub siblings_ns: u64,
    /// Strangers.
    pub others_ns: u64,
    /// Nobody: the CPU idled.
    pub idle_ns: u64,
}

impl Behind {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.siblings_ns.saturating_add(self.others_ns).saturating_add(self.idle_ns)
    }
}

/// See [`Behind`].
pub fn behind(account: &Account) -> Behind {
    let mut behind = Behind::default();
    for preemptor in &account.preemptors {
        let ns = match preemptor.kind {
            PreemptorKind::Sibling => &mut behind.siblings_ns,
            PreemptorKind::Other => &mut behind.others_ns,
            PreemptorKind::Idle => &mut behind.idle_ns,
        };
        *ns = ns.saturating_add(preemptor.wait_ns);
    }
    behind
}

/// All CPUs as one; its number says nothing.
pub fn cpus(account: &Account) -> CpuAccount {
    let mut sum = CpuAccount::default();
    for cpu in &account.cpus {
        sum.add(cpu);
    }
    sum
}

#[cfg(test)]
pub(crate) mod tests;
