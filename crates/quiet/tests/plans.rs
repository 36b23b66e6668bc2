//! Plans for machines whose files are recorded below `tests/roots`. What each plan must be is below `tests/plans`: run
//! with COX_MAKE_PLANS=1 to write these files again, and read the difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machine;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::{env, fs};

use ::machine::CpuSet;
use changes::recorder::Access;
use changes::{Knob, KnobIo, Value, value_of};
use quiet::{BootWord, Facts, Level, Plan, Reboot, Refusal, What, check, choose, plan, reboot};

use machine::{Machine, cpus, stored, to, v1, v2};

fn written(facts: &Facts, plan: &Plan) -> String {
    let mut text = format!("CPUs {}, housekeeping {}\n", plan.chosen.cpus, plan.chosen.housekeeping);
    for price in &plan.chosen.prices {
        writeln!(text, "price: {price}").unwrap();
    }
    for step in plan.steps.iter().filter(|step| step.is_change()) {
        writeln!(text, "{:<10}  {}  {} -> {}", step.level.name(), step.name, step.now, step.wanted).unwrap();
    }
    for obstacle in &plan.obstacles {
        writeln!(text, "{:<10}  cannot: {} -> {}", obstacle.level.name(), obstacle.what, obstacle.instead).unwrap();
    }
    let boot = reboot(facts, &plan.chosen, "quiet irqaffinity=0-1 isolcpus=nohz,5");
    for boot in boot.words {
        writeln!(text, "boot: {} instead of {:?}", boot.word, boot.instead_of).unwrap();
    }
    for note in boot.notes {
        writeln!(text, "boot cannot: {note}").unwrap();
    }
    text
}

fn compare(name: &str, text: &str) {
    if env::var_os("COX_MAKE_PLANS").is_some() {
        fs::write(stored("plans", name), text).unwrap();
    }
    assert_eq!(fs::read_to_string(stored("plans", name)).unwrap(), text, "{name}");
}

#[test]
fn plans_are_those_that_are_stored() {
    for (name, machine, list) in
        [("v1-1", v1(), "1"), ("v1-0", v1(), "0"), ("v2-2+6", v2(), "2,6"), ("v2-1-3", v2(), "1-3")]
    {
        let before = machine.files();
        let facts = machine.facts();
        let chosen = check(&facts, &cpus(list)).unwrap();
        compare(name, &written(&facts, &plan(&facts, &chosen, to(Level::Tickless))));
        assert_eq!(machine.files(), before, "a plan changes nothing");
    }
}

#[test]
fn in_version_2_an_empty_cpuset_stays_empty_because_it_could_not_become_so_again() {
    let facts = v2().with("/sys/fs/cgroup/system.slice/cpuset.cpus", "\n").facts();
    let chosen = check(&facts, &cpus("2-3")).unwrap();
    for level in [Level::Cgroup, Level::Full] {
        let steps = plan(&facts, &chosen, to(level)).steps;
        assert!(!steps.iter().any(|step| step.name.contains("system.slice")), "{steps:?}");
        // The partition keeps its threads away, on each level that moves threads.
        assert!(steps.iter().any(|step| step.name.ends_with("cox-quiet-2/cpuset.cpus.partition")), "{steps:?}");
    }
}

#[test]
fn a_kernel_whose_partitions_do_harm_gets_none() {
    let at = |release: &str| {
        let facts = v2().with("/proc/sys/kernel/osrelease", release).facts();
        plan(&facts, &check(&facts, &cpus("2-3")).unwrap(), to(Level::Full))
    };
    let old = at("5.10.0-32-cloud-amd64\n");
    assert!(old.cpusets.is_none() && !old.steps.iter().any(|step| step.level == Level::Cgroup), "{old:?}");
    let why = old.obstacles.iter().find(|obstacle| obstacle.level == Level::Cgroup).unwrap();
    assert!(why.what.contains("Linux 5.10.0-32-cloud-amd64 would also move"), "{why:?}");
    let workers = |plan: &Plan| plan.obstacles.iter().any(|obstacle| obstacle.what.contains("unbound workers"));
    let (bad, good) = (at("6.1.0-50-cloud-amd64\n"), at("6.3.0\n"));
    assert!(bad.cpusets.is_some() && workers(&bad) && !workers(&good), "{bad:?}");
}

