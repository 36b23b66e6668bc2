//! Verdicts about the machines in `fixtures`, and about variations of them.

mod common;

use common::tree;
use machine::features::{Available, Facts, FeatureId, KernelConfig, Release, evaluate};
use machine::process::Capabilities;

const ALL: Capabilities = Capabilities(0x1ff_ffff_ffff);

fn facts(name: &str) -> Facts {
    Facts::read(&tree(name)).expect("facts")
}

/// A plain user on the machine of the first tree, with the kernel's configuration unknown.
fn user() -> Facts {
    let mut facts = facts("vm-2cpu");
    facts.euid = 1000;
    facts.effective = Capabilities(0);
    facts.config = None;
    facts
}

fn release(text: &str) -> Release {
    Release::parse(text).expect("a release")
}

fn available(facts: &Facts, id: FeatureId) -> Available {
    evaluate(facts).into_iter().find(|feature| feature.id == id).expect("it is judged").available
}

fn yes(facts: &Facts, id: FeatureId) -> String {
    match available(facts, id) {
        Available::Yes { how } => how,
        other => panic!("{id:?} is {other:?}"),
    }
}

fn no(facts: &Facts, id: FeatureId) -> (String, String) {
    match available(facts, id) {
        Available::No { reason, fix } => (reason, fix),
        other => panic!("{id:?} is {other:?}"),
    }
}

fn unknown(facts: &Facts, id: FeatureId) -> (String, String) {
    match available(facts, id) {
        Available::Unknown { reason, fix } => (reason, fix),
        other => panic!("{id:?} is {other:?}"),
    }
}

#[test]
fn root_on_a_virtual_machine() {
    let facts = facts("vm-2cpu");
    assert_eq!(yes(&facts, FeatureId::BpfRecord), "tp_btf, task storage, ring buffer");
    assert_eq!(yes(&facts, FeatureId::PerfSwitches), "CAP_SYS_ADMIN");
    assert!(available(&facts, FeatureId::UserSampling).is_yes());
    assert!(available(&facts, FeatureId::TaskSchedstat).is_yes());
    assert_eq!(no(&facts, FeatureId::SchedStatistics).0, "CONFIG_SCHEDSTATS is not set");
    assert_eq!(no(&facts, FeatureId::NohzFull).0, "CONFIG_NO_HZ_FULL is not set");
    assert_eq!(no(&facts, FeatureId::SchedExt).0, "CONFIG_SCHED_CLASS_EXT is not set");
    assert_eq!(no(&facts, FeatureId::Psi).1, "boot with psi=1");
    assert!(no(&facts, FeatureId::HardwareCounters).0.contains("virtual machine"));
    assert_eq!(yes(&facts, FeatureId::Cgroups), "hybrid: cpu controller in version 1 at /sys/fs/cgroup/cpu,cpuacct");
}

#[test]
fn a_user_of_a_distribution_that_forbids_perf() {
    let facts = facts("numa-smt");
    let (reason, fix) = no(&facts, FeatureId::BpfRecord);
    assert_eq!(reason, "needs CAP_BPF and CAP_PERFMON (running as uid 1000)");
    assert!(fix.starts_with("sudo make install") && fix.contains("cox-observe"), "{fix}");
    let (reason, fix) = no(&facts, FeatureId::PerfSwitches);
    assert_eq!(reason, "perf_event_paranoid is 4, which forbids perf events to users");
    assert!(fix.starts_with("sudo sysctl kernel.perf_event_paranoid=2"), "{fix}");
    assert!(available(&facts, FeatureId::UserSampling).is_no());
    assert!(available(&facts, FeatureId::HardwareCounters).is_no());
    assert_eq!(no(&facts, FeatureId::SchedStatistics).0, "kernel.sched_schedstats is 0");
    assert_eq!(yes(&facts, FeatureId::NohzFull), "CPUs 2-3,6-7 run without a tick");
    assert_eq!(yes(&facts, FeatureId::Psi), "/proc/pressure");
    assert_eq!(no(&facts, FeatureId::SchedExt).0, "Linux 5.15.0-91-generic is older than 6.12");
    assert_eq!(facts.core_counters, ["cpu"]);
}

