//! Topologies of the three machines in `fixtures`.

mod common;

use common::tree;
use machine::topology::Topology;

fn read(name: &str) -> Topology {
    Topology::read(&tree(name)).expect("a topology")
}

#[test]
fn a_small_virtual_machine() {
    let topology = read("vm-2cpu");
    assert_eq!(topology.online.to_string(), "0-1");
    assert_eq!((topology.core_count(), topology.package_count()), (2, 1));
    assert!(!topology.has_smt() && !topology.is_hybrid());
    assert_eq!(topology.last_level_caches.len(), 1);
    assert_eq!(topology.last_level_caches[0].level, 3);
    assert_eq!(topology.last_level_caches[0].cpus.to_string(), "0-1");
    assert_eq!(topology.last_level_cache_bytes(), Some(32 << 20));
    assert_eq!(topology.cpus[1].capacity, Some(1024));
    assert_eq!(topology.cpus[1].node, Some(0));
}

#[test]
fn two_packages_with_smt() {
    let topology = read("numa-smt");
    assert_eq!(topology.online.len(), 8);
    assert_eq!(topology.possible.len(), 16);
    // Core numbers repeat in the second package: counting them would give two cores.
    assert_eq!((topology.core_count(), topology.package_count()), (4, 2));
    assert!(topology.has_smt() && !topology.is_hybrid());
    let cpu = topology.cpu(6).expect("cpu 6");
    assert_eq!(cpu.smt_siblings.to_string(), "2,6");
    assert_eq!((cpu.core_id, cpu.package_id, cpu.node), (Some(0), Some(1), Some(1)));
    let cache = &topology.last_level_caches[cpu.last_level_cache.expect("has one")];
    assert_eq!((cache.cpus.to_string().as_str(), cache.size_bytes), ("2-3,6-7", Some(24 << 20)));
    assert_eq!(topology.last_level_cache_bytes(), Some(48 << 20));
    let nodes: Vec<String> = topology.nodes.iter().map(|node| node.cpus.to_string()).collect();
    assert_eq!(nodes, ["0-1,4-5", "2-3,6-7", ""]);
    let some = "0,4,6-7".parse().expect("a list");
    assert_eq!(topology.cores_in(&some), 3);
}

#[test]
fn big_and_little_cores() {
    let topology = read("big-little");
    assert_eq!((topology.online.to_string().as_str(), topology.possible.len()), ("0-4", 6));
    assert!(topology.is_hybrid());
    assert_eq!(topology.cpus.iter().map(|cpu| cpu.capacity).collect::<Vec<_>>(), {
        let mut capacities = vec![Some(446); 4];
        capacities.push(Some(1024));
        capacities
    });
    assert_eq!(topology.package_count(), 1);
    let caches: Vec<_> = topology
        .last_level_caches
        .iter()
        .map(|cache| (cache.level, cache.cpus.to_string(), cache.size_bytes))
        .collect();
    assert_eq!(caches, [(2, "0-3".to_owned(), Some(512 << 10)), (2, "4".to_owned(), Some(1 << 20))]);
    assert!(topology.nodes.is_empty());
}
