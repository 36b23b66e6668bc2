//! Which CPUs become quiet.

use std::cmp::Reverse;
use std::fmt;

use changes::Claim;
use machine::CpuSet;

use crate::facts::{Cpusets, Facts, Interrupt};

/// The CPUs that become quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The quiet CPUs.
    pub cpus: CpuSet,
    /// The other online CPUs.
    pub housekeeping: CpuSet,
    /// The CPUs on which the system may run if no session keeps any quiet: the online ones that were not isolated at
    /// boot, and are in no partition of another cgroup.
    pub system: CpuSet,
    /// What stays on the quiet CPUs because of this choice, one sentence each.
    pub prices: Vec<String>,
}

impl Chosen {
    /// Returns the claim of a setting that must do without the quiet CPUs.
    #[must_use]
    pub fn claim(&self) -> Claim {
        self.claim_on(&self.cpus)
    }

    /// Returns the claim of a setting that can do without some of the quiet CPUs only.
    #[must_use]
    pub(crate) fn claim_on(&self, cpus: &CpuSet) -> Claim {
        Claim::Without { cpus: cpus.clone(), otherwise: self.system.clone() }
    }
}

/// Why CPUs cannot become quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The list is empty, or the number is 0.
    Nothing,
    /// The machine has one CPU.
    OneCpu,
    /// No CPU would be left for the rest of the system: this many are online.
    NoHousekeeping(usize),
    /// More CPUs than can become quiet: how many can, and how many are wanted.
    TooMany(usize, usize),
    /// These CPUs are not online.
    Offline(CpuSet),
    /// cox may not use these CPUs: it runs in a container or cpuset without them.
    NotAllowed(CpuSet),
    /// These CPUs have been without load balancing since boot.
    Isolated(CpuSet),
    /// These CPUs are in the partition of another cgroup.
    InPartition(CpuSet, String),
    /// These CPUs are in an exclusive cpuset of version 1, which no cpuset beside it may share.
    InExclusive(CpuSet, String),
    /// Another session of cox keeps these CPUs quiet, in this cpuset.
    Quieted(CpuSet, String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Nothing => write!(f, "no CPU is named"),
            Refusal::OneCpu => write!(f, "this machine has one CPU, on which the whole system runs"),
            Refusal::NoHousekeeping(online) => {
                write!(f, "no CPU would be left for the rest of the system ({online} are online). Fix: name fewer CPUs")
            }
            Refusal::TooMany(most, wanted) => write!(
                f,
                "{wanted} CPUs are wanted, and {most} can become quiet: the others are isolated, in partitions, quiet already, or the last one. Fix: want fewer"
            ),
            Refusal::Offline(cpus) => write!(f, "not online: CPUs {cpus}"),
            Refusal::NotAllowed(cpus) => write!(f, "cox may not use CPUs {cpus}: it is in a cpuset without them"),
            Refusal::Isolated(cpus) => {
                write!(f, "CPUs {cpus} are isolated since boot (isolcpus=). Fix: start the program there with taskset")
            }
            Refusal::InPartition(cpus, owner) => write!(f, "CPUs {cpus} are in the partition of {owner}"),
            Refusal::InExclusive(cpus, owner) => {
                write!(
                    f,
                    "CPUs {cpus} belong to the exclusive cpuset {owner}. Fix: write 0 to its cpuset.cpu_exclusive"
                )
            }
            Refusal::Quieted(cpus, owner) => {
                write!(f, "another session keeps CPUs {cpus} quiet, in {owner}. Fix: see cox quiet status")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks CPUs that the user names.
///
/// # Errors
/// The reason why they cannot become quiet.
pub fn check(facts: &Facts, cpus: &CpuSet) -> Result<Chosen, Refusal> {
    let online = &facts.topology.online;
    if cpus.is_empty() {
        return Err(Refusal::Nothing);
    }
    let outside = |set: &CpuSet| Some(cpus.difference(set)).filter(|rest| !rest.is_empty());
    if let Some(offline) = outside(online) {
        return Err(Refusal::Offline(offline));
    }
    if online.len() == 1 {
        return Err(Refusal::OneCpu);
    }
    // Before the cpuset: that session has taken its CPUs from the cpuset of everything else, and so from cox's.
    for (owner, its) in &facts.quieted {
        let common = cpus.intersection(its);
        if !common.is_empty() {
            return Err(Refusal::Quieted(common, owner.display().to_string()));
        }
    }
    if let Some(others) = outside(&facts.allowed) {
        return Err(Refusal::NotAllowed(others));
    }
    let isolated = cpus.intersection(&facts.isolated);
    if !isolated.is_empty() {
        return Err(Refusal::Isolated(isolated));
    }
    for (owner, its) in &facts.partitions {
        let common = cpus.intersection(its);
        if !common.is_empty() {
            let owner = owner.display().to_string();
            let is_v1 = matches!(facts.cpusets, Cpusets::V1 { .. });
            return Err(if is_v1 { Refusal::InExclusive(common, owner) } else { Refusal::InPartition(common, owner) });
        }
    }
    let housekeeping = online.difference(cpus).difference(&taken(facts));
    if housekeeping.is_empty() {
        return Err(Refusal::NoHousekeeping(online.len()));
    }
    let system = online.difference(&foreign(facts));
    Ok(Chosen { prices: prices(facts, cpus), cpus: cpus.clone(), housekeeping, system })
}

/// Chooses `count` CPUs.
///
/// If there are enough CPUs whose tick can stop, only these are chosen. Cores that no interrupt is bound to come first,
/// and of those with equally many, the core of the CPU that keeps the time comes last. Among equal ones, whole cores
/// come before parts of cores, because a sibling that is not quiet shares the core's units; and high ones before low
/// ones, on which people expect the system.
///
/// # Errors
/// The reason why so many cannot become quiet.
pub fn choose(facts: &Facts, count: usize) -> Result<Chosen, Refusal> {
    let online = &facts.topology.online;
    if count == 0 {
        return Err(Refusal::Nothing);
    }
    if online.len() == 1 {
        return Err(Refusal::OneCpu);
    }
    if count >= online.len() {
        return Err(Refusal::NoHousekeeping(online.len()));
    }
    let taken = taken(facts);
    let free = online.intersection(&facts.allowed).difference(&taken);
    // If no other CPU is left for housekeeping, one of the free ones has to stay.
    let most = if online.difference(&taken).is_subset(&free) { free.len().saturating_sub(1) } else { free.len() };
    if count > most {
        return Err(Refusal::TooMany(most, count));
    }
    let tickless = free.intersection(&facts.nohz_full.clone().unwrap_or_default());
    let free = if tickless.len() >= count { tickless } else { free };
    let mut cores: Vec<&CpuSet> = Vec::new();
    for cpu in facts.topology.cpus.iter().filter(|cpu| free.contains(cpu.id)) {
        if !cores.contains(&&cpu.smt_siblings) {
            cores.push(&cpu.smt_siblings);
        }
    }
    let bound = |core: &CpuSet| facts.interrupts.iter().filter(|interrupt| is_bound(interrupt, core)).count();
    let keeps_time = |core: &CpuSet| facts.boot_cpu().is_some_and(|cpu| core.contains(cpu));
    let rank = |core: &CpuSet| (bound(core), keeps_time(core));
    cores.sort_by_key(|core| (rank(core), Reverse(core.last())));
    let mut cpus = CpuSet::new();
    for equal in cores.chunk_by(|one, other| rank(one) == rank(other)) {
        for core in equal.iter().filter(|core| core.is_subset(&free)) {
            if cpus.len() + core.len() <= count {
                cpus.extend(core.iter());
            }
        }
        // The rest comes from a core that is left: its other CPUs stay with the system.
        let rest = equal.iter().flat_map(|core| core.iter()).filter(|cpu| free.contains(*cpu) && !cpus.contains(*cpu));
        let mut rest: Vec<u32> = rest.collect();
        rest.sort_by_key(|cpu| facts.boot_cpu() == Some(*cpu));
        cpus.extend(rest.into_iter().take(count - cpus.len()));
    }
    check(facts, &cpus)
}

/// Returns the CPUs that neither the system nor cox can have.
fn taken(facts: &Facts) -> CpuSet {
    facts.quieted.values().fold(foreign(facts), |all, its| all.union(its))
}

/// Returns the CPUs that do not belong to the system, and not to another session either.
fn foreign(facts: &Facts) -> CpuSet {
    facts.partitions.values().fold(facts.isolated.clone(), |all, its| all.union(its))
}

/// Returns whether an interrupt comes to some of these CPUs and cannot be moved away from them.
pub(crate) fn is_bound(interrupt: &Interrupt, cpus: &CpuSet) -> bool {
    interrupt.is_fixed && !interrupt.effective.intersection(cpus).is_empty()
}

fn prices(facts: &Facts, cpus: &CpuSet) -> Vec<String> {
    let mut prices = Vec::new();
    for cpu in facts.topology.cpus.iter().filter(|cpu| cpus.contains(cpu.id)) {
        // The sibling uses units of the core, whether the system, another session or a partition has it.
        let beside = cpu.smt_siblings.intersection(&facts.topology.online).difference(cpus);
        if !beside.is_empty() {
            prices
                .push(format!("CPU {} shares its core with CPU {beside}, which is not quiet for this program", cpu.id));
        }
    }
    if let Some(cpu) = facts.boot_cpu().filter(|cpu| cpus.contains(*cpu)) {
        prices.push(format!("CPU {cpu} may keep the time for all CPUs"));
    }
    prices
}
