//! Pinned to too few CPUs: threads queue behind siblings while the machine has CPUs they may not use.
//!
//! Three signs: the program narrowed its own mask; or the mask it inherited is smaller than the machine,
//! and a CPU outside it was mostly idle; or the mask is wide but the threads ran on few of its CPUs only,
//! queueing there. No load balancer leaves it at that, so each thread's own mask must be narrow.
//!
//! A packed program's masks are cox's, on CPUs that its user named: nobody has to be told.
//!
//! Bound: the work bound on what others left of all these CPUs, and no more than that per CPU used.

use ledger::CpuAccount;
use ledger::account::{cpu, thread};

use super::Finding;
use crate::blame::Delay;
use crate::expected::Expected;
use crate::figures::{Figure, Whole, say};
use crate::numbers::{about_percent, counted, cpu_list};
use crate::openmp;
use crate::picture::Picture;
use crate::thresholds::{IDLE_CPU_SHARE, UNUSED_CPU_SHARE, WORTH_FACTOR, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, NextStep};

/// Using more CPUs reaches at least this part of the bound; the rest is memory and the inequality of
/// threads, which more CPUs make visible.
const REACHED: f64 = 0.6;

/// A second hardware thread of a core adds about this much of a CPU.
const SMT_PART: f64 = 0.5;

/// CPUs that others hold all of have next to no room; what they have divides.
const LEAST_ROOM: f64 = 0.01;

/// CPUs the program did not use and could have.
pub(crate) struct Elsewhere {
    /// CPUs it used.
    used: Vec<u32>,
    /// CPUs that stood idle.
    free: Vec<u32>,
    /// Whether at least one was seen idle.
    seen: bool,
}

/// Threads queue although CPUs are free.
pub(crate) fn too_few_cpus(picture: &Picture) -> Option<Finding> {
    let elsewhere = elsewhere(picture)?;
    let kind = Kind::PinnedTooFew;
    let (used, free) = (room(picture, &elsewhere.used), room(picture, &elsewhere.free));
    let added = if picture.facts.smt { free * SMT_PART } else { free };
    let faster = |cpus: f64| picture.work_bound_on(cpus).min(cpus / used);
    let (bound, reached) = (faster(used + free), faster(used + added));
    let expected = Expected::new(reached * REACHED, bound, bound);
    let all: Vec<u32> = elsewhere.used.iter().chain(&elsewhere.free).copied().collect();

    let idle = if elsewhere.seen { "stood idle" } else { "was not used" };
    let text = format!(
        "{} shared CPU {} while CPU {} {idle}: {} of thread time waited for a CPU.",
        counted(picture.crew.len() as u64, "thread"),
        cpu_list(&elsewhere.used),
        cpu_list(&elsewhere.free),
        about_percent(picture.share(picture.sums.waiting_for_cpu_ns())),
    );
    let figures = [
        Figure::Whole(Whole::CrewThreads),
        Figure::Whole(Whole::ProgramCpus),
        Figure::Whole(Whole::OnlineCpus),
        Figure::Sum(thread::waiting_for_cpu_ns),
        Figure::Whole(Whole::TookSiblingNs),
        Figure::Cpus(cpu::idle_ns),
        Figure::Cpus(cpu::idle_while_waiting_ns),
    ];
    let mut main = say(picture, text, &figures);
    main.next.push(
        NextStep::expecting(widen(picture, &all), &expected, kind).without("any waiting for a CPU", picture.cpus),
    );
    main.next.extend(openmp::threads(picture, elsewhere.used.len() as f64, kind));
    main.next.retain(|step| step.bound.is_some());
    if main.next.is_empty() {
        return None;
    }
    let back_ns = picture.blame.total_ns(Delay::Sibling) + picture.blame.total_ns(Delay::Unseen);
    let confidence = if elsewhere.seen { Confidence::High } else { Confidence::Medium };
    Some(Finding { kind, back_ns, confidence, sentences: vec![main] })
}

/// The free CPUs, if threads queued behind siblings and were not allowed on them.
pub(crate) fn elsewhere(picture: &Picture) -> Option<Elsewhere> {
    let queued = if picture.sees.takers { picture.behind.siblings_ns } else { picture.sums.waiting_for_cpu_ns() };
    if picture.share(queued) < WORTH_SHARE || picture.crew.len() < 2 || picture.facts.is_packed() {
        return None;
    }
    let elsewhere = outside_the_mask(picture).or_else(|| unused_inside_the_mask(picture))?;
    let (used, free) = (room(picture, &elsewhere.used), room(picture, &elsewhere.free));
    (used + free >= WORTH_FACTOR * used).then_some(elsewhere)
}