#[test]
fn a_container_on_an_old_kernel() {
    let facts = facts("big-little");
    assert_eq!(no(&facts, FeatureId::BpfRecord).0, "Linux 5.10.0-28-arm64 is older than 5.15");
    assert!(available(&facts, FeatureId::PerfSwitches).is_no());
    assert!(no(&facts, FeatureId::TaskSchedstat).0.contains("stand still"));
    assert!(no(&facts, FeatureId::BpfMemory).0.ends_with("limited to 64 KiB"));
    let (reason, _) = no(&facts, FeatureId::NohzFull);
    assert!(reason.contains("CONFIG_NO_HZ_FULL is set is unknown"), "{reason}");
    assert_eq!(facts.core_counters, ["armv8_cortex_a53", "armv8_cortex_a72"]);
    assert_eq!(yes(&facts, FeatureId::Cgroups), "cpu controller in version 2 at /sys/fs/cgroup");
}

#[test]
fn every_feature_has_a_page_and_a_no_has_a_fix() {
    for name in ["vm-2cpu", "numa-smt", "big-little"] {
        let features = evaluate(&facts(name));
        let mut ids: Vec<FeatureId> = features.iter().map(|feature| feature.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 13);
        for feature in features {
            assert!(feature.doc.starts_with("doctor#"), "{feature:?}");
            let said = match &feature.available {
                Available::Yes { how } => how,
                Available::No { reason, fix } | Available::Unknown { reason, fix } => {
                    assert!(!reason.is_empty());
                    fix
                }
            };
            assert!(!said.is_empty(), "{feature:?}");
        }
    }
}

#[test]
fn bpf_by_kernel_release() {
    let mut facts = facts("vm-2cpu");
    for (text, works) in [("5.10.0-28-amd64", false), ("5.14.0", false), ("5.15.0", true), ("6.18.1", true)] {
        facts.release = release(text);
        assert_eq!(available(&facts, FeatureId::BpfRecord).is_yes(), works, "{text}");
    }
    facts.release = release("5.14.0-427.13.1.el9_4.x86_64");
    facts.bpf_backported = true;
    assert!(available(&facts, FeatureId::BpfRecord).is_yes());
    facts.btf = false;
    assert!(no(&facts, FeatureId::BpfRecord).0.contains("CONFIG_DEBUG_INFO_BTF"));
}

#[test]
fn helpers_moved_into_older_kernels_are_found_in_the_type_information() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("mkdir");
        std::fs::write(path, text).expect("write");
    };
    write("proc/sys/kernel/osrelease", "5.14.0-427.13.1.el9_4.x86_64\n");
    write("proc/self/status", "Tgid:\t1\nPid:\t1\nCapEff:\t000001ffffffffff\n");
    write("sys/kernel/btf/vmlinux", "x\0BPF_FUNC_task_pt_regs\0y");
    let read = || Facts::read(&machine::Root::at(folder.path())).expect("facts");
    assert!(available(&read(), FeatureId::BpfRecord).is_yes());
    write("sys/kernel/btf/vmlinux", "x\0BPF_FUNC_task_pt_regs_not\0y");
    assert!(available(&read(), FeatureId::BpfRecord).is_no());
}

#[test]
fn bpf_by_capabilities() {
    let mut facts = user();
    assert!(available(&facts, FeatureId::BpfRecord).is_no());
    facts.effective = Capabilities(1 << Capabilities::BPF);
    assert_eq!(no(&facts, FeatureId::BpfRecord).0, "needs CAP_PERFMON (running as uid 1000)");
    facts.effective = Capabilities(1 << Capabilities::BPF | 1 << Capabilities::PERFMON);
    assert!(available(&facts, FeatureId::BpfRecord).is_yes());
    facts.effective = Capabilities(1 << Capabilities::SYS_ADMIN);
    assert!(available(&facts, FeatureId::BpfRecord).is_yes());
    facts.lockdown_confidentiality = true;
    assert!(unknown(&facts, FeatureId::BpfRecord).0.contains("lockdown"));
}

