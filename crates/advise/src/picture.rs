//! What the rules look at: an account added up, the crew, the CPUs, and what the backend can see.

use ledger::summary::{Behind, Concurrency, Sums};
use ledger::{Account, CpuAccount, Sees, PreemptorKind, Thread, Preemptor};

use crate::blame::Blame;
use crate::expected::Expected;
use crate::facts::Facts;
use crate::floor::Floor;
use crate::thresholds::{UNUSED_CPUS_SHARE, WORTH_FACTOR};

/// A program that ran got some of a CPU; keeps factors finite where the account says none.
const LEAST_CPUS: f64 = 1e-3;

/// An account as the rules see it.
pub struct Picture<'a> {
    /// The account.
    pub account: &'a Account,
    /// The surroundings.
    pub facts: &'a Facts,
    /// What could be seen. Spinning counts as seen, too, where there was next to no run time that could hold any.
    pub sees: Sees,
    /// Over all threads.
    pub sums: Sums,
    /// Over all CPUs.
    pub all_cpus: CpuAccount,
    /// The threads that carry the program.
    pub crew: Vec<&'a Thread>,
    /// Over the crew.
    pub crew_sums: Sums,
    /// Whom members waited behind.
    pub behind: Behind,
    /// How many threads ran and worked on average.
    pub concurrency: Concurrency,
    /// Wall time of the longest program.
    pub wall_ns: f64,
    /// CPUs the program may use, before any quota.
    pub cpus: f64,
    /// The waiting for other threads and for CPUs, divided by reason.
    pub blame: Blame,
    /// Wall time that nothing seen allows to promise away.
    pub(crate) floor: Floor,
}

impl<'a> Picture<'a> {
    /// A part of all thread time.
    pub fn share(&self, ns: u64) -> f64 {
        self.sums.share(ns).clamp(0.0, 1.0)
    }

    /// A part of the crew's thread time.
    pub fn crew_share(&self, ns: f64) -> f64 {
        share(ns, self.crew_sums.wall_ns as f64)
    }

    /// How many crew threads were alive on average.
    pub fn crew_alive(&self) -> f64 {
        self.crew_sums.wall_ns as f64 / self.wall_ns
    }

    /// CPUs that the crew could keep busy, given `cpus`, which may be part of one.
    pub fn parallelism(&self, cpus: f64) -> f64 {
        (self.crew.len().max(1) as f64).min(cpus)
    }

    /// The work divided among `cpus` CPUs, as far as the crew can use them.
    pub fn ideal_ns(&self, cpus: f64) -> f64 {
        self.sums.work_ns() as f64 / self.parallelism(cpus)
    }

    /// No schedule of the same work on `cpus` CPUs, with the waits that nothing seen can remove, is faster than
    /// this factor.
    pub fn work_bound_on(&self, cpus: f64) -> f64 {
        self.wall_ns / self.floor.besides(self.ideal_ns(cpus)).max(1.0)
    }

    /// Whether waits that nothing seen can remove, and not the work, bound the gain on the CPUs the program may use.
    pub fn is_bound_by_waits(&self) -> bool {
        self.wall_ns / self.ideal_ns(self.cpus).max(1.0) >= WORTH_FACTOR * self.work_bound().max(1.0)
    }

    /// … on the CPUs the program may use, had it them to itself.
    pub fn work_bound(&self) -> f64 {
        self.work_bound_on(self.cpus)
    }

    /// What is left of a forecast while other programs and the quota keep what they took: a step that
    /// moves neither cannot do the work on CPUs that the program does not get.
    pub fn beside_others(&self, alone: Expected) -> Expected {
        alone.within(self.work_bound_on(self.cpus_left()))
    }

    /// … when, besides, each thread keeps its own work.
    pub fn thread_bound(&self) -> f64 {
        self.work_bound().min(self.wall_ns / self.longest_chain_ns().max(1.0))
    }

    /// Work of the busiest thread, or work and fixed waits of one that carries the program.
    fn longest_chain_ns(&self) -> f64 {
        (self.busiest().map_or(0, Thread::work_ns) as f64).max(self.floor.chain_ns)
    }

