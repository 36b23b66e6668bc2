//! Programs that spend a known time in a known state, under `cox run`.
//!
//! Each thread reports how long it was in which state (the truth, see workloads/README.md), based on the kernel's run delay. That delay begins when a
//! woken thread is put on a run queue, whereas cox ends *blocked* some microseconds earlier, when the waker calls. Therefore blocks have to be long,
//! so that a tolerance of 2 % is meaningful, and a fast disk is slowed down.
//!
//! All tests use one CPU: see [`testkit::measured::ONE_CPU`] for the reason.

use std::fs;
use std::path::Path;
use std::process::Command;

use ledger::account::{Preemptor, PreemptorKind, Thread};
use serde_json::Value;
use testkit::built::TARGET;
use testkit::container::{CONTAINER, again_in_containers, can_have_containers};
use testkit::group::Group;
use testkit::installed::{Installed, USER, as_user};
use testkit::measured::{COMMAND, FOLDER, ONE_CPU, Seen, assert_undisturbed, bench, number, on_cpus, threads_of};
use testkit::packed::Runs;
use testkit::skip::{Need, skip};
use wire::Cause;

/// Largest difference from the truth: 2 %, or 1 ms. What the hypervisor stole while the thread ran is in
/// run time and so in spin, and in none of the truth's clocks and so in what it takes for blocked
/// (workloads/README.md).
fn within(ours_ns: u64, truth_ns: u64, steal_ns: u64, blocked: bool) -> bool {
    let slack = (truth_ns / 50).max(1_000_000);
    let (below, above) = if blocked { (steal_ns, 0) } else { (0, steal_ns) };
    (truth_ns.saturating_sub(slack + below)..=truth_ns + slack + above).contains(&ours_ns)
}

/// Compares every answer of a truth with the thread's account.
fn compare(seen: &Seen, truth: &Value, measure: fn(&Thread, &Value) -> (u64, u64, String)) -> Vec<String> {
    let mut faults = seen.faults();
    for answer in threads_of(truth) {
        let thread = seen.thread(number(answer, "tid"));
        let (ours_ns, truth_ns, what) = measure(thread, answer);
        let line = format!("{} {}: {what} {ours_ns} ns, truth {truth_ns} ns", thread.tid, thread.comm);
        println!("{line} ({:+.2} %)", (ours_ns as f64 / truth_ns as f64 - 1.0) * 100.0);
        if !within(ours_ns, truth_ns, thread.steal_ns, answer["cause"].is_string()) {
            faults.push(format!("{line}; {answer}; {thread:?}"));
        }
    }
    faults
}

/// The cause of this name.
fn cause_of(name: &str) -> Cause {
    *Cause::ALL.iter().find(|cause| cause.name() == name).expect("a cause")
}

/// The state and cause the answer is about.
fn by_cause(thread: &Thread, answer: &Value) -> (u64, u64, String) {
    let truth_ns = number(answer, "ns");
    match answer["cause"].as_str() {
        Some(cause) => (thread.blocked_by[cause_of(cause)], truth_ns, cause.to_owned()),
        None => (thread.spin_ns, truth_ns, "spin".to_owned()),
    }
}

/// As [`by_cause`]; but opening and closing the file is disk time of the main thread, too, and outside its
/// answer, which is the least that it can be.
fn by_cause_on_disk(thread: &Thread, answer: &Value) -> (u64, u64, String) {
    let (ours_ns, truth_ns, what) = by_cause(thread, answer);
    let outside = answer["comm"] == "known-write" && what == "disk";
    (if outside { ours_ns.min(truth_ns) } else { ours_ns }, truth_ns, what)
}

/// All time off the CPU: the same on both sides, wherever the wake-up is booked.
fn off_cpu(thread: &Thread, answer: &Value) -> (u64, u64, String) {
    let ours_ns = thread.blocked_ns + thread.wake_delay_ns + thread.preempt_wait_ns;
    (ours_ns, number(answer, "ns") + number(answer, "run_delay_ns"), "off the CPU".to_owned())
}