#[test]
fn each_level_has_the_steps_of_the_ones_before_it_and_changes_each_setting_once() {
    let facts = v2().facts();
    let chosen = check(&facts, &cpus("2-3")).unwrap();
    let mut before = 0;
    for level in Level::ALL {
        let steps = plan(&facts, &chosen, to(level)).steps;
        assert!(steps.len() >= before && steps.iter().all(|step| step.level <= level));
        let what: BTreeSet<String> = steps.iter().map(|step| step.name.clone()).collect();
        // The system's threads and the kernel's are moved apart.
        assert_eq!(what.len(), steps.len(), "{steps:?}");
        before = steps.len();
    }
}

#[test]
fn a_machine_that_is_quiet_needs_no_change_of_files() {
    let mut machine = v2();
    let facts = machine.facts();
    let chosen = check(&facts, &cpus("2-3")).unwrap();
    let is_file = |knob: &Knob| knob.file().is_some_and(|path| facts.files.contains_key(path));
    for step in plan(&facts, &chosen, to(Level::Full)).steps {
        let What::Settings(settings) = &step.what else { continue };
        for (knob, claim) in settings.iter().filter(|(knob, _)| is_file(knob)) {
            let cpus = || step.wanted.parse::<CpuSet>().unwrap();
            let text = if matches!(knob, Knob::CpuMask(_)) { cpus().to_mask() } else { step.wanted.clone() };
            // What is shown is what the session sets.
            assert!(claim.covers(&value_of(knob, &text)), "{knob} {claim} {text}");
            machine = machine.with(knob.file().unwrap().to_str().unwrap(), &text);
        }
    }
    let now = machine.facts();
    let left = plan(&now, &chosen, to(Level::Full)).steps.into_iter().filter(|step| match &step.what {
        What::Settings(settings) => step.is_change() && settings.iter().any(|(knob, _)| is_file(knob)),
        _ => false,
    });
    assert_eq!(left.collect::<Vec<_>>(), []);
}

#[test]
fn a_fair_server_that_may_keep_a_tick_but_cannot_be_seen_is_named() {
    let hidden = |release: &str, list: &str| {
        let facts = v2().with("/proc/sys/kernel/osrelease", release).facts();
        let plan = plan(&facts, &check(&facts, &cpus(list)).unwrap(), to(Level::Tickless));
        plan.obstacles.iter().any(|obstacle| obstacle.what.contains("fair server"))
    };
    let steps = |release: &str| {
        let facts = v2().with("/proc/sys/kernel/osrelease", release).facts();
        let steps = plan(&facts, &check(&facts, &cpus("2,6")).unwrap(), to(Level::Tickless)).steps;
        steps
            .into_iter()
            .filter(|step| step.level == Level::Tickless)
            .map(|step| step.name + " " + &step.wanted)
            .collect::<Vec<_>>()
    };
    // CPU 6 keeps its tick anyway, and 6.12 warns of the change.
    assert_eq!(steps("6.18.15\n"), ["/sys/kernel/debug/sched/fair_server/cpu2/runtime 0"]);
    assert_eq!(steps("6.12.117\n"), [""; 0]);
    // Only the server of CPU 2 is in debugfs, and CPU 6 keeps its tick anyway.
    let seen = ["1", "2", "1-2", "6"].map(|list| hidden("6.18.15\n", list));
    assert_eq!(seen, [true, false, true, false]);
    assert!(!hidden("6.12.117\n", "1"), "older kernels stop it");
}

