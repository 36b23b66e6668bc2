//! CPUs that are idle while the program's threads queue for other CPUs, because an affinity mask excludes them.

use std::collections::BTreeMap;

use ledger::CpuAccount;

use crate::evidence::Evidence;
use crate::thresholds::{IDLE_CPU_SHARE, UNUSED_CPU_SHARE, WORTH_FACTOR, WORTH_SHARE};

/// The CPUs that the program used, and the free CPUs that it could have used but did not.
pub(crate) struct Elsewhere {
    /// CPUs that the program used.
    pub(crate) used: Vec<u32>,
    /// CPUs that were free.
    pub(crate) free: Vec<u32>,
    /// True if at least one of the free CPUs was observed to be idle.
    pub(crate) seen: bool,
    /// True if the free CPUs are in the program's affinity mask, so that its threads must have narrower masks.
    pub(crate) inside: bool,
}

/// Smallest number of CPUs that [`room`] returns. It is above 0 because this number is used as a divisor, and other programs may have held all CPUs
/// all the time.
const LEAST_ROOM: f64 = 0.01;

/// Returns the CPUs that the program used, and the free CPUs that an affinity mask kept it from using. `None` if its threads hardly queued for one
/// another's CPUs, or if no such CPUs were free.
pub(crate) fn elsewhere(evidence: &Evidence) -> Option<Elsewhere> {
    if evidence.worker_share(evidence.queued_ns() as f64) < WORTH_SHARE
        || evidence.workers.len() < 2
        || evidence.facts.is_packed()
    {
        return None;
    }
    let elsewhere = outside_the_mask(evidence).or_else(|| unused_inside_the_mask(evidence))?;
    let (used, free) = (room(evidence, &elsewhere.used), room(evidence, &elsewhere.free));
    (used + free >= WORTH_FACTOR * used).then_some(elsewhere)
}

/// Returns the number of `cpus` minus the average number of them that other programs used. May be fractional, and is at least [`LEAST_ROOM`]. If the
/// backend does not see other programs, they count as using none.
pub(crate) fn room(evidence: &Evidence, cpus: &[u32]) -> f64 {
    let others = |number: &u32| {
        let account = evidence.account.cpus.iter().find(|cpu| cpu.cpu == *number);
        account.map_or(0.0, |cpu| cpu.busy_others_ns as f64 / (total_ns(cpu) as f64).max(1.0))
    };
    cpus.iter().map(|number| 1.0 - others(number)).sum::<f64>().max(LEAST_ROOM)
}

/// Returns online CPUs outside the program's affinity mask. If the program set the mask itself, it can undo that. An inherited mask is reported only
/// if CPUs outside it were idle.
fn outside_the_mask(evidence: &Evidence) -> Option<Elsewhere> {
    let (used, online) = (evidence.facts.program_cpus(), &evidence.facts.online_cpus);
    let outside: Vec<u32> = online.iter().filter(|cpu| !used.contains(cpu)).copied().collect();
    if used.is_empty() || outside.is_empty() || evidence.workers.len() <= used.len() {
        return None;
    }
    let accounts: Vec<&CpuAccount> = evidence.account.cpus.iter().filter(|cpu| outside.contains(&cpu.cpu)).collect();
    let seen = !accounts.is_empty();
    let own = evidence.facts.pinned_cpus.is_some();
    let free: Vec<u32> = if seen && !own {
        accounts.into_iter().filter(|cpu| is_idle(cpu)).map(|cpu| cpu.cpu).collect()
    } else {
        outside
    };
    let seen = evidence.account.cpus.iter().any(|cpu| free.contains(&cpu.cpu) && is_idle(cpu));
    (!free.is_empty()).then(|| Elsewhere { used: used.to_vec(), free, seen, inside: false })
}

/// Returns CPUs of the affinity mask that no worker thread used, while threads queued for other CPUs of the mask. What other threads of the program run
/// there does not count: the launcher of a rank polls on another CPU than the one to which it has bound the rank.
fn unused_inside_the_mask(evidence: &Evidence) -> Option<Elsewhere> {
    let ran_ns = ran_by_cpu(evidence);
    let mask = evidence.facts.program_cpus();
    let inside = evidence.account.cpus.iter().filter(|cpu| mask.is_empty() || mask.contains(&cpu.cpu));
    let all_ns = if ran_ns.is_empty() { evidence.sums.run_ns } else { evidence.worker_sums.run_ns };
    let least = (UNUSED_CPU_SHARE * all_ns as f64) as u64;
    let ran_here = |cpu: &CpuAccount| {
        if ran_ns.is_empty() { cpu.busy_program_ns } else { ran_ns.get(&cpu.cpu).copied().unwrap_or(0) }
    };
    let (used, free): (Vec<&CpuAccount>, Vec<&CpuAccount>) = inside.partition(|cpu| ran_here(cpu) > least);
    let oversubscribed = evidence.workers.len() > used.len() && !used.is_empty() && !free.is_empty();
    // If a CPU was idle while a tracked thread waited and was allowed to run on this CPU, the load balancer caused the wait, not the mask.
    let balancer = |cpu: &&CpuAccount| cpu.idle_while_waiting_ns as f64 > UNUSED_CPU_SHARE * total_ns(cpu) as f64;
    if !oversubscribed || free.iter().any(balancer) {
        return None;
    }
    let free: Vec<&CpuAccount> = free.into_iter().filter(|cpu| is_idle(cpu)).collect();
    if free.is_empty() {
        return None;
    }
    let numbers = |cpus: &[&CpuAccount]| cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<u32>>();
    Some(Elsewhere { used: numbers(&used), free: numbers(&free), seen: true, inside: true })
}

/// Returns the run time of the worker threads by CPU. Returns no CPU if that is not known for all of them, or if one ran on so many CPUs that not all
/// are known.
fn ran_by_cpu(evidence: &Evidence) -> BTreeMap<u32, u64> {
    let mut ran_ns: BTreeMap<u32, u64> = BTreeMap::new();
    for thread in &evidence.workers {
        let is_known = thread.run_ns == 0 || thread.cpus.cpus().next().is_some();
        if !is_known || thread.cpus.other_ns() > 0 {
            return BTreeMap::new();
        }
        for (cpu, ns) in thread.cpus.iter() {
            let sum = ran_ns.entry(cpu).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
    ran_ns
}

fn total_ns(cpu: &CpuAccount) -> u64 {
    [cpu.busy_program_ns, cpu.busy_others_ns, cpu.idle_ns].into_iter().fold(0, u64::saturating_add)
}

fn is_idle(cpu: &CpuAccount) -> bool {
    cpu.idle_ns > 0 && cpu.idle_ns as f64 >= IDLE_CPU_SHARE * total_ns(cpu) as f64
}