#[test]
fn containers_get_a_fix_that_can_work_there() {
    let mut facts = user();
    facts.euid = 0;
    facts.bounding = Capabilities(0xa804_25fb);
    let (reason, fix) = no(&facts, FeatureId::BpfRecord);
    assert!(reason.contains("a container drops them"), "{reason}");
    assert!(fix.starts_with("start the container with --cap-add BPF --cap-add PERFMON"), "{fix}");

    facts.bounding = ALL;
    facts.no_new_privileges = true;
    assert!(no(&facts, FeatureId::BpfRecord).1.contains("no_new_privs"));

    facts.effective = ALL;
    facts.initial_user_namespace = false;
    assert!(no(&facts, FeatureId::BpfRecord).0.contains("user namespace"));
    assert_eq!(yes(&facts, FeatureId::PerfSwitches), "perf_event_paranoid 2");
}

#[test]
fn perf_by_paranoia_level() {
    let mut facts = user();
    for level in [-1, 0, 1, 2] {
        facts.perf_event_paranoid = Some(level);
        assert_eq!(yes(&facts, FeatureId::PerfSwitches), format!("perf_event_paranoid {level}"));
    }
    for level in [3, 4] {
        facts.perf_event_paranoid = Some(level);
        assert!(no(&facts, FeatureId::PerfSwitches).1.contains("kernel.perf_event_paranoid=2"));
        // CAP_PERFMON is enough by the kernel's rule, not by every distribution's.
        facts.effective = Capabilities(1 << Capabilities::PERFMON);
        assert!(unknown(&facts, FeatureId::PerfSwitches).0.contains("CAP_SYS_ADMIN"));
        facts.effective = Capabilities(1 << Capabilities::SYS_ADMIN);
        assert!(available(&facts, FeatureId::PerfSwitches).is_yes());
        facts.effective = Capabilities(0);
        // A kernel without the distributions' addition takes 3 and 4 for 2.
        facts.config = Some(KernelConfig::from_text("CONFIG_PERF_EVENTS=y\n"));
        assert!(available(&facts, FeatureId::PerfSwitches).is_yes());
        facts.config = Some(KernelConfig::from_text("CONFIG_SECURITY_PERF_EVENTS_RESTRICT=y\n"));
        assert!(available(&facts, FeatureId::PerfSwitches).is_no());
        facts.config = None;
    }
    facts.perf_event_paranoid = None;
    assert!(no(&facts, FeatureId::PerfSwitches).0.contains("CONFIG_PERF_EVENTS"));
    facts.perf_event_paranoid = Some(2);
    facts.release = release("4.14.0");
    assert!(no(&facts, FeatureId::PerfSwitches).0.contains("older than 4.17"));
}

#[test]
fn a_seccomp_filter_makes_perf_uncertain() {
    let mut facts = user();
    facts.seccomp_filter = true;
    assert!(unknown(&facts, FeatureId::PerfSwitches).0.contains("seccomp"));
    facts.effective = Capabilities(1 << Capabilities::PERFMON);
    assert_eq!(yes(&facts, FeatureId::PerfSwitches), "CAP_PERFMON");
}

#[test]
fn a_low_sampling_limit_is_said() {
    let mut facts = user();
    facts.perf_max_sample_rate_hz = Some(500);
    assert!(yes(&facts, FeatureId::UserSampling).contains("at most 500 samples/s"));
    facts.perf_max_sample_rate_hz = Some(1000);
    assert!(!yes(&facts, FeatureId::UserSampling).contains("at most"));
}

#[test]
fn memory_for_bpf_by_release_and_limit() {
    let mut facts = user();
    assert!(available(&facts, FeatureId::BpfMemory).is_yes());
    facts.release = release("5.10.0");
    facts.memlock_bytes = 8 << 20;
    assert!(no(&facts, FeatureId::BpfMemory).0.ends_with("limited to 8192 KiB"));
    facts.effective = Capabilities(1 << Capabilities::SYS_RESOURCE);
    assert!(yes(&facts, FeatureId::BpfMemory).contains("CAP_SYS_RESOURCE"));
    facts.effective = Capabilities(0);
    facts.memlock_bytes = u64::MAX;
    assert!(yes(&facts, FeatureId::BpfMemory).contains("unlimited"));
}