fn known(test: &str, program: &str, variants: &[&[&str]]) {
    let Some(bench) = bench(test) else { return };
    for arguments in variants {
        assert_undisturbed(|| {
            let (seen, truth) = bench.watch_workload(&on_cpus(ONE_CPU), program, arguments);
            compare(&seen, &truth, by_cause)
        });
    }
}

#[test]
fn sleep() {
    known("sleep", "known-sleep", &[&[]]);
}

#[test]
fn pipe() {
    known("pipe", "known-pipe", &[&[]]);
}

#[test]
fn internet_sockets() {
    known("internet_sockets", "known-socket", &[&["--protocol", "udp"], &["--protocol", "tcp"]]);
}

#[test]
fn unix_sockets_are_pipes() {
    let calls: [&[&str]; 3] = [&["--call", "recv"], &["--call", "read"], &["--call", "recvmsg"]];
    known("unix_sockets_are_pipes", "known-unix", &calls);
}

#[test]
fn poll_select_and_epoll() {
    let calls: [&[&str]; 3] = [&["--call", "poll"], &["--call", "select"], &["--call", "epoll"]];
    known("poll_select_and_epoll", "known-poll", &calls);
}

#[test]
fn mutex_convoy() {
    known("mutex_convoy", "known-mutex", &[&["--hold-us", "4000", "--rounds", "60"]]);
}

#[test]
fn spin() {
    known("spin", "known-spin", &[&["--seconds", "1"]]);
}

