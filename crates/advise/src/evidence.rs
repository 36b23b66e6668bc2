//! The evidence for the rules: sums of an account, the worker threads, the CPUs, and what the backend can see.

use ledger::summary::{Behind, Concurrency, Sums};
use ledger::{Account, CpuAccount, Preemptor, PreemptorKind, Process, Sees, Thread};

use crate::blame::Blame;
use crate::expected::Expected;
use crate::facts::Facts;
use crate::floor::Floor;
use crate::launchers::Ranks;
use crate::numbers::{about_percent, counted};
use crate::thresholds::{HALF_INTERVAL, THROTTLED_SHARE, UNUSED_CPUS_SHARE, WORTH_FACTOR, WORTH_SHARE};

/// Smallest number of CPUs that a program is assumed to get. It keeps factors finite if the account reports no CPU time.
const LEAST_CPUS: f64 = 1e-3;

/// An account with everything that the rules compute from it.
pub struct Evidence<'a> {
    /// The account.
    pub account: &'a Account,
    /// Facts about the machine and the program's environment.
    pub facts: &'a Facts,
    /// What the backend could see. If the threads hardly ran, spinning counts as seen with every backend, because there can be hardly any spinning.
    pub sees: Sees,
    /// Sums over all threads.
    pub sums: Sums,
    /// Sums over all CPUs.
    pub all_cpus: CpuAccount,
    /// The worker threads: those that do the program's work.
    pub workers: Vec<&'a Thread>,
    /// Sums over the worker threads.
    pub worker_sums: Sums,
    /// The ranks, if a launcher of parallel programs has started the program.
    pub(crate) ranks: Option<Ranks>,
    /// Time waited for a CPU, by the kind of thread that held the CPU.
    pub behind: Behind,
    /// Average numbers of threads that ran and that worked.
    pub concurrency: Concurrency,
    /// Wall time of the program that ran longest.
    pub wall_ns: f64,
    /// Number of CPUs the program may use, before any quota.
    pub cpus: f64,
    /// Waiting for other threads and for CPUs, divided by cause.
    pub blame: Blame,
    /// Lower bounds of the wall time that no forecast may go below.
    pub(crate) floor: Floor,
}

impl<'a> Evidence<'a> {
    /// Returns `ns` as a part of all thread time.
    pub fn share(&self, ns: u64) -> f64 {
        self.sums.share(ns).clamp(0.0, 1.0)
    }

    /// Formats `ns` as a part of all thread time, for a sentence.
    pub(crate) fn percent(&self, ns: u64) -> String {
        about_percent(self.share(ns))
    }

    /// Returns `ns` as a part of the worker threads' lifetimes; of all threads' if there are no worker threads.
    pub fn worker_share(&self, ns: f64) -> f64 {
        let all_ns = if self.workers.is_empty() { self.sums.wall_ns } else { self.worker_sums.wall_ns };
        share(ns, all_ns as f64)
    }

    /// Formats the number of worker threads for a sentence: as ranks, if each rank has one, else with the noun `threads` ("thread", "worker thread").
    pub(crate) fn workers_counted(&self, threads: &str) -> String {
        counted(self.workers.len() as u64, if self.ranks_of_one_thread().is_some() { "rank" } else { threads })
    }

    /// Returns the ranks if there are several, each of them has one worker thread, and there are no other worker threads.
    pub(crate) fn ranks_of_one_thread(&self) -> Option<&Ranks> {
        self.ranks.as_ref().filter(|ranks| ranks.pids.len() > 1).filter(|ranks| {
            let processes = self.account.programs.iter().flat_map(|program| &program.processes);
            let of_ranks = processes.filter(|process| ranks.pids.contains(&process.pid));
            let workers = of_ranks.map(|process| self.workers_of(process));
            let workers: Vec<usize> = workers.collect();
            workers.iter().all(|count| *count == 1) && workers.len() == self.workers.len()
        })
    }

    /// Returns the largest number of worker threads of one process.
    pub(crate) fn workers_of_one_process(&self) -> usize {
        let processes = self.account.programs.iter().flat_map(|program| &program.processes);
        processes.map(|process| self.workers_of(process)).max().unwrap_or(0)
    }

    /// Returns the number of worker threads of a process.
    fn workers_of(&self, process: &Process) -> usize {
        let is_worker = |thread: &&Thread| self.workers.iter().any(|worker| worker.tid == thread.tid);
        process.threads.iter().filter(is_worker).count()
    }

    /// Returns the CPU time divided by the part of it that was work: 1 if no thread spun or was in futex system calls.
    pub(crate) fn run_per_work(&self) -> f64 {
        (self.sums.run_ns as f64 / (self.sums.work_ns() as f64).max(1.0)).max(1.0)
    }

