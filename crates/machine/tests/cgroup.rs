//! Quotas, throttling, cpusets, members and names of cgroups, in both versions.

mod common;

use std::path::Path;

use common::tree;
use machine::Root;
use machine::cgroup::{Cgroup, Hierarchies, Mode, Version, most_throttled};
use machine::limits::{CpuLimits, Who};
use machine::process::Task;

fn own(root: &Root, controller: &str) -> Cgroup {
    let memberships = Task::own(root).cgroups().expect("memberships");
    Hierarchies::read(root)
        .expect("mounts")
        .cgroup_of(&memberships, controller)
        .expect("inside the mount")
        .expect("mounted")
}

#[test]
fn version_1_takes_the_tightest_ancestor() {
    let root = tree("vm-2cpu");
    assert_eq!(Hierarchies::read(&root).expect("mounts").mode(), Mode::Hybrid);
    let cgroup = own(&root, "cpu");
    assert_eq!(cgroup.version, Version::V1);
    assert_eq!(cgroup.folder, Path::new("/sys/fs/cgroup/cpu,cpuacct/batch/job7"));
    assert_eq!(cgroup.name(), Path::new("/batch/job7"));
    let quota = cgroup.cpu_quota(&root).expect("readable").expect("a quota");
    // Its own quota is 1.5 CPUs; the parent's 50 ms each 50 ms is less, though the number is not.
    assert!((quota.cpus() - 1.0).abs() < 1e-12);
    assert_eq!(quota.cgroup, Path::new("/sys/fs/cgroup/cpu,cpuacct/batch"));
    let levels = cgroup.throttling(&root).expect("readable");
    assert_eq!(levels.len(), 3);
    let most = most_throttled(&levels).expect("throttled");
    assert_eq!((most.counts.throttled_periods, most.counts.throttled_ns), (30, 900_000_000));
}

#[test]
fn version_2_takes_the_tightest_ancestor() {
    let root = tree("numa-smt");
    assert_eq!(Hierarchies::read(&root).expect("mounts").mode(), Mode::V2);
    let cgroup = own(&root, "cpu");
    assert_eq!(cgroup.version, Version::V2);
    let quota = cgroup.cpu_quota(&root).expect("readable").expect("a quota");
    assert_eq!((quota.quota_us, quota.period_us), (250_000, 100_000));
    assert!(quota.cgroup.ends_with("user-1000.slice"));
    // The root counts nothing.
    let levels = cgroup.throttling(&root).expect("readable");
    assert_eq!(levels.len(), 3);
    assert_eq!(most_throttled(&levels).expect("throttled").counts.throttled_ns, 700_000_000);
}

#[test]
fn cpusets_come_from_the_nearest_cgroup_that_has_one() {
    let root = tree("numa-smt");
    let cpus = own(&root, "cpuset").cpuset(&root).expect("readable").expect("a set");
    assert_eq!(cpus.to_string(), "0-5");
    let root = tree("vm-2cpu");
    let cpus = own(&root, "cpuset").cpuset(&root).expect("readable").expect("a set");
    assert_eq!(cpus.to_string(), "1");
}

#[test]
fn members_of_a_subtree() {
    let root = tree("vm-2cpu");
    let cgroup = own(&root, "cpu");
    let pids: Vec<u32> = cgroup.pids(&root).expect("readable").into_iter().collect();
    assert_eq!(pids, [4711, 5000]);
    let tids: Vec<u32> = cgroup.tids(&root).expect("readable").into_iter().collect();
    assert_eq!(tids, [4711, 4712, 5000, 5001]);
    let root = tree("numa-smt");
    let tids: Vec<u32> = own(&root, "cpu").tids(&root).expect("readable").into_iter().collect();
    assert_eq!(tids, [2000, 2010, 2011]);
}

#[test]
fn names_users_give() {
    let root = tree("vm-2cpu");
    let hierarchies = Hierarchies::read(&root).expect("mounts");
    let resolve = |name: &str| hierarchies.resolve(&root, Path::new(name));
    let job = Path::new("/sys/fs/cgroup/cpu,cpuacct/batch/job7");
    for name in ["/sys/fs/cgroup/cpu,cpuacct/batch/job7/", "/batch/job7", "batch/job7", "batch//job7"] {
        let cgroup = resolve(name).expect(name);
        assert_eq!((cgroup.folder.as_path(), cgroup.version), (job, Version::V1), "{name}");
        assert_eq!(cgroup.mount_point, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
    }
    // The root is in every hierarchy: version 2 comes first.
    assert_eq!(resolve("/").expect("root").folder, Path::new("/sys/fs/cgroup/unified"));
    let error = resolve("/batch/job8").expect_err("no such cgroup").to_string();
    assert!(
        error.starts_with("cgroup /batch/job8: no such cgroup below /sys/fs/cgroup/unified or the ")
            && error.contains("other hierarchies")
            && error.len() < 200,
        "{error}"
    );
    for (name, reason) in
        [("/batch/../batch", "must not contain"), ("", "is empty"), ("/sys/fs/cgroup", "no such cgroup")]
    {
        let error = resolve(name).expect_err(name).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_cgroup_outside_of_the_namespace_is_refused_by_name() {
    let root = tree("big-little");
    let memberships = Task::process(&root, 8).cgroups().expect("memberships");
    let error = Hierarchies::read(&root).expect("mounts").cgroup_of(&memberships, "cpu").expect_err("outside");
    assert!(error.to_string().starts_with("cgroup /../other: it is outside"), "{error}");
}

#[test]
fn limits_of_whole_machines() {
    let small = CpuLimits::read(&tree("vm-2cpu"), Who::Own).expect("limits");
    assert_eq!(small.allowed.to_string(), "0-1");
    assert!((small.quota.expect("a quota").cpus() - 1.0).abs() < 1e-12);
    let large = CpuLimits::read(&tree("numa-smt"), Who::Own).expect("limits");
    assert_eq!(large.allowed.to_string(), "0-7");
    assert!((large.quota.expect("a quota").cpus() - 2.5).abs() < 1e-12);
    let one = CpuLimits::read(&tree("vm-2cpu"), Who::Task(4711)).expect("limits");
    assert_eq!(one.quota.expect("a quota").cgroup, Path::new("/sys/fs/cgroup/cpu,cpuacct/batch"));
}