/// Beside another program, named cox, on the same CPU: cox's own threads are known by their process, not by their name.
#[test]
fn a_program_named_cox_is_not_cox() {
    let Some(bench) = bench("a_program_named_cox_is_not_cox") else { return };
    let named_cox = bench.folder().join("cox");
    fs::copy("/bin/sh", &named_cox).expect("copy the shell");
    let (within, named_cox) = (on_cpus(ONE_CPU), named_cox.display().to_string());
    let busy = [named_cox.as_str(), "-c", "while :; do :; done"];
    let busy: Vec<&str> = within.iter().map(String::as_str).chain(busy).collect();
    let _other = Runs::start(&busy);
    let seen = bench.watch(&within, &["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
    let waited_ns = |kind: PreemptorKind| {
        let preemptors = seen.document.account.preemptors.iter().filter(|preemptor| preemptor.kind == kind);
        preemptors.map(|preemptor| preemptor.wait_ns).sum::<u64>()
    };
    let (cox_ns, others_ns) = (waited_ns(PreemptorKind::Cox), waited_ns(PreemptorKind::Other));
    // An ordinary user's cox does not learn the name of root's program.
    let named = |preemptor: &Preemptor| ["cox", "another user's"].contains(&preemptor.comm.as_str());
    let preemptors = &seen.document.account.preemptors;
    assert!(
        preemptors.iter().any(|preemptor| preemptor.kind == PreemptorKind::Other && named(preemptor)),
        "{preemptors:#?}"
    );
    assert!(cox_ns > 0 && others_ns > cox_ns, "{cox_ns} {others_ns}: {:#?}", seen.document.account.preemptors);
}

#[test]
fn waitpid() {
    known("waitpid", "known-child", &[&[]]);
}

#[test]
fn vfork() {
    known("vfork", "known-vfork", &[&[]]);
}

#[test]
fn stopped() {
    known("stopped", "known-stopped", &[&[]]);
}

#[test]
fn file_lock() {
    known("file_lock", "known-flock", &[&[]]);
}

/// What `cox-observe` tells an ordinary user's cox is what root's has from eBPF itself.
#[test]
fn the_same_for_an_ordinary_user() {
    let tests = [
        "sleep",
        "mutex_convoy",
        "spin",
        "pipe",
        "waitpid",
        "unix_sockets_are_pipes",
        "a_program_named_cox_is_not_cox",
    ];
    let programs = ["known-sleep", "known-mutex", "known-spin", "known-pipe", "known-child", "known-unix"];
    if bench("the_same_for_an_ordinary_user").is_none() {
        return;
    }
    let Some(installed) = Installed::new("the_same_for_an_ordinary_user") else { return };
    for program in programs {
        installed.give(&Path::new(TARGET).join("workloads").join(program), &format!("own/{program}"));
    }
    let cox = ["setpriv".to_owned()].into_iter().chain(as_user(USER)).chain([installed.cox()]);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(COMMAND, cox.collect::<Vec<_>>().join("\n")).env(FOLDER, installed.own());
    let output = command.args(["--exact", "--test-threads", "1"]).args(tests).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("7 passed"), "{stdout}\n{stderr}");
}

/// All that needs no slow disk.
const ALL: [&str; 12] = [
    "a_program_named_cox_is_not_cox",
    "mutex_convoy",
    "sleep",
    "pipe",
    "internet_sockets",
    "unix_sockets_are_pipes",
    "poll_select_and_epoll",
    "spin",
    "waitpid",
    "vfork",
    "stopped",
    "file_lock",
];

#[test]
fn the_same_inside_containers() {
    again_in_containers("the_same_inside_containers", &ALL);
}

/// cox is outside, and the ids that the program knows are not those that cox knows.
#[test]
fn programs_inside_a_container_seen_from_outside() {
    let test = "programs_inside_a_container_seen_from_outside";
    if !can_have_containers(test) {
        return;
    }
    let Some(bench) = bench(test) else { return };
    for (program, arguments) in [("known-sleep", &[][..]), ("known-mutex", &["--hold-us", "4000", "--rounds", "60"])] {
        assert_undisturbed(|| {
            let (seen, truth) = bench.watch_workload_in(&on_cpus(ONE_CPU), &CONTAINER, program, arguments);
            assert!(threads_of(&truth).iter().all(|answer| seen.thread(number(answer, "tid")).inner_tid.is_some()));
            compare(&seen, &truth, by_cause)
        });
    }
}

#[test]
fn direct_writes() {
    on_a_slow_disk("direct_writes", "known-write", &["--blocks", "128", "--seconds", "1"]);
}

#[test]
fn page_faults() {
    on_a_slow_disk("page_faults", "known-fault", &["--pages", "300"]);
}

/// Requests per second to the slow disk.
const PER_SECOND: u32 = 400;

fn on_a_slow_disk(test: &str, program: &str, arguments: &[&str]) {
    let Some(bench) = bench(test) else { return };
    let folder = bench.folder().to_str().expect("a path in UTF-8").to_owned();
    let arguments = [arguments, &["--dir", &folder]].concat();
    match Group::with_slow_disk(bench.folder(), PER_SECOND) {
        Ok(slow) => {
            let within = [on_cpus(ONE_CPU), slow.within()].concat();
            assert_undisturbed(|| {
                let (seen, truth) = bench.watch_workload(&within, program, &arguments);
                compare(&seen, &truth, by_cause_on_disk)
            });
        }
        Err(why) => {
            skip(
                &format!("{test}, by cause"),
                Need::SlowDisk,
                format_args!("no slow disk: {why}; comparing all time off the CPU"),
            );
            assert_undisturbed(|| {
                let (seen, truth) = bench.watch_workload(&on_cpus(ONE_CPU), program, &arguments);
                let mut faults = compare(&seen, &truth, off_cpu);
                for answer in threads_of(&truth) {
                    let blocked_by = &seen.thread(number(answer, "tid")).blocked_by;
                    if blocked_by[cause_of(answer["cause"].as_str().expect("a cause"))] == 0 {
                        faults.push(format!("{answer}; {blocked_by:?}"));
                    }
                }
                faults
            });
        }
    }
}
