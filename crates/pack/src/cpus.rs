//! Chooses the CPUs on which a program is packed (its *pack*), and computes the capacity of each.

use std::collections::BTreeMap;

use machine::CpuSet;
use machine::topology::{Cpu, Topology};

use crate::policy::assignment::FULL_CAPACITY;

/// Capacity of a hardware thread while the packed program also uses its SMT sibling, in percent of its capacity without
/// the sibling. Both siblings together do about a quarter more work than one alone (2 × 62 % = 124 %; usually 10 to 40
/// % more with numerical codes).
const SIBLING_PERCENT: u64 = 62;

/// Chooses `count` of the allowed CPUs; returns `None` if fewer are allowed. The order of preference is:
///
/// 1. CPUs of the last-level cache that has the most allowed CPUs;
/// 2. one CPU of each core, before the second CPU of any core;
/// 3. CPUs with the highest capacity.
#[must_use]
pub fn choose(topology: &Topology, allowed: &CpuSet, count: usize) -> Option<CpuSet> {
    if allowed.len() < count {
        return None;
    }
    let cpus: Vec<&Cpu> = topology.cpus.iter().filter(|cpu| allowed.contains(cpu.id)).collect();
    let mut in_cache: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    for cpu in &cpus {
        *in_cache.entry(cpu.last_level_cache).or_default() += 1;
    }
    // The CPU's position among the allowed CPUs of its core; CPUs at position 0 are chosen first.
    let place = |cpu: &Cpu| cpu.smt_siblings.iter().filter(|id| allowed.contains(*id) && *id < cpu.id).count();
    let mut order: Vec<_> = cpus
        .iter()
        .map(|cpu| {
            let mates = in_cache.get(&cpu.last_level_cache).copied().unwrap_or(0);
            let capacity = cpu.capacity.unwrap_or(FULL_CAPACITY as u32);
            (std::cmp::Reverse(mates), cpu.last_level_cache, place(cpu), std::cmp::Reverse(capacity), cpu.id)
        })
        .collect();
    order.sort_unstable();
    let mut chosen: CpuSet = CpuSet::new();
    // CPUs that the topology does not list come last.
    let unlisted = allowed.iter().filter(|id| topology.cpu(*id).is_none());
    for id in order.into_iter().map(|(.., id)| id).chain(unlisted).take(count) {
        chosen.insert(id);
    }
    Some(chosen)
}

/// Returns the capacity of each CPU of a pack, in the set's order, relative to [`FULL_CAPACITY`]: the kernel's value,
/// reduced if the CPU shares its core with another CPU of the pack.
#[must_use]
pub fn capacities(topology: &Topology, pack: &CpuSet) -> Vec<u64> {
    let capacity = |id: u32| {
        let cpu = topology.cpu(id);
        let own = cpu.and_then(|cpu| cpu.capacity).map_or(FULL_CAPACITY, u64::from);
        let shares = cpu.is_some_and(|cpu| cpu.smt_siblings.intersection(pack).len() > 1);
        if shares { own * SIBLING_PERCENT / 100 } else { own }
    };
    pack.iter().map(|id| capacity(id).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use machine::Root;

    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    /// Two caches of four CPUs; 0 and 4, 1 and 5 ... are siblings of one core; core 3 is slow.
    fn eight() -> Topology {
        eight_with_online("0-7")
    }

    fn eight_with_online(online: &str) -> Topology {
        let folder = tempfile::tempdir().unwrap();
        let cpus = folder.path().join("sys/devices/system/cpu");
        let write = |path: String, text: String| {
            let path = cpus.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text + "\n").unwrap();
        };
        write("online".into(), online.into());
        write("possible".into(), "0-7".into());
        for id in 0..8 {
            let core = id % 4;
            let shared = if core < 2 { "0-1,4-5" } else { "2-3,6-7" };
            for (file, text) in [
                ("topology/core_id", core.to_string()),
                ("topology/physical_package_id", "0".into()),
                ("topology/thread_siblings_list", format!("{core},{}", core + 4)),
                ("cpu_capacity", if core == 3 { "512".into() } else { "1024".into() }),
                ("cache/index3/level", "3".into()),
                ("cache/index3/type", "Unified".into()),
                ("cache/index3/shared_cpu_list", shared.into()),
            ] {
                write(format!("cpu{id}/{file}"), text);
            }
        }
        Topology::read(&Root::at(folder.path())).unwrap()
    }

    #[test]
    fn cores_before_siblings_and_one_cache_before_another() {
        assert_eq!(choose(&eight(), &set("0-7"), 2), Some(set("0-1")));
        assert_eq!(choose(&eight(), &set("0-7"), 3), Some(set("0-1,4")));
        assert_eq!(choose(&eight(), &set("1-3,6-7"), 2), Some(set("2-3")), "the cache with most allowed CPUs");
        assert_eq!(choose(&eight(), &set("4-7"), 2), Some(set("4-5")));
        assert_eq!(choose(&eight(), &set("2-3"), 3), None);
        assert_eq!(choose(&eight(), &set("3,6"), 1), Some(set("6")), "the fast core first");
    }

    /// A cpuset may still name it, also as an online CPU's sibling.
    #[test]
    fn a_cpu_that_is_offline_comes_last_and_shares_nothing() {
        let topology = eight_with_online("0,2-7");
        assert_eq!(choose(&topology, &set("0-1,4"), 2), Some(set("0,4")));
        assert_eq!(choose(&topology, &set("1,7"), 1), Some(set("7")));
        assert_eq!(choose(&topology, &set("0-7"), 2), Some(set("2-3")), "two cores before two siblings");
        assert_eq!(capacities(&topology, &set("0,5")), [1024, 1024]);
    }

    #[test]
    fn siblings_share_a_core() {
        assert_eq!(capacities(&eight(), &set("0-1")), [1024, 1024]);
        assert_eq!(capacities(&eight(), &set("0,3-4")), [634, 512, 634]);
        assert_eq!(capacities(&eight(), &set("99")), [1024]);
    }
}