    /// Returns the average number of worker threads alive.
    pub fn workers_alive(&self) -> f64 {
        self.worker_sums.wall_ns as f64 / self.wall_ns
    }

    /// Returns how many CPUs the worker threads could keep busy if they had `cpus` CPUs. Both numbers may be fractional.
    pub fn parallelism(&self, cpus: f64) -> f64 {
        (self.workers.len().max(1) as f64).min(cpus)
    }

    /// Returns the ideal wall time on `cpus` CPUs, in nanoseconds: the work divided by the number of CPUs that the worker threads can keep busy.
    pub fn ideal_ns(&self, cpus: f64) -> f64 {
        self.sums.work_ns() as f64 / self.parallelism(cpus)
    }

    /// Returns the work bound on `cpus` CPUs: the largest speed-up factor that any schedule can reach with the same work and the same fixed waits.
    /// Fixed waits are those that nothing in the account shows how to shorten, such as timers (see `floor`).
    pub fn work_bound_on(&self, cpus: f64) -> f64 {
        self.bound_beside(0.0, cpus)
    }

    /// Returns the work bound on `cpus` CPUs for a step that leaves the serial parts as they are: their work keeps one CPU busy (Amdahl's law). Serial work
    /// counts only as far as half a 90 % interval of its sampling does not explain it.
    pub(crate) fn bound_with_serial_parts(&self, cpus: f64) -> f64 {
        let error_ns = HALF_INTERVAL * self.worker_sums.serial_error_ns as f64;
        let serial_ns = (self.worker_sums.serial_ns as f64 - error_ns).clamp(0.0, self.wall_ns);
        self.bound_beside(serial_ns, cpus)
    }

    /// Returns the work bound on `cpus` CPUs if `serial_ns` of the work keeps one CPU busy, and all other work can be divided.
    fn bound_beside(&self, serial_ns: f64, cpus: f64) -> f64 {
        let divided_ns = (self.sums.work_ns() as f64 - serial_ns).max(0.0) / self.parallelism(cpus);
        self.wall_ns / self.floor.besides(serial_ns + divided_ns).max(1.0)
    }

    /// Returns whether fixed waits, rather than the work, limit the speed-up on the CPUs the program may use. A fixed wait is one that nothing in the
    /// account shows how to shorten, such as a timer (see `floor`).
    pub fn is_bound_by_waits(&self) -> bool {
        self.wall_ns / self.ideal_ns(self.cpus).max(1.0) >= WORTH_FACTOR * self.work_bound().max(1.0)
    }

    /// Returns the work bound (the largest speed-up factor with the same work) on the CPUs the program may use, if no other programs run there.
    pub fn work_bound(&self) -> f64 {
        self.work_bound_on(self.cpus)
    }

    /// Returns the relative error of the work, and so of the work bound: half a 90 % interval of the spinning, which is sampled. It is large if
    /// threads hardly do anything but spin.
    pub(crate) fn work_error(&self) -> f64 {
        if self.sums.work_ns() == 0 {
            1.0
        } else {
            share(HALF_INTERVAL * self.sums.work_error_ns(), self.sums.work_ns() as f64)
        }
    }

    /// Returns whether the work took more CPU time because of how it was scheduled: threads took turns on CPUs (they queued for CPUs that other tracked
    /// threads held), or slept so often that their CPUs left the idle state for a large part of the time. Then no work bound holds.
    pub(crate) fn work_can_shrink(&self) -> bool {
        self.share(self.queued_ns()) >= WORTH_SHARE || self.share(self.idle_wake_ns()) >= WORTH_SHARE
    }

    /// Returns the thread time spent waiting for CPUs that other tracked threads held; if the backend does not see which thread held a CPU, all waiting for
    /// CPUs.
    pub(crate) fn queued_ns(&self) -> u64 {
        if self.sees.preemptors { self.behind.siblings_ns } else { self.sums.waiting_for_cpu_ns() }
    }

    /// Returns the part of the waiting for CPUs in which other tracked threads held them. Wake delays on idle CPUs are left out, because a thread that
    /// is preempted waits for a busy CPU. If the backend does not see which thread held a CPU, the part is 1, or 0 under a quota.
    pub(crate) fn queued_part(&self) -> f64 {
        if !self.sees.preemptors {
            return if self.is_throttled() { 0.0 } else { 1.0 };
        }
        share(self.queued_ns() as f64, self.sums.waiting_for_cpu_ns().saturating_sub(self.idle_wake_ns()) as f64)
    }

    /// Returns the number of whole CPUs that the program may use at once, with its quota.
    pub(crate) fn whole_cpus(&self) -> f64 {
        self.facts.quota().map_or(self.cpus, |quota| quota.min(self.cpus)).floor()
    }