#[test]
fn nohz_full_and_sched_ext_when_the_kernel_has_them() {
    let mut facts = user();
    facts.nohz_full = Some("".parse().expect("empty"));
    assert!(no(&facts, FeatureId::NohzFull).1.contains("boot with nohz_full="));
    facts.sched_ext_state = Some("disabled".to_owned());
    assert!(no(&facts, FeatureId::SchedExt).0.contains("CAP_BPF"));
    facts.effective = ALL;
    assert_eq!(yes(&facts, FeatureId::SchedExt), "now disabled");
}

#[test]
fn what_cannot_be_read_or_understood_is_named() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let read = || Facts::read(&machine::Root::at(folder.path())).expect_err("incomplete").to_string();
    assert!(read().contains("proc/sys/kernel/osrelease"));
    std::fs::create_dir_all(folder.path().join("proc/sys/kernel")).expect("mkdir");
    std::fs::write(folder.path().join("proc/sys/kernel/osrelease"), "Plan 9\n").expect("write");
    assert!(read().contains("\"Plan 9\" is not a kernel release"));
}

#[test]
fn words_that_stand_for_modes() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("mkdir");
        std::fs::write(path, text).expect("write");
    };
    let read = || Facts::read(&machine::Root::at(folder.path())).expect("facts");
    write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    write("proc/self/status", "Tgid:\t1\nPid:\t1\n");
    assert_eq!((read().nohz_full, read().lockdown_confidentiality), (None, false));

    write("sys/devices/system/cpu/nohz_full", "  (null)\n");
    write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    let facts = read();
    assert!(facts.nohz_full.as_ref().is_some_and(machine::CpuSet::is_empty));
    assert!(!facts.lockdown_confidentiality);

    write("sys/devices/system/cpu/nohz_full", "1-3\n");
    write("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    let facts = read();
    assert_eq!(facts.nohz_full.map(|cpus| cpus.to_string()).as_deref(), Some("1-3"));
    assert!(facts.lockdown_confidentiality);
}

/// On a CPU without a tick a process that has just begun finds its clock at 0; that is no fault of how the kernel was booted.
#[test]
fn clocks_that_lag_are_told_from_clocks_that_stand_still() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("mkdir");
        std::fs::write(path, text).expect("write");
    };
    write("proc/self/status", "Tgid:\t1\nPid:\t1\n");
    write("proc/self/schedstat", "0 0 1\n");
    let machine = |release: &str, command_line: &str, nohz_full: &str| {
        write("proc/sys/kernel/osrelease", release);
        write("proc/cmdline", command_line);
        write("sys/devices/system/cpu/nohz_full", nohz_full);
        Facts::read(&machine::Root::at(folder.path())).expect("facts")
    };
    let lagging = yes(&machine("6.12.1\n", "ro quiet nohz_full=1-3\n", "1-3\n"), FeatureId::TaskSchedstat);
    assert!(lagging.contains("on CPUs 1-3 (nohz_full) its clocks lag"), "{lagging}");
    let lagging = yes(&machine("6.12.1\n", "ro quiet nodelayacct\n", "\n"), FeatureId::TaskSchedstat);
    assert!(lagging.contains("lag until"), "{lagging}");
    let still = no(&machine("5.10.0\n", "ro nodelayacct\n", "\n"), FeatureId::TaskSchedstat).0;
    assert!(still.contains("booted with nodelayacct"), "{still}");
    yes(&machine("5.10.0\n", "ro quiet\n", "1-3\n"), FeatureId::TaskSchedstat);
}

#[test]
fn carriers_need_dispatch_and_the_fs_base() {
    let mut facts = facts("vm-2cpu");
    assert!(no(&facts, FeatureId::UlpCarriers).0.contains("FSGSBASE"), "the recorded files have no auxiliary vector");
    facts.user_fs_base = true;
    facts.max_map_count = Some(65530);
    let how = yes(&facts, FeatureId::UlpCarriers);
    assert!(
        how.starts_with("syscall user dispatch, FSGSBASE;") && how.ends_with("about 3120 ULPs in one address space"),
        "{how}"
    );
    facts.release = release("5.10.0-30-amd64");
    assert!(no(&facts, FeatureId::UlpCarriers).0.contains("older than 5.11"));
}