    /// Whether threads that waited `loss_ns` held the program up, for all that is known: other threads did not work
    /// all the while. Says nothing about whether the wait can be removed.
    pub fn held_up(&self, loss_ns: f64) -> bool {
        let busiest = self.busiest().map_or(0, Thread::work_ns) as f64;
        let bound = self.wall_ns / busiest.max(self.ideal_ns(self.cpus)).max(1.0);
        Expected::of_delay(self.wall_ns, loss_ns, self.crew.len() as f64, bound).is_worth_trying()
    }

    /// [`Picture::thread_bound`] of what the hypervisor left of the threads' work.
    pub fn thread_bound_without_steal(&self) -> f64 {
        let kept = |ns: f64, stolen: u64| (ns - stolen as f64).max(0.0);
        let stolen = self.busiest().map_or(0, |thread| thread.steal_ns);
        let least = kept(self.longest_chain_ns(), stolen).max(self.floor.inactive_ns).max(self.floor.waits_ns);
        self.wall_ns / least.max(1.0)
    }

    /// Work of the busiest thread per average work of the crew: 1 when it is equal, or nobody worked.
    pub fn inequality(&self) -> f64 {
        let average = self.crew_sums.work_ns() as f64 / self.crew.len().max(1) as f64;
        let busiest = self.busiest().map_or(0, Thread::work_ns) as f64;
        if average > 0.0 { (busiest / average).max(1.0) } else { 1.0 }
    }

    /// The thread that worked most.
    pub fn busiest(&self) -> Option<&'a Thread> {
        self.crew.iter().copied().max_by_key(|thread| thread.work_ns())
    }

    /// What to expect when a delay of `loss_ns` thread time goes away, on CPUs of one's own.
    pub fn without_delay(&self, loss_ns: f64) -> Expected {
        Expected::of_delay(self.wall_ns, loss_ns, self.crew.len() as f64, self.thread_bound())
    }

    /// CPUs' worth of time that others used, of those the program may use.
    pub fn cpus_of_others(&self) -> f64 {
        self.over_cpus(|cpu| cpu.busy_others_ns) as f64 / self.account.window_ns.max(1) as f64
    }

    /// CPUs' worth of time that others and the quota left: at least what the program did use.
    pub fn cpus_left(&self) -> f64 {
        let beside = self.cpus - self.cpus_of_others();
        let granted = self.facts.quota().map_or(beside, |quota| beside.min(quota));
        granted.max(self.concurrency.running).clamp(LEAST_CPUS, self.cpus)
    }

    /// The takers of one kind, largest first.
    pub fn takers(&self, kind: PreemptorKind) -> Vec<&'a Preemptor> {
        let mut takers: Vec<&Preemptor> = self.account.preemptors.iter().filter(|preemptor| preemptor.kind == kind).collect();
        takers.sort_by_key(|preemptor| std::cmp::Reverse(preemptor.wait_ns));
        takers
    }

    /// The part of the CPUs' time that was idle while no thread of the program waited for a CPU; nothing if that is
    /// too little to speak of, or the backend does not see CPUs.
    pub fn unused(&self) -> Option<f64> {
        let idle = self.over_cpus(|cpu| cpu.idle_ns.saturating_sub(cpu.idle_while_waiting_ns));
        let unused = share(idle as f64, self.account.window_ns as f64 * self.cpus);
        (unused >= UNUSED_CPUS_SHARE).then_some(unused)
    }

    /// Sum over the CPUs the program may use; all CPUs when those are not known.
    pub fn over_cpus(&self, part: impl Fn(&ledger::CpuAccount) -> u64) -> u64 {
        let allowed = self.facts.program_cpus();
        let counted = self.account.cpus.iter().filter(|cpu| allowed.is_empty() || allowed.contains(&cpu.cpu));
        counted.fold(0, |sum, cpu| sum.saturating_add(part(cpu)))
    }

    /// Part of the CPUs' time somebody used; by members alone where CPUs are not seen.
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

/// `part / whole` within 0 to 1; 0 of nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}