#[test]
fn cores_without_interrupts_come_first_and_the_time_keepers_last() {
    let facts = v2().facts();
    // The ticks of CPUs 1 to 3 can stop. CPU 7 is in a partition, CPU 3 has the disk's interrupt, CPU 0 keeps the time.
    for (count, chosen) in [(1, "2"), (2, "1-2"), (3, "1-3"), (4, "1-2,5-6"), (5, "1-2,4-6"), (6, "0-2,4-6")] {
        assert_eq!(choose(&facts, count).map(|chosen| chosen.cpus), Ok(cpus(chosen)), "{count}");
    }
    let ticking = v2().with("/sys/devices/system/cpu/nohz_full", "(null)\n").facts();
    for (count, chosen) in [(1, "2"), (2, "2,6"), (3, "1-2,6"), (4, "1-2,5-6"), (5, "1-2,4-6")] {
        assert_eq!(choose(&ticking, count).map(|chosen| chosen.cpus), Ok(cpus(chosen)), "{count}");
    }
    assert_eq!(choose(&facts, 7), Err(Refusal::TooMany(6, 7)));
    assert_eq!(choose(&facts, 8), Err(Refusal::NoHousekeeping(8)));
    let facts = v1().facts();
    // CPU 0 keeps the time, but the disk's interrupt is on CPU 1.
    let chosen = choose(&facts, 1).unwrap();
    assert_eq!((chosen.cpus, chosen.housekeeping, chosen.prices.len()), (cpus("0"), cpus("1"), 1));
}

#[test]
fn what_cannot_become_quiet_is_refused() {
    let refused =
        |machine: Machine, list: &str| check(&machine.facts(), &list.parse().unwrap_or_default()).unwrap_err();
    assert_eq!(refused(v2(), ""), Refusal::Nothing);
    assert_eq!(refused(v2(), "2,9"), Refusal::Offline(cpus("9")));
    assert_eq!(refused(v2(), "0-6"), Refusal::NoHousekeeping(8), "CPU 7 belongs to somebody else");
    assert_eq!(refused(v2(), "6-7"), Refusal::InPartition(cpus("7"), "/sys/fs/cgroup/vm.slice".into()));
    let isolated = v2().with("/sys/devices/system/cpu/isolated", "5-6\n");
    assert_eq!(refused(isolated, "4-5"), Refusal::Isolated(cpus("5")));
    let one = || v1().with("/sys/devices/system/cpu/online", "0\n");
    assert_eq!((refused(one(), "0"), choose(&one().facts(), 1)), (Refusal::OneCpu, Err(Refusal::OneCpu)));
    let container = v2().with("/proc/self/cgroup", "0::/user.slice\n");
    let facts = container.with("/sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-4\n").facts();
    assert_eq!(check(&facts, &cpus("4-5")), Err(Refusal::NotAllowed(cpus("5"))));
    assert!(choose(&facts, 5).is_ok_and(|chosen| chosen.cpus.is_subset(&cpus("0-4"))));
}

/// A machine of version 1 with four CPUs, and one container that may only use CPU 1.
fn with_containers() -> Machine {
    let machine = machine::wide_v1();
    for (cpuset, cpus) in [("docker", "0-3"), ("docker/one", "0-3"), ("docker/two", "1"), ("docker/empty", "")] {
        machine.make_cpuset(cpuset, cpus);
    }
    machine
}

/// The kernel refuses a cpuset of version 1 that lacks CPUs of one in it.
#[test]
fn nested_cpusets_shrink_from_the_inside_and_none_loses_its_last_cpu() {
    for (list, docker, one) in [("1", "0-3", "0,2-3"), ("1-2", "0-1,3", "0,3")] {
        let machine = with_containers();
        let before = machine.snapshot();
        let plan = machine.plan(list, Level::Full);
        let what = "docker/two has no CPU but 1, which its threads and those of the cpusets around it keep";
        assert!(plan.obstacles.iter().any(|obstacle| obstacle.what.contains(what)), "{plan:?}");
        let machine = machine.launch(&plan);
        let applied = machine.apply(&plan);
        let now = ["docker", "docker/one", "docker/two", "docker/empty", "job"].map(|name| machine.cpus_of(name));
        assert_eq!(now, [docker, one, "1", "", cpus("0-3").difference(&cpus(list)).to_string().as_str()]);
        machine::is_clean(&applied.end());
        machine.io.ask(machine::PROGRAM, &cpus("0-3"));
        machine.same(&before, list);
    }
}

