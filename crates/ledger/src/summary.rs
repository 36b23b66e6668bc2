//! The figures that a verdict and a report are made of, each defined once, over an [`Account`].
//!
//! Thread time: all sums are over threads, so three threads that live for one second have three
//! thread-seconds. Shares are of `wall_ns`, the sum of the threads' lifetimes.

use std::collections::{BTreeMap, BTreeSet};

use crate::account::{Account, Process, Program, TakerKind, Thread};

/// The name of the cause that belongs to waiting for other threads.
const FUTEX: &str = "futex";

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

/// Work: run time that was not spent spinning.
pub fn work_ns(thread: &Thread) -> u64 {
    thread.run_ns.saturating_sub(thread.spin_ns)
}

/// `part / whole`; 0 when the whole is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Sums over threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Threads.
    pub threads: u64,
    /// Σ lifetime: the thread-seconds.
    pub wall_ns: u64,
    /// Σ run.
    pub run_ns: u64,
    /// Σ spin, part of run.
    pub spin_ns: u64,
    /// One standard error of `spin_ns`, the threads' errors taken as independent.
    pub spin_error_ns: u64,
    /// Σ (run − spin).
    pub work_ns: u64,
    /// Σ hypervisor steal, part of run.
    pub steal_ns: u64,
    /// Σ interrupts, part of run.
    pub irq_ns: u64,
    /// Σ wake delay.
    pub wake_delay_ns: u64,
    /// Σ preempt wait, yields included.
    pub preempt_wait_ns: u64,
    /// Σ part of preempt wait that began in sched_yield.
    pub yield_wait_ns: u64,
    /// Σ blocked.
    pub blocked_ns: u64,
    /// Σ blocked by cause.
    pub blocked_by: BTreeMap<String, u64>,
    /// Σ unknown.
    pub unknown_ns: u64,
    /// Instruction pointers sampled.
    pub samples: u64,
    /// Switches-out not runnable.
    pub switches_voluntary: u64,
    /// Switches-out runnable.
    pub switches_involuntary: u64,
    /// Ends of blocks, and first starts.
    pub wakeups: u64,
    /// Migrations by kind.
    pub migrations: BTreeMap<String, u64>,
    /// Transitions that cannot follow one another.
    pub impossible: u64,
}

