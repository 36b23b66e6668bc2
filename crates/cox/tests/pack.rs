//! `cox pack` on real programs: they end as without it, whichever process is killed, and every affinity mask is restored.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use machine::limits::{Who, allowed_cpus};
use machine::{CpuSet, Root};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use testkit::packed::{Place, Runs, two_cpus};
use testkit::run::{COX, Ran, end_of, path, run, send, shell_code, turn, wait_for, workload};

/// Options of earlier versions: another command has what they gave.
#[test]
fn the_papers_rules_are_in_cox_bench() {
    for options in [["--policy", "palm"], ["--policy", "cox"], ["--without", "locality"]] {
        let words = [&["pack", "--cpus", "0"][..], &options, &["--", "true"]].concat();
        let ran = run(Command::new(COX).args(words));
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("cox-bench pack palm --cpus LIST"), "{}", ran.stderr);
    }
}

#[test]
fn a_program_ends_as_without_cox_and_runs_on_the_pack_only() {
    let Some((allowed, _)) = two_cpus("a_program_ends_as_without_cox_and_runs_on_the_pack_only") else { return };
    let last = allowed.last().unwrap().to_string();
    let place = Place::new();
    let script = "grep Cpus_allowed_list /proc/self/status; echo err >&2; exit 7";
    let (ran, report) = place.packed(&["--cpus", &last, "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.text()), (7, format!("Cpus_allowed_list:\t{last}\n")));
    assert_eq!(ran.stderr, "err\n");
    assert_eq!((report["exit_code"].as_i64(), report["cpus"].as_str()), (Some(7), Some(last.as_str())));
    assert_eq!(place.journals(), 0);
    assert_eq!(place.pack(&["--ncpus", "1", "--", "/no/such/program"]).code, 127);
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    let Some((allowed, _)) = two_cpus("what_cannot_be_is_refused_before_anything_starts") else { return };
    let place = Place::new();
    let beyond = (allowed.last().unwrap() + 1).to_string();
    let many = (allowed.len() + 1).to_string();
    for (arguments, part) in [
        (vec!["--cpus", &beyond], "may not use CPU"),
        (vec!["--ncpus", &many], "may use"),
        (vec!["--ncpus", "0"], "at least 1"),
        (vec!["--cpus", "x"], "--cpus"),
        (vec![], "--cpus"),
        (vec!["--ncpus", "1", "--period", "1us"], "20us"),
        (vec!["--ncpus", "1", "--json", "/no/such/folder/x"], "/no/such/folder"),
    ] {
        let ran = place.pack(&[&arguments[..], &["--", "sh", "-c", "echo started"]].concat());
        assert_eq!((ran.code, ran.text().as_str()), (125, ""), "{arguments:?}");
        assert!(ran.stderr.contains(part) && ran.stderr.lines().count() == 1, "{arguments:?}: {}", ran.stderr);
    }
    let ran = place.pack(&["--ncpus", "1", "--pid", "999999999"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
}

#[test]
fn spinning_threads_take_turns_and_the_figures_add_up() {
    let Some((_, cpus)) = two_cpus("spinning_threads_take_turns_and_the_figures_add_up") else { return };
    let _turn = turn();
    let place = Place::new();
    let moves = path(&place.0, "moves");
    let fixed =
        ["--threads", "3", "--work-us", "300", "--wait", "spin", "--iterations-per-us", "300", "--rounds", "500"];
    let program = workload("barriers");
    let plain = run(Command::new(&program).args(fixed));
    let truth = path(&place.0, "truth");
    let packed = [&fixed[..], &["--truth", &truth]].concat();
    let arguments = [&["--cpus", &cpus, "--always", "--log-moves", &moves, "--", &program][..], &packed].concat();
    let (ran, report) = place.packed(&arguments);
    let checksum = |ran: &Ran| ran.text().lines().last().unwrap().split("checksum").nth(1).unwrap().to_owned();
    assert_eq!((ran.code, checksum(&ran)), (0, checksum(&plain)));
    let figure = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!((figure("threads"), figure("slots"), figure("restored")), (3, 2, 3));
    assert!(figure("exchanges") > 0 && figure("moves") >= figure("exchanges"), "{report}");
    assert!(figure("rotating_ns") > 0 && figure("rotating_ns") <= figure("wall_ns"), "{report}");
    // Clocks that the threads read themselves; the packer misses what runs after it has looked for the last time.
    let truth: Value = serde_json::from_str(&fs::read_to_string(&truth).unwrap()).unwrap();
    let ran_ns: u64 =
        truth["threads"].as_array().unwrap().iter().map(|thread| thread["cpu_ns"].as_u64().unwrap()).sum();
    assert!(figure("run_ns") > ran_ns / 10 * 9, "of {ran_ns}: {report}");
    assert!(figure("run_ns") <= 2 * figure("wall_ns") * 101 / 100, "no more than two CPUs have: {report}");
    let spinning = report["spinning"].as_f64().unwrap();
    assert!(spinning > 0.0 && spinning < 1.0, "{report}");
    let log = fs::read_to_string(&moves).unwrap();
    assert!(
        log.contains("the thread is new") && log.contains("the threads on its old and new CPU differ in progress by"),
        "{log}"
    );
    // Coming and ending are no moves.
    let seated = log
        .lines()
        .filter(|line| line.contains(" to CPU ") && !line.contains("rotation ") && !line.contains("the thread is new"))
        .count();
    assert_eq!(seated as u64, figure("moves"), "{report}");
}

#[test]
fn threads_that_do_not_meet_are_left_to_the_kernel() {
    let Some((_, cpus)) = two_cpus("threads_that_do_not_meet_are_left_to_the_kernel") else { return };
    let place = Place::new();
    let (ran, report) = place.packed(&["--cpus", &cpus, "--", &workload("hog"), "--threads", "3", "--seconds", "0.6"]);
    assert_eq!(ran.code, 0);
    assert_eq!((report["exchanges"].as_u64(), report["rotating_ns"].as_u64()), (Some(0), Some(0)), "{report}");
}

/// A program that yields after short phases and then spins: cox tries to pack it, mostly finds soon that it gains nothing, rests and tries again, each time
/// with new BPF programs. At last it packs it. Sometimes it rotates from the first trial on: then the same is true, and the program runs again.
#[test]
fn the_parts_of_a_session_that_pauses_add_up() {
    let Some((_, cpus)) = two_cpus("the_parts_of_a_session_that_pauses_add_up") else { return };
    let _turn = turn();
    // One measurement takes 0.16 s and is followed by a rest of a second.
    let pauses = (0..8).any(|_| measured_without_rotation_ns(&cpus) > 300_000_000);
    assert!(pauses, "no session paused");
}

/// Runs the program, and checks the sums of its report. Returns the length of all measurements.
fn measured_without_rotation_ns(cpus: &str) -> u64 {
    let place = Place::new();
    let truths = ["yielded", "spun"].map(|name| path(&place.0, name));
    let program = workload("barriers");
    let phases = [("200", "yield", "14000", &truths[0]), ("2000", "spin", "150", &truths[1])];
    let [yields, spins] = phases.map(|(us, wait, rounds, truth)| {
        format!("{program} --threads 3 --work-us {us} --wait {wait} --rounds {rounds} --truth {truth}")
    });
    let (ran, report) = place.packed(&["--cpus", cpus, "--", "sh", "-c", &format!("{yields} && {spins}")]);
    let figure = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!(
        (ran.code, report["diagnostics"].as_array().map(Vec::len), &report["only_watched"]),
        (0, Some(0), &Value::Bool(false)),
        "{report}"
    );
    let of = |truth: &String| -> u64 {
        let truth: Value = serde_json::from_str(&fs::read_to_string(truth).unwrap()).unwrap();
        truth["threads"].as_array().unwrap().iter().map(|thread| thread["cpu_ns"].as_u64().unwrap()).sum()
    };
    let ran_ns: u64 = truths.iter().map(of).sum();
    assert!((ran_ns / 100 * 95..=ran_ns / 100 * 103).contains(&figure("run_ns")), "of {ran_ns}: {report}");
    assert!(figure("own_ns") < figure("wall_ns") / 5, "{report}");
    assert_eq!(place.journals(), 0);
    figure("without_measured_ns")
}

/// Threads that sleep or yield after short phases have nothing to gain, as their numbers of sleeps and switches show: no
/// BPF program is loaded, and hardly any profile is taken.
#[test]
fn threads_that_sleep_or_yield_after_short_phases_are_left_alone() {
    let Some((_, cpus)) = two_cpus("threads_that_sleep_or_yield_after_short_phases_are_left_alone") else { return };
    let place = Place::new();
    let program = workload("barriers");
    for (wait, work_us, rounds) in [("futex", "200", "3000"), ("yield", "20", "20000")] {
        let phases = ["--threads", "3", "--work-us", work_us, "--wait", wait, "--rounds", rounds];
        let (ran, report) = place.packed(&[&["--cpus", &cpus, "--", &program][..], &phases].concat());
        assert_eq!((ran.code, &report["only_watched"]), (0, &Value::Bool(true)), "{wait}: {report}");
        // Long enough that profiles would have been taken all the time.
        assert!(report["wall_ns"].as_u64().is_some_and(|wall_ns| wall_ns > 300_000_000), "{wait}: {report}");
        assert!(report["profiles"].as_u64().is_some_and(|profiles| profiles < 4), "{wait}: {report}");
    }
}

/// Runs a program that computes in `threads` threads under `cox pack`. Returns the report of a session in which packing did not begin.
fn only_watched(test: &str, threads: &str, seconds: &str) -> Option<Value> {
    let (_, cpus) = two_cpus(test)?;
    let place = Place::new();
    let program = workload("hog");
    let (ran, report) = place.packed(&["--cpus", &cpus, "--", &program, "--threads", threads, "--seconds", seconds]);
    assert_eq!(
        (ran.code, &report["only_watched"], report["moves"].as_u64()),
        (0, &Value::Bool(true), Some(0)),
        "{report}"
    );
    assert_eq!(place.journals(), 0);
    Some(report)
}

#[test]
fn a_program_without_more_threads_than_cpus_is_only_watched() {
    let test = "a_program_without_more_threads_than_cpus_is_only_watched";
    let Some(report) = only_watched(test, "1", "0.4") else { return };
    let run_ns = report["run_ns"].as_u64().expect("run_ns");
    assert!((350_000_000..450_000_000).contains(&run_ns), "{report}");
}

/// Threads that compute without waiting for one another gain nothing, as a profile of them shows: no BPF program is loaded.
#[test]
fn threads_that_only_compute_are_profiled_and_left_alone() {
    let test = "threads_that_only_compute_are_profiled_and_left_alone";
    let Some(report) = only_watched(test, "4", "0.5") else { return };
    assert!(report["profiles"].as_u64().expect("profiles") > 0, "{report}");
}

/// Threads that are more than the CPUs for some milliseconds at a time: a profile that has begun then ends when only one of them runs. cox has to wait for
/// them as before, and not to look all the time.
#[test]
fn threads_that_are_too_many_only_for_moments_cost_no_looks() {
    let Some((_, cpus)) = two_cpus("threads_that_are_too_many_only_for_moments_cost_no_looks") else { return };
    let place = Place::new();
    let program = workload("losses");
    let moments = ["--threads", "3", "--work-us", "8000", "--serial-us", "400000", "--steps", "6"];
    let (ran, report) = place.packed(&[&["--cpus", &cpus, "--", &program][..], &moments].concat());
    let figure = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!(ran.code, 0, "{report}");
    // It takes 1 %, or 3 % with a trial. Looks without a pause took 20 to 50 %.
    assert!(figure("own_ns") < figure("wall_ns") / 10, "{report}");
}

/// cox is the parent of processes whose parent has ended. The script counts those that cox has not reaped.
#[test]
fn orphans_that_have_ended_are_reaped() {
    let Some((_, cpus)) = two_cpus("orphans_that_have_ended_are_reaped") else { return };
    let place = Place::new();
    let orphans = "for i in 1 2 3 4 5 6 7 8; do (sleep 0.05 &); done";
    let dead = "for p in $(cat /proc/$PPID/task/*/children); do grep State /proc/$p/status; done | grep -c Z";
    let script = format!("{orphans}; sleep 0.5; {orphans}; sleep 0.5; {dead}");
    for more in [&[][..], &["--always"]] {
        let ran = place.pack(&[&["-q", "--cpus", &cpus][..], more, &["--", "sh", "-c", &script]].concat());
        assert_eq!(ran.text().trim(), "0", "{more:?}: {}", ran.stderr);
    }
}

#[test]
fn attaching_leaves_every_mask_as_it_was() {
    let Some((_, cpus)) = two_cpus("attaching_leaves_every_mask_as_it_was") else { return };
    attaching_leaves_masks(&cpus, &[]);
}

#[test]
fn attaching_to_a_program_in_a_container_leaves_every_mask_as_it_was() {
    let test = "attaching_to_a_program_in_a_container_leaves_every_mask_as_it_was";
    let Some((_, cpus)) = two_cpus(test) else { return };
    if testkit::container::can_have_containers(test) {
        attaching_leaves_masks(&cpus, &testkit::container::CONTAINER);
    }
}

/// Of a program that is started inside of what another command makes.
fn attaching_leaves_masks(cpus: &str, inside: &[&str]) {
    let _turn = turn();
    let place = Place::new();
    let runs = Runs::spinning_inside(inside, "1000000");
    let before = runs.masks();
    let (ran, report) = place.packed(&["--cpus", cpus, "--always", "--pid", &runs.pid(), "--for", "400ms"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!((report["restored"].as_u64(), report["exit_code"].as_i64()), (Some(3), None));
    assert!(report["exchanges"].as_u64() > Some(0), "{report}");
    assert!(runs.is_as(&before), "{:?}", runs.masks());
    assert_eq!(place.journals(), 0);
}

#[test]
fn a_second_packer_of_the_same_program_is_refused() {
    let Some((_, cpus)) = two_cpus("a_second_packer_of_the_same_program_is_refused") else { return };
    let place = Place::new();
    let runs = Runs::start(&[&workload("storm"), "--sleepers", "20", "--seconds", "20"]);
    wait_for("all threads", || (runs.masks().len() == 21).then_some(()));
    let before = runs.masks();
    let one: CpuSet = before.values().next().unwrap().iter().take(1).collect();
    let mut first = place.cox(&["-q", "--cpus", &one.to_string(), "--pid", &runs.pid()]).spawn().unwrap();
    wait_for("the pack", || runs.masks().values().all(|mask| *mask == one).then_some(()));
    for list in [cpus, one.to_string()] {
        let second = place.pack(&["--cpus", &list, "--pid", &runs.pid()]);
        assert_eq!(second.code, 125);
        assert!(second.stderr.contains("is packed already"), "{}", second.stderr);
        assert!(runs.masks().values().all(|mask| *mask == one), "the first goes on");
    }
    send(first.id(), Signal::INT);
    assert_eq!(shell_code(end_of(&mut first)), 0);
    assert!(runs.is_as(&before));
}

#[test]
fn the_cpus_of_a_packed_program_can_be_changed() {
    let Some((allowed, cpus)) = two_cpus("the_cpus_of_a_packed_program_can_be_changed") else { return };
    let _turn = turn();
    let place = Place::new();
    let runs = Runs::spinning("1000000");
    let (before, pid) = (runs.masks(), runs.pid());
    let ask = |arguments: &[&str]| place.pack(&[&["set", &pid][..], arguments].concat());
    let unpacked = ask(&["--ncpus", "1"]);
    assert_eq!((unpacked.code, unpacked.text().as_str()), (125, ""));
    assert!(unpacked.stderr.contains("is not packed"), "{}", unpacked.stderr);

    let one: CpuSet = allowed.iter().take(1).collect();
    let (all, json) = (cpus.parse::<CpuSet>().unwrap(), path(&place.0, "report.json"));
    let mut first =
        place.cox(&["-q", "--json", &json, "--cpus", &one.to_string(), "--always", "--pid", &pid]).spawn().unwrap();
    let on_one = || runs.masks().values().all(|mask| *mask == one).then_some(());
    wait_for("the pack", on_one);
    let beyond = (allowed.last().unwrap() + 1).to_string();
    let refused = ask(&["--cpus", &beyond]);
    assert_eq!((refused.code, refused.text().as_str()), (125, ""));
    assert!(refused.stderr.contains("may not use CPU"), "{}", refused.stderr);
    assert!(on_one().is_some(), "nothing has changed");

    let grown = ask(&["--cpus", &cpus]);
    assert_eq!((grown.code, grown.text()), (0, format!("cox: process {pid} is packed on CPUs {cpus} now\n")));
    let used = || runs.masks().into_values().fold(CpuSet::default(), |used, mask| used.union(&mask));
    wait_for("turns on both CPUs", || {
        (used() == all && runs.masks().values().any(|mask| mask.len() == 1)).then_some(())
    });
    let shrunk = ask(&["--ncpus", "1"]);
    assert_eq!(shrunk.code, 0, "{}", shrunk.stderr);
    wait_for("one CPU again", || (used().len() == 1).then_some(()));

    send(first.id(), Signal::INT);
    assert_eq!(shell_code(end_of(&mut first)), 0);
    assert!(runs.is_as(&before), "{:?}", runs.masks());
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let changed: Vec<&str> = report["repacked"].as_array().unwrap().iter().filter_map(|c| c["cpus"].as_str()).collect();
    assert_eq!(changed, [cpus.as_str(), report["cpus"].as_str().unwrap()]);
    assert_eq!((report["threads"].as_u64(), report["restored"].as_u64()), (Some(3), Some(3)));
    let (wall_ns, slots_ns) = (report["wall_ns"].as_u64().unwrap(), report["slots_ns"].as_u64().unwrap());
    assert!(wall_ns < slots_ns && slots_ns < 2 * wall_ns, "{report}");
    assert!(report["run_ns"].as_u64().unwrap() <= slots_ns + slots_ns / 20, "{report}");
    assert_eq!(place.journals(), 0);
}

/// OpenMP counts the CPUs of the mask that a process starts with, or loads it with.
#[test]
fn a_process_counts_the_cpus_of_the_pack() {
    let Some((_, cpus)) = two_cpus("a_process_counts_the_cpus_of_the_pack") else { return };
    let place = Place::new();
    let script = "nproc; sleep 0.2; nproc; nproc & wait; exec nproc";
    let ran = place.pack(&["-q", "--always", "--cpus", &cpus, "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.text().as_str()), (0, "2\n2\n2\n2\n"), "{}", ran.stderr);
}

/// Children of a packed program are packed with it: nobody else may pack one of them meanwhile.
#[test]
fn a_child_of_a_packed_program_is_not_packed_twice() {
    let Some((_, cpus)) = two_cpus("a_child_of_a_packed_program_is_not_packed_twice") else { return };
    let place = Place::new();
    let pid = path(&place.0, "pid");
    let script =
        format!("{} --threads 3 --seconds 20 & echo $! > {pid}.new; mv {pid}.new {pid}; wait", workload("hog"));
    let mut first = place.cox(&["-q", "--cpus", &cpus, "--", "sh", "-c", &script]).spawn().unwrap();
    let child = wait_for("the child", || fs::read_to_string(&pid).ok()).trim().to_owned();
    let journals = changes::JournalFolder::at(place.folder());
    let child_pid = child.parse().unwrap();
    wait_for("its packing", || journals.is_held(child_pid).unwrap().then_some(()));
    let second = place.pack(&["--cpus", &cpus, "--pid", &child, "--for", "100ms"]);
    assert_eq!(second.code, 125);
    assert!(second.stderr.contains("is packed already"), "{}", second.stderr);
    send(child.parse().unwrap(), Signal::KILL);
    end_of(&mut first);
    let left: Vec<_> = fs::read_dir(place.0.path().join("changes")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "lock" || name == "rights"), "{left:?}");
    assert!(!journals.is_held(child_pid).unwrap(), "the right is gone");
}

/// SIGKILL at many moments, of cox alone and with its whole process group: nothing is left, and the program
/// goes on. The guardian is not of the group.
#[test]
fn killed_at_any_moment_all_masks_come_back() {
    let Some((_, cpus)) = two_cpus("killed_at_any_moment_all_masks_come_back") else { return };
    let _turn = turn();
    let place = Place::new();
    let runs = Runs::spinning("1000000");
    let before = runs.masks();
    for moment in 0..24u64 {
        let mut cox = place.cox(&["-q", "--cpus", &cpus, "--always", "--period", "200us", "--pid", &runs.pid()]);
        let mut cox = cox.process_group(0).spawn().unwrap();
        // From before the first mask is set until long after turns have begun.
        sleep(Duration::from_millis(moment * moment));
        if moment >= 20 {
            wait_for("a mask that is not as before", || (!runs.is_as(&before)).then_some(()));
        }
        if moment % 2 == 0 {
            cox.kill().unwrap();
        } else {
            kill_process_group(Pid::from_child(&cox), Signal::KILL).unwrap();
        }
        cox.wait().unwrap();
        wait_for("the guardian", || (place.journals() == 0).then_some(()));
        assert!(runs.is_as(&before), "killed after {} ms: {:?}", moment * moment, runs.masks());
    }
}

/// SIGKILL while cox stands by: one thread runs on one CPU, so nothing is packed yet, but the pack's mask is set. It is also the mask of a
/// child that began later.
#[test]
fn killed_while_it_stands_by_masks_come_back() {
    let Some((allowed, _)) = two_cpus("killed_while_it_stands_by_masks_come_back") else { return };
    let last = allowed.last().unwrap().to_string();
    let place = Place::new();
    let told = path(&place.0, "told");
    let script = format!("sleep 0.3; sleep 60 & echo $$ $! > {told}.part; mv {told}.part {told}; wait");
    let mut cox = place.cox(&["-q", "--cpus", &last, "--", "sh", "-c", &script]).spawn().unwrap();
    let pids = wait_for("the processes", || fs::read_to_string(&told).ok());
    let left = Left(pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect());
    let mask = |pid: &u32| allowed_cpus(&Root::live(), Who::Task(*pid)).unwrap();
    let masks = || left.0.iter().map(mask).collect::<Vec<CpuSet>>();
    // Longer than the time between two looks for new processes.
    sleep(Duration::from_millis(300));
    let before = masks();
    cox.kill().unwrap();
    cox.wait().unwrap();
    wait_for("the guardian", || (place.journals() == 0).then_some(()));
    assert_eq!((before, masks()), (vec![last.parse().unwrap(); 2], vec![allowed; 2]));
}

/// Processes that cox has left behind. They are killed when the value is dropped.
struct Left(Vec<u32>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| send(*pid, Signal::KILL));
    }
}

#[test]
fn threads_that_come_and_go_while_they_are_moved_are_unharmed() {
    let Some((_, cpus)) = two_cpus("threads_that_come_and_go_while_they_are_moved_are_unharmed") else { return };
    let _turn = turn();
    let place = Place::new();
    let program = workload("storm");
    let arguments = ["--threads", "2000", "--processes", "50"];
    let plain = run(Command::new(&program).args(arguments));
    let packed = [&["--cpus", &cpus, "--always", "--period", "200us", "--", &program][..], &arguments].concat();
    let (ran, report) = place.packed(&packed);
    assert_eq!((ran.code, ran.text(), ran.stderr.as_str()), (0, plain.text(), ""));
    assert_eq!(report["diagnostics"].as_array().map(Vec::len), Some(0), "{report}");
    assert_eq!(place.journals(), 0);
}

/// A grandchild whose parent came and went between two looks inherited the pack's mask, and gets back what
/// its grandparent had.
#[test]
fn grandchildren_get_their_ancestors_mask_back() {
    let Some((allowed, _)) = two_cpus("grandchildren_get_their_ancestors_mask_back") else { return };
    let last = allowed.last().unwrap().to_string();
    let place = Place::new();
    let (seen, later) = (path(&place.0, "seen"), path(&place.0, "later"));
    let mask = "grep Cpus_allowed_list /proc/self/status";
    let grandchild = format!("{mask} > {seen}; sleep 0.7; {mask} > {later}.part; mv {later}.part {later}");
    let script = format!("(sh -c '{grandchild}' &) ; sleep 0.2");
    assert_eq!(place.pack(&["-q", "--cpus", &last, "--", "sh", "-c", &script]).code, 0);
    let list =
        |file: &str| fs::read_to_string(file).ok().map(|text| text.trim().rsplit('\t').next().unwrap().to_owned());
    let after = wait_for("the grandchild", || list(&later));
    assert_eq!((list(&seen), after), (Some(last), allowed.to_string()));
}

#[test]
fn the_same_inside_containers() {
    let tests = [
        "spinning_threads_take_turns_and_the_figures_add_up",
        "a_program_ends_as_without_cox_and_runs_on_the_pack_only",
        "attaching_leaves_every_mask_as_it_was",
        "the_cpus_of_a_packed_program_can_be_changed",
        "a_child_of_a_packed_program_is_not_packed_twice",
        "killed_at_any_moment_all_masks_come_back",
    ];
    testkit::container::again_in_containers("the_same_inside_containers", &tests);
}