    /// Returns the time that sleeping and waking up cost: wake delays on idle CPUs, and the worker threads' futex system calls. Threads that spin have
    /// neither.
    pub(crate) fn sleep_cost_ns(&self) -> u64 {
        self.idle_wake_ns().saturating_add(self.worker_sums.kernel_sync_ns)
    }

    /// Returns whether a quota stopped the program for a noticeable part of the run. Its threads then waited for idle CPUs that they were not allowed to
    /// use.
    pub(crate) fn is_throttled(&self) -> bool {
        self.facts.throttled_ns as f64 >= THROTTLED_SHARE * self.wall_ns
    }

    /// Returns the wake delay on CPUs that were idle.
    pub(crate) fn idle_wake_ns(&self) -> u64 {
        self.behind.idle_ns.min(self.sums.wake_delay_ns)
    }

    /// Converts `alone`, a forecast for CPUs without other programs, into a forecast for the present load. A step that changes neither other programs
    /// nor the quota cannot give the program the CPU time that these take from it, so the forecast is limited to the work bound on the CPUs that are
    /// left.
    pub fn beside_others(&self, alone: Expected) -> Expected {
        alone.within(self.work_bound_on(self.cpus_left()))
    }

    /// Returns the thread bound as a speed-up factor: the largest speed-up if no work moves between threads.
    pub fn thread_bound(&self) -> f64 {
        self.work_bound().min(self.wall_ns / self.longest_chain_ns().max(1.0))
    }

    /// Returns the least time that a single thread needs under any schedule: the work of the busiest thread, or the work and the fixed waits of a
    /// thread that does much of the work, whichever is longer. A fixed wait is one that nothing in the account shows how to shorten, such as a timer
    /// (see `floor`).
    fn longest_chain_ns(&self) -> f64 {
        self.largest_work_ns().max(self.floor.chain_ns)
    }

    /// Returns whether waits of `loss_ns` thread time may have delayed the program: whether a run without them could be faster, limited only by the
    /// program's work. False, for example, if other threads kept the CPUs busy with work during the waits. The result does not say whether the waits
    /// can be removed.
    pub fn held_up(&self, loss_ns: f64) -> bool {
        let bound = self.wall_ns / self.largest_work_ns().max(self.ideal_ns(self.cpus)).max(1.0);
        Expected::of_delay(self.wall_ns, loss_ns, self.workers.len() as f64, bound).is_worth_trying()
    }

    /// Returns [`Evidence::thread_bound`] without the time that the hypervisor stole from the threads.
    pub fn thread_bound_without_steal(&self) -> f64 {
        let kept = |ns: f64, stolen: u64| (ns - stolen as f64).max(0.0);
        let stolen = self.busiest().map_or(0, |thread| thread.steal_ns);
        let least = kept(self.longest_chain_ns(), stolen).max(self.floor.inactive_ns).max(self.floor.waits_ns);
        self.wall_ns / least.max(1.0)
    }

    /// Returns the work of the busiest thread divided by the average work of the worker threads: 1 if all work is equal, or if no thread worked.
    pub fn inequality(&self) -> f64 {
        let average = self.worker_sums.work_ns() as f64 / self.workers.len().max(1) as f64;
        if average > 0.0 { (self.largest_work_ns() / average).max(1.0) } else { 1.0 }
    }

    /// Returns the inequality of the parallel work: the work of the worker threads without their serial work (see [`parallel_work_ns`]). 1 if it is all
    /// equal.
    pub(crate) fn parallel_inequality(&self) -> f64 {
        let all: f64 = self.workers.iter().map(|thread| parallel_work_ns(thread)).sum();
        let average = all / self.workers.len().max(1) as f64;
        if average > 0.0 { (self.largest_parallel_work_ns() / average).max(1.0) } else { 1.0 }
    }

    /// Returns the inequality of the parallel work that two standard errors of the busiest thread's work do not explain.
    pub(crate) fn sure_inequality(&self) -> f64 {
        let error = self.busiest_in_parallel().map_or(0.0, |thread| 2.0 * parallel_work_error_ns(thread));
        let explained = share(error, self.largest_parallel_work_ns());
        (self.parallel_inequality() * (1.0 - explained)).max(1.0)
    }

    /// Returns the largest parallel work of a worker thread, in nanoseconds.
    pub(crate) fn largest_parallel_work_ns(&self) -> f64 {
        self.busiest_in_parallel().map_or(0.0, parallel_work_ns)
    }