/// CPUs' worth of time that others left of `cpus`; all of it where that is not seen.
fn room(picture: &Picture, cpus: &[u32]) -> f64 {
    let others = |number: &u32| {
        let account = picture.account.cpus.iter().find(|cpu| cpu.cpu == *number);
        account.map_or(0.0, |cpu| cpu.busy_others_ns as f64 / (total_ns(cpu) as f64).max(1.0))
    };
    cpus.iter().map(|number| 1.0 - others(number)).sum::<f64>().max(LEAST_ROOM)
}

/// Online CPUs that the program's mask leaves out. A mask the program has given itself can be taken
/// back; one that it inherited is blamed only where CPUs outside were not in use.
fn outside_the_mask(picture: &Picture) -> Option<Elsewhere> {
    let (used, online) = (picture.facts.program_cpus(), &picture.facts.online_cpus);
    let outside: Vec<u32> = online.iter().filter(|cpu| !used.contains(cpu)).copied().collect();
    if used.is_empty() || outside.is_empty() || picture.crew.len() <= used.len() {
        return None;
    }
    let accounts: Vec<&CpuAccount> = picture.account.cpus.iter().filter(|cpu| outside.contains(&cpu.cpu)).collect();
    let seen = !accounts.is_empty();
    let own = picture.facts.pinned_cpus.is_some();
    let free: Vec<u32> = if seen && !own {
        accounts.into_iter().filter(|cpu| is_idle(cpu)).map(|cpu| cpu.cpu).collect()
    } else {
        outside
    };
    let seen = picture.account.cpus.iter().any(|cpu| free.contains(&cpu.cpu) && is_idle(cpu));
    (!free.is_empty()).then(|| Elsewhere { used: used.to_vec(), free, seen })
}

/// CPUs of the mask that no thread ran on while threads queued for the others.
fn unused_inside_the_mask(picture: &Picture) -> Option<Elsewhere> {
    let least = (UNUSED_CPU_SHARE * picture.sums.run_ns as f64) as u64;
    let mask = picture.facts.program_cpus();
    let inside = picture.account.cpus.iter().filter(|cpu| mask.is_empty() || mask.contains(&cpu.cpu));
    let (used, free): (Vec<&CpuAccount>, Vec<&CpuAccount>) = inside.partition(|cpu| cpu.busy_program_ns > least);
    let crowded = picture.crew.len() > used.len() && !used.is_empty() && !free.is_empty();
    // A CPU that idled while a member could have run there was allowed: that is the balancer's doing.
    let balancer = |cpu: &&CpuAccount| cpu.idle_while_waiting_ns as f64 > UNUSED_CPU_SHARE * total_ns(cpu) as f64;
    if !crowded || free.iter().any(balancer) || !free.iter().any(|cpu| is_idle(cpu)) {
        return None;
    }
    let numbers = |cpus: &[&CpuAccount]| cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<u32>>();
    Some(Elsewhere { used: numbers(&used), free: numbers(&free), seen: true })
}

fn total_ns(cpu: &CpuAccount) -> u64 {
    [cpu.busy_program_ns, cpu.busy_others_ns, cpu.idle_ns].into_iter().fold(0, u64::saturating_add)
}

fn is_idle(cpu: &CpuAccount) -> bool {
    cpu.idle_ns > 0 && cpu.idle_ns as f64 >= IDLE_CPU_SHARE * total_ns(cpu) as f64
}

/// How to let the program use `cpus`.
fn widen(picture: &Picture, cpus: &[u32]) -> String {
    let binding = ["OMP_PLACES", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND"];
    let is_set = |name: &&str| openmp::is_openmp(picture) && picture.facts.environment.contains_key(*name);
    match binding.into_iter().find(is_set) {
        Some(name) => format!("unset {name}, or let it cover CPU {}", cpu_list(cpus)),
        None => format!("allow CPU {} (taskset -c {0}, cpuset or job request)", cpu_list(cpus)),
    }
}
