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
    assert!(!topology.has_smt());
    assert_eq!(topology.cpus[1].last_level_cache, Some(0));
    assert_eq!(topology.cpus[1].capacity, Some(1024));
}

#[test]
fn two_packages_with_smt() {
    let topology = read("numa-smt");
    assert_eq!(topology.online.len(), 8);
    assert_eq!(topology.possible.len(), 16);
    assert!(topology.has_smt());
    let cpu = topology.cpu(6).expect("cpu 6");
    assert_eq!(cpu.smt_siblings.to_string(), "2,6");
    let caches: Vec<_> = topology.cpus.iter().filter_map(|cpu| cpu.last_level_cache).collect();
    assert_eq!(caches, [0, 0, 2, 2, 0, 0, 2, 2]);
}

#[test]
fn big_and_little_cores() {
    let topology = read("big-little");
    assert_eq!((topology.online.to_string().as_str(), topology.possible.len()), ("0-4", 6));
    assert_eq!(topology.cpus.iter().map(|cpu| cpu.capacity).collect::<Vec<_>>(), {
        let mut capacities = vec![Some(446); 4];
        capacities.push(Some(1024));
        capacities
    });
    let caches: Vec<_> = topology.cpus.iter().filter_map(|cpu| cpu.last_level_cache).collect();
    assert_eq!(caches, [0, 0, 0, 0, 4]);
}