    /// Returns the worker thread with most parallel work.
    pub(crate) fn busiest_in_parallel(&self) -> Option<&'a Thread> {
        self.workers.iter().copied().max_by(|a, b| parallel_work_ns(a).total_cmp(&parallel_work_ns(b)))
    }

    /// Returns the work of the thread that worked most, in nanoseconds.
    pub fn largest_work_ns(&self) -> f64 {
        self.busiest().map_or(0, Thread::work_ns) as f64
    }

    /// Returns the thread that worked most.
    pub fn busiest(&self) -> Option<&'a Thread> {
        self.workers.iter().copied().max_by_key(|thread| thread.work_ns())
    }

    /// Returns whether the thread that worked most is the main thread of its process.
    pub(crate) fn busiest_is_main(&self) -> bool {
        let mut processes = self.account.programs.iter().flat_map(|program| &program.processes);
        self.busiest().is_some_and(|thread| processes.any(|process| process.pid == thread.tid))
    }

    /// Returns the forecast for removing a delay of `loss_ns` thread time, on CPUs without other programs.
    pub fn without_delay(&self, loss_ns: f64) -> Expected {
        Expected::of_delay(self.wall_ns, loss_ns, self.workers.len() as f64, self.thread_bound())
    }

    /// Returns the average number of CPUs that other programs used, out of the CPUs that the program may use. May be fractional.
    pub fn cpus_of_others(&self) -> f64 {
        self.over_cpus(|cpu| cpu.busy_others_ns) as f64 / self.account.window_ns.max(1) as f64
    }

    /// Returns the average number of CPUs that were available to the program: the CPUs that it may use minus those that other programs used, or its
    /// quota if that is smaller. It is at least the number that the program used. May be fractional.
    pub fn cpus_left(&self) -> f64 {
        let beside = self.cpus - self.cpus_of_others();
        let granted = self.facts.quota().map_or(beside, |quota| beside.min(quota));
        granted.max(self.concurrency.running).clamp(LEAST_CPUS, self.cpus)
    }

    /// Returns the preemptors that belong to other programs, largest first.
    pub fn preemptors_of_others(&self) -> Vec<&'a Preemptor> {
        let others = self.account.preemptors.iter().filter(|preemptor| preemptor.kind == PreemptorKind::Other);
        let mut preemptors: Vec<&Preemptor> = others.collect();
        preemptors.sort_by_key(|preemptor| std::cmp::Reverse(preemptor.wait_ns));
        preemptors
    }

    /// Returns the part of the CPUs' time that was idle while no thread of the program waited for a CPU. `None` if the part is small, or the backend
    /// does not see CPUs.
    pub fn unused(&self) -> Option<f64> {
        let idle = self.over_cpus(|cpu| cpu.idle_ns.saturating_sub(cpu.idle_while_waiting_ns));
        let unused = share(idle as f64, self.account.window_ns as f64 * self.cpus);
        (unused >= UNUSED_CPUS_SHARE).then_some(unused)
    }

    /// Returns a sum over the CPUs the program may use; over all CPUs if those are not known.
    pub fn over_cpus(&self, part: impl Fn(&ledger::CpuAccount) -> u64) -> u64 {
        let allowed = self.facts.program_cpus();
        let counted = self.account.cpus.iter().filter(|cpu| allowed.is_empty() || allowed.contains(&cpu.cpu));
        counted.fold(0, |sum, cpu| sum.saturating_add(part(cpu)))
    }

    /// Returns the part of the CPUs' time in which a thread ran: any thread, or only tracked ones if the backend does not see CPUs.
    pub fn utilisation(&self) -> f64 {
        let busy = self.over_cpus(|cpu| cpu.busy_program_ns.saturating_add(cpu.busy_others_ns));
        let idle = self.over_cpus(|cpu| cpu.idle_ns);
        if busy.saturating_add(idle) > 0 {
            share(busy as f64, busy as f64 + idle as f64)
        } else {
            share(self.sums.run_ns as f64, self.wall_ns * self.cpus)
        }
    }
}

/// Returns a thread's parallel work, ns: its work without its serial work, and without the time in which the hypervisor ran something else. Others may
/// wait for serial work or for a thread whose CPU was stolen, too, but neither means that the work is divided unequally.
pub(crate) fn parallel_work_ns(thread: &Thread) -> f64 {
    let ran = 1.0 - share(thread.steal_ns as f64, thread.run_ns as f64);
    thread.work_ns().saturating_sub(thread.serial_ns) as f64 * ran
}

/// Returns the standard error of a thread's parallel work, ns.
pub(crate) fn parallel_work_error_ns(thread: &Thread) -> f64 {
    thread.work_error_ns().hypot(thread.serial_error_ns as f64)
}

/// Returns `part / whole` within 0 to 1; 0 if `whole` is 0.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
