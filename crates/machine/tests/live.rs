//! The machine the tests run on: what is read must hold together, whatever the machine is.

use std::fs;
use std::process::{Command, Stdio};

use machine::busy::busy_ns;
use machine::cgroup::{Hierarchies, Mode};
use machine::features::{Facts, FeatureId, evaluate};
use machine::limits::{CpuLimits, Who, allowed_cpus};
use machine::process::{BootClocks, Task};
use machine::topology::Topology;
use machine::{CpuSet, Root};

#[test]
fn the_topology_holds_together() {
    let topology = Topology::read(&Root::live()).expect("a topology");
    assert!(topology.online.is_subset(&topology.possible));
    assert_eq!(topology.cpus.iter().map(|cpu| cpu.id).collect::<CpuSet>(), topology.online);
    for cpu in &topology.cpus {
        assert!(cpu.smt_siblings.contains(cpu.id));
        if let Some(first) = cpu.last_level_cache {
            assert_eq!(topology.cpu(first).expect("it is online").last_level_cache, Some(first));
        }
    }
}

#[test]
fn own_limits_agree_with_the_status_file() {
    let root = Root::live();
    let limits = CpuLimits::read(&root, Who::Own).expect("limits");
    let status = Task::own(&root).status().expect("status");
    assert_eq!(limits.allowed, status.allowed_cpus.intersection(&Topology::read_online(&root).expect("online")));
    assert!(limits.quota.is_none_or(|quota| quota.cpus() > 0.0));
    let own = Who::Task(std::process::id());
    assert!(!allowed_cpus(&root, own).expect("allowed").is_empty());
}

#[test]
fn a_child_is_seen_with_its_start_and_its_arguments() {
    let root = Root::live();
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("start the sleeper");
    let task = Task::process(&root, child.id());
    // `spawn` returns at the point of no return of the exec; its arguments are in place a little later.
    for _ in 0..10_000 {
        if task.cmdline().is_ok_and(|arguments| !arguments.is_empty()) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let stat = task.stat().expect("stat");
    let own_stat = Task::own(&root).stat().expect("stat");
    let listed = root.list_numbers("/proc").expect("pids").contains(&child.id());
    let maps = task.maps().expect("maps");
    let arguments = task.cmdline().expect("cmdline");
    child.kill().expect("kill");
    child.wait().expect("wait");

    assert!(listed);
    assert!(stat.start_boottime_ns >= own_stat.start_boottime_ns);
    let clocks = BootClocks::now();
    assert!(clocks.monotonic_ns(stat.start_boottime_ns) <= stat.start_boottime_ns);
    assert!(maps.iter().any(|mapping| mapping.executable));
    assert_eq!(arguments[1], "60");
    assert!(task.stat().expect_err("it has ended").is_gone());
    assert!(!task.exists());
}

#[test]
fn every_visible_process_can_be_read() {
    let root = Root::live();
    let mut read = 0;
    for pid in root.list_numbers("/proc").expect("pids") {
        let task = Task::process(&root, pid);
        for result in [task.stat().map(|_| ()), task.status().map(|_| ()), task.cgroups().map(|_| ())] {
            match result {
                Ok(()) => read += 1,
                Err(error) => assert!(error.is_gone() || error.is_denied(), "{error}"),
            }
        }
    }
    assert!(read >= 3, "at least this process");
}

#[test]
fn busy_times_only_grow() {
    let root = Root::live();
    let earlier = busy_ns(&root).expect("times");
    let later = busy_ns(&root).expect("times");
    assert_eq!(earlier.keys().copied().collect::<CpuSet>(), Topology::read_online(&root).expect("online"));
    assert!(earlier.iter().all(|(cpu, before_ns)| later[cpu] >= *before_ns));
}

#[test]
fn own_cgroup_lists_this_process() {
    let root = Root::live();
    let hierarchies = Hierarchies::read(&root).expect("mounts");
    if hierarchies.mode() == Mode::Absent {
        return;
    }
    let memberships = Task::own(&root).cgroups().expect("memberships");
    for controller in ["cpu", "memory"] {
        let Ok(Some(cgroup)) = hierarchies.cgroup_of(&memberships, controller) else { continue };
        assert!(cgroup.pids(&root).expect("pids").contains(&std::process::id()), "{controller}");
        assert!(cgroup.tids(&root).expect("tids").contains(&std::process::id()), "{controller}");
        cgroup.cpu_quota(&root).expect("quota");
        cgroup.throttling(&root).expect("throttling");
        cgroup.cpuset(&root).expect("cpuset");
        let found = hierarchies.resolve(&root, &cgroup.folder).expect("by its folder");
        assert_eq!(found, cgroup);
    }
}

#[test]
fn features_are_judged_from_the_live_facts() {
    let facts = Facts::read(&Root::live()).expect("facts");
    let features = evaluate(&facts);
    // A test that runs has been on a CPU: if the clocks exist, they do not stand still.
    if fs::metadata("/proc/self/schedstat").is_ok() {
        assert!(facts.schedstat.is_some());
        let clocks = features.iter().find(|feature| feature.id == FeatureId::TaskSchedstat).expect("it is judged");
        assert!(clocks.available.is_yes() || !facts.release.is_at_least(5, 14));
    }
}