impl Sums {
    /// Over some threads.
    pub fn over<'a>(threads: impl IntoIterator<Item = &'a Thread>) -> Sums {
        let mut sums = Sums::default();
        let mut variance = 0.0;
        for thread in threads {
            sums.add(thread);
            variance += (thread.spin_error_ns as f64).powi(2);
        }
        sums.spin_error_ns = variance.sqrt().round() as u64;
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

    fn add(&mut self, thread: &Thread) {
        let add = |to: &mut u64, amount: u64| *to = to.saturating_add(amount);
        add(&mut self.threads, 1);
        add(&mut self.wall_ns, thread.wall_ns);
        add(&mut self.run_ns, thread.run_ns);
        add(&mut self.spin_ns, thread.spin_ns);
        add(&mut self.work_ns, work_ns(thread));
        add(&mut self.steal_ns, thread.steal_ns);
        add(&mut self.irq_ns, thread.irq_ns);
        add(&mut self.wake_delay_ns, thread.wake_delay_ns);
        add(&mut self.preempt_wait_ns, thread.preempt_wait_ns);
        add(&mut self.yield_wait_ns, thread.yield_wait_ns);
        add(&mut self.blocked_ns, thread.blocked_ns);
        add(&mut self.unknown_ns, thread.unknown_ns);
        add(&mut self.samples, thread.samples);
        add(&mut self.switches_voluntary, thread.switches_voluntary);
        add(&mut self.switches_involuntary, thread.switches_involuntary);
        add(&mut self.wakeups, thread.wakeups);
        add(&mut self.impossible, thread.impossible);
        for (cause, ns) in &thread.blocked_by {
            add(sum_of(&mut self.blocked_by, cause), *ns);
        }
        for (kind, count) in &thread.migrations {
            add(sum_of(&mut self.migrations, kind), *count);
        }
    }

    /// Blocked by one cause, by its name in the account.
    pub fn cause_ns(&self, cause: &str) -> u64 {
        self.blocked_by.get(cause).copied().unwrap_or(0)
    }

    /// Waiting for other threads: spinning, the wait after sched_yield, sleeping on a futex. One
    /// class, because a runtime's waiting policy decides which of the three it is.
    pub fn waiting_for_threads_ns(&self) -> u64 {
        self.spin_ns.saturating_add(self.yield_wait_ns).saturating_add(self.cause_ns(FUTEX))
    }

    /// Preempted against its will: preempt wait without what began in sched_yield.
    pub fn preempted_ns(&self) -> u64 {
        self.preempt_wait_ns.saturating_sub(self.yield_wait_ns)
    }

    /// Waiting for a CPU: wake delay, and preempt wait without what began in sched_yield.
    pub fn waiting_for_cpu_ns(&self) -> u64 {
        self.wake_delay_ns.saturating_add(self.preempted_ns())
    }

    /// Migrations of all kinds.
    pub fn migrations_total(&self) -> u64 {
        self.migrations.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// A part of all thread time.
    pub fn share(&self, ns: u64) -> f64 {
        share(ns, self.wall_ns)
    }

    /// All thread time divided without rest or overlap.
    pub fn division(&self) -> Division {
        let mut blocked_by = self.blocked_by.clone();
        blocked_by.remove(FUTEX);
        Division {
            work_ns: self.work_ns,
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
    pub blocked_by: BTreeMap<String, u64>,
    /// Not known.
    pub unknown_ns: u64,
}

impl Division {
    /// The sum of all parts.
    pub fn total_ns(&self) -> u64 {
        let parts = [self.work_ns, self.waiting_for_threads_ns, self.preempted_ns, self.wake_delay_ns, self.unknown_ns];
        parts.iter().chain(self.blocked_by.values()).fold(0, |sum, ns| sum.saturating_add(*ns))
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
        let named = threads(account).flat_map(|thread| &thread.cpus);
        let ran = named.filter(|(cpu, ns)| **ns > 0 && cpu.parse::<u32>().is_ok());
        ran.map(|(cpu, _)| cpu).collect::<BTreeSet<_>>().len()
    } else {
        account.cpus.iter().filter(|cpu| cpu.busy_program_ns > 0).count()
    };
    let runnable_ns = sums.run_ns.saturating_add(sums.wake_delay_ns).saturating_add(sums.preempt_wait_ns);
    Concurrency {
        wall_ns,
        running: share(sums.run_ns, wall_ns),
        working: share(sums.work_ns, wall_ns),
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
    let busiest = process.threads.iter().max_by_key(|thread| work_ns(thread))?;
    let max_work_ns = work_ns(busiest);
    if threads < 2 || max_work_ns == 0 {
        return None;
    }
    let total: u128 = process.threads.iter().map(|thread| u128::from(work_ns(thread))).sum();
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
    for taker in &account.took_cpu {
        let ns = match taker.kind {
            TakerKind::Sibling => &mut behind.siblings_ns,
            TakerKind::Other => &mut behind.others_ns,
            TakerKind::Idle => &mut behind.idle_ns,
        };
        *ns = ns.saturating_add(taker.wait_ns);
    }
    behind
}

/// How the CPUs idled, in CPU time over all CPUs seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// CPU time that is known: busy with anybody, or idle.
    pub known_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Part of idle: a member that was allowed there waited.
    pub while_waiting_ns: u64,
    /// Part of idle: none waited, some were off CPU.
    pub while_blocked_ns: u64,
}

impl Idle {
    /// Idle part of the known CPU time.
    pub fn fraction(&self) -> f64 {
        share(self.idle_ns, self.known_ns)
    }
}

/// See [`Idle`].
pub fn idle(account: &Account) -> Idle {
    let over =
        |part: fn(&crate::CpuAccount) -> u64| account.cpus.iter().fold(0u64, |sum, cpu| sum.saturating_add(part(cpu)));
    Idle {
        known_ns: over(|cpu| cpu.busy_program_ns.saturating_add(cpu.busy_others_ns).saturating_add(cpu.idle_ns)),
        idle_ns: over(|cpu| cpu.idle_ns),
        while_waiting_ns: over(|cpu| cpu.idle_while_waiting_ns),
        while_blocked_ns: over(|cpu| cpu.idle_while_blocked_ns),
    }
}

/// The sum under `key`. A key is made only the first time: reports add up tens of thousands of threads.
fn sum_of<'m>(sums: &'m mut BTreeMap<String, u64>, key: &str) -> &'m mut u64 {
    if !sums.contains_key(key) {
        sums.insert(key.to_owned(), 0);
    }
    sums.get_mut(key).expect("inserted above")
}

#[cfg(test)]
pub(crate) mod tests;