/// Its own cpusets would be inside the container's, and the threads of the machine would not be seen.
#[test]
fn in_a_container_cpusets_are_refused_and_the_reason_is_named() {
    let cpuset = "/sys/fs/cgroup/cpuset";
    let mounts = v1().read("/proc/self/mountinfo").replace(&format!("/ {cpuset} "), &format!("/docker/b0a1 {cpuset} "));
    let namespace = |kind: &str, number: &str| {
        let machine = v1();
        let link = machine.root().path(format!("/proc/self/ns/{kind}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(format!("{kind}:[{number}]"), link).unwrap();
        machine
    };
    for (machine, why) in [
        (v1().with("/proc/self/mountinfo", &mounts), Some("cpuset shows only the cgroup /docker/b0a1")),
        (namespace("pid", "4026532177"), Some("a PID namespace of its own")),
        (namespace("cgroup", "4026532178"), Some("a cgroup namespace of its own")),
        // Under a storm of forks: the kernel prints 0 for a thread that ends while the list is read.
        (v2().with("/sys/fs/cgroup/cgroup.threads", "1\n0\n2\n"), None),
        (namespace("pid", "4026531836"), None),
        (namespace("cgroup", "4026531835"), None),
    ] {
        let plan = machine.plan("1", Level::Full);
        let said = plan.obstacles.iter().find(|obstacle| obstacle.level == Level::Cgroup);
        assert_eq!((plan.cpusets.is_none(), said.is_some()), (why.is_some(), why.is_some()), "{why:?}: {said:?}");
        assert!(said.is_none_or(|said| said.what.contains(why.unwrap()) && said.instead.contains("host")), "{said:?}");
    }
}

/// As `cset shield --cpu 3` makes it.
#[test]
fn cpus_of_an_exclusive_cpuset_are_refused_by_its_name_and_stay_its_own() {
    let shielded = || {
        let machine = machine::wide_v1();
        // The kernel does not let cpusets beside it have CPU 3.
        for (cpuset, cpus) in [("job/inner", "0-2"), ("job", "0-2"), ("shield", "3")] {
            machine.make_cpuset(cpuset, cpus);
        }
        machine.with("/sys/fs/cgroup/cpuset/shield/cpuset.cpu_exclusive", "1\n")
    };
    let refused = check(&shielded().facts(), &cpus("2-3")).unwrap_err();
    assert_eq!(refused, Refusal::InExclusive(cpus("3"), "/sys/fs/cgroup/cpuset/shield".into()));
    assert!(refused.to_string().contains("CPUs 3 belong to the exclusive cpuset /sys/fs/cgroup/cpuset/shield"));
    assert!(choose(&shielded().facts(), 2).is_ok_and(|chosen| !chosen.cpus.contains(3)));
    let machine = shielded();
    let before = machine.snapshot();
    let plan = machine.plan("2", Level::Full);
    let machine = machine.launch(&plan);
    let applied = machine.apply(&plan);
    // The kernel refuses CPU 3 to all cpusets beside.
    assert_eq!(machine.read("/sys/fs/cgroup/cpuset/cox-system/cpuset.cpus"), "0-1");
    machine::is_clean(&applied.end());
    machine.io.ask(machine::PROGRAM, &cpus("0-3"));
    machine.same(&before, "shield");
    let took = machine.io.write(&Knob::Directory(machine.cgroup("other")), &Value::Present(true));
    let its_cpus = Knob::CpuList(machine.cgroup("other/cpuset.cpus"));
    let refused = took.and_then(|()| machine.io.write(&its_cpus, &Value::Cpus(cpus("2-3")))).unwrap_err();
    assert!(refused.to_string().contains("Invalid argument"), "{refused}");
}

/// As before Linux 6.13, where the kernel lets root write to the file of each interrupt, and refuses a managed one.
#[test]
fn an_interrupt_that_the_kernel_manages_is_found_by_writing_its_own_value() {
    let at = |release: &str| {
        // Its queue has a CPU beside the quiet one, so the kernel can keep it away if it is booted for that.
        let machine = v2().with("/proc/sys/kernel/osrelease", release);
        let machine = machine.with("/proc/irq/121/smp_affinity_list", "2-3\n");
        machine.io.manage("eth0-rx-0");
        machine
    };
    let machine = at("6.12.0-1-amd64\n");
    let before = machine.files();
    let mut facts = machine.facts();
    assert_eq!(choose(&facts, 1).unwrap().cpus, cpus("2"), "the interrupt of CPU 2 could be moved");
    facts.probe_interrupts(&machine.io, &facts.topology.online.clone());
    assert_eq!(choose(&facts, 1).unwrap().cpus, cpus("1"));
    let chosen = check(&facts, &cpus("2")).unwrap();
    let plan = plan(&facts, &chosen, to(Level::Full));
    assert!(!plan.steps.iter().any(|step| step.name.contains("eth0-rx-0")), "{plan:?}");
    let what = "(eth0-rx-0) cannot be moved: its driver manages it";
    assert!(plan.obstacles.iter().any(|obstacle| obstacle.what.contains(what)), "{plan:?}");
    assert!(reboot(&facts, &chosen, "").words.iter().any(|boot| boot.word == "isolcpus=managed_irq,2"));
    assert_eq!(machine.files(), before);
    // Only those are asked that come to a CPU in question, and none if the kernel shows it.
    let written = |release: &str, candidates: &str| {
        let machine = at(release);
        let mut facts = machine.facts();
        facts.probe_interrupts(&machine.io, &cpus(candidates));
        machine.io.take_log().iter().filter(|access| matches!(access, Access::Write(..))).count()
    };
    assert_eq!((written("6.12.0\n", "2"), written("6.12.0\n", "6"), written("6.13.0\n", "2")), (1, 0, 0));
}

#[test]
fn a_cpu_with_a_frequency_that_the_user_has_set_keeps_it() {
    let governor = "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor";
    let facts = v2().with(governor, "userspace\n").facts();
    let chosen = check(&facts, &cpus("2,6")).unwrap();
    let full = plan(&facts, &chosen, to(Level::Full));
    assert!(full.steps.iter().all(|step| step.name != governor), "{:?}", full.steps);
    let said: Vec<&str> = full.obstacles.iter().map(|obstacle| obstacle.what.as_str()).collect();
    assert!(said.iter().any(|what| what.contains("cpu2/cpufreq/scaling_governor stays userspace")), "{said:?}");
    let less = plan(&facts, &chosen, to(Level::Work));
    assert!(less.obstacles.iter().all(|obstacle| !obstacle.what.contains("governor")), "{less:?}");
}

/// Returns the words for the kernel, each with the one that it replaces, and the notes.
fn booted(machine: Machine, list: &str, command_line: &str) -> (Vec<String>, Vec<String>) {
    let facts = machine.facts();
    let Reboot { words, notes } = reboot(&facts, &check(&facts, &cpus(list)).unwrap(), command_line);
    let word = |word: BootWord| word.instead_of.map_or(word.word.clone(), |old| format!("{} for {old}", word.word));
    (words.into_iter().map(word).collect(), notes)
}

#[test]
fn the_cpu_that_the_kernel_boots_on_keeps_its_tick() {
    let ticking = || v2().with("/sys/devices/system/cpu/nohz_full", "(null)\n");
    let (words, notes) = booted(ticking(), "0,4", "quiet");
    assert_eq!(words, ["nohz_full=4", "irqaffinity=1-3,5-6"]);
    assert!(notes.len() == 1 && notes[0].starts_with("CPU 0 keeps its tick"), "{notes:?}");
    let (words, notes) = booted(ticking(), "0", "quiet irqaffinity=1");
    assert!(words.is_empty() && notes.len() == 1, "{words:?} {notes:?}");
    // What a user has written before does not bring it back.
    assert_eq!(booted(ticking(), "5", "nohz_full=0-1").0, ["nohz_full=1,5 for nohz_full=0-1"]);
}

#[test]
fn words_that_are_there_are_merged() {
    let one = || v2().with("/sys/devices/system/cpu/nohz_full", "1\n");
    assert_eq!(booted(one(), "2", "nohz_full=1 irqaffinity=0").0, ["nohz_full=1-2 for nohz_full=1"]);
    // What cox cannot read stays, and so does a list that isolcpus= shares.
    for (command_line, kept) in [("nohz_full=1-N", "nohz_full=1-N"), ("isolcpus=nohz,1", "isolcpus=nohz,1")] {
        let (words, notes) = booted(one(), "5", command_line);
        assert!(words.is_empty() && notes[0].starts_with(&format!("{kept} stays as it is")), "{words:?} {notes:?}");
    }
    assert_eq!(booted(v2(), "2", "irqaffinity=0-3").0, ["irqaffinity=0-1,3 for irqaffinity=0-3"]);
    assert_eq!(booted(v2(), "2", "irqaffinity=2").0, ["irqaffinity=0-1,3-6 for irqaffinity=2"]);
}

#[test]
fn the_users_isolation_stays() {
    // The disk's interrupt is on CPU 1, and could be on CPU 0.
    let isolation = |command_line: &str| {
        let (words, _) = booted(v1(), "1", &format!("irqaffinity=0 {command_line}"));
        words.first().cloned().unwrap_or_default()
    };
    assert_eq!(isolation(""), "isolcpus=managed_irq,1");
    assert_eq!(isolation("isolcpus=1"), "isolcpus=domain,managed_irq,1 for isolcpus=1");
    assert_eq!(isolation("isolcpus=nohz,domain,1"), "isolcpus=nohz,domain,managed_irq,1 for isolcpus=nohz,domain,1");
    assert_eq!(isolation("isolcpus=managed_irq,0-1"), "");
    let (words, notes) = booted(v1(), "1", "irqaffinity=0 isolcpus=nohz,5");
    assert!(words.is_empty() && notes[0].starts_with("isolcpus=nohz,5 stays as it is"), "{words:?} {notes:?}");
}

#[test]
fn words_that_would_not_help_are_not_named() {
    // No interrupt comes to CPU 6, and the disk's queue of CPUs 3 and 7 has no housekeeping CPU.
    assert_eq!(booted(v2(), "6", "").0, ["nohz_full=6"]);
    assert_eq!(booted(v2(), "3", "").0, [] as [&str; 0]);
    // A kernel that cannot stop the tick.
    assert_eq!(booted(v1(), "1", "irqaffinity=0 isolcpus=managed_irq,1"), (Vec::new(), Vec::new()));
}

#[test]
fn an_interrupt_without_a_queue_is_bound_and_not_managed() {
    let rows = v1().read("/proc/interrupts") + "\n 0: 0 9 IO-APIC 2-edge timer\n";
    let machine = v1().with("/proc/interrupts", &rows).with("/proc/irq/0/smp_affinity_list", "1\n");
    machine.fix(0);
    let facts = machine.facts();
    let obstacles = plan(&facts, &check(&facts, &cpus("1")).unwrap(), to(Level::Pin)).obstacles;
    let of = |name: &str| obstacles.iter().find(|obstacle| obstacle.what.contains(name)).unwrap();
    assert_eq!(of("timer").what, "interrupt 0 (timer) cannot be moved: the kernel has bound it to its CPU");
    assert_eq!(of("timer").instead, "choose another CPU");
    assert_eq!(of("virtio1-req.0").instead, "use its device from CPUs 0 only");
}

#[test]
fn every_sibling_that_is_not_quiet_has_a_price() {
    let prices = |machine: Machine, list: &str| check(&machine.facts(), &cpus(list)).unwrap().prices;
    // CPU 7, in a partition of somebody else, is the sibling of CPU 3.
    assert_eq!(prices(v2(), "3"), ["CPU 3 shares its core with CPU 7, which is not quiet for this program"]);
    let isolated = v2().with("/sys/devices/system/cpu/isolated", "6\n");
    assert_eq!(prices(isolated, "2"), ["CPU 2 shares its core with CPU 6, which is not quiet for this program"]);
    let other = v2().with("/sys/fs/cgroup/cox-quiet-5/cpuset.cpus", "5\n");
    assert_eq!(prices(other, "1"), ["CPU 1 shares its core with CPU 5, which is not quiet for this program"]);
    assert_eq!(prices(v2(), "2,6"), [] as [&str; 0]);
}
