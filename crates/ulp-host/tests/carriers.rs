//! Programs that leave their kernel tasks for carriers, and return: whatever belongs to a process stays right.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use place::{Place, Running, each, lines, wait_for};

const MODES: [&str; 3] = ["policy", "decoupled", "coupled"];

/// Builds the program of these tests. With `linking`, options for the linker.
fn build(place: &Place, linking: &[&str]) -> String {
    place.compile("carriers", linking)
}

/// Starts five ULPs that wait for a signal on carriers. Returns the host, what they print from then on, and their pids.
fn on_carriers(place: &Place) -> (Running, impl Iterator<Item = String> + use<>, Vec<String>) {
    let mut host = Running::start(place.host(5, &build(place, &[]), &["policy", "signal"]));
    let mut told = host.lines();
    let pids = told.by_ref().take(5).map(|line| line.trim_end_matches(" ready").to_owned()).collect();
    // All have left by now.
    sleep(Duration::from_millis(100));
    (host, told, pids)
}

#[test]
fn what_belongs_to_a_process_stays_right() {
    let place = Place::new();
    for linking in [&[][..], &["-static-pie"]] {
        let program = build(&place, linking);
        for mode in MODES {
            let (output, ends) = place.run(8, &program, &[mode, "mixed"]);
            assert_eq!(
                (lines(&output), ends),
                (each(8, |rank| format!("{rank} ok")), vec![0; 8]),
                "{mode} {linking:?}"
            );
            let stays = place.told()["stays"].as_u64().unwrap();
            assert_eq!(stays > 0, mode != "coupled", "{mode}: {}", place.told());
        }
    }
}

#[test]
fn who_ends_badly_on_a_carrier_ends_alone() {
    let place = Place::new();
    let program = build(&place, &[]);
    for (how, end) in
        [("segv", -11), ("overflow", -11), ("abort", -6), ("divide", -8), ("trap", -5), ("long trap", -5), ("exit", 7)]
    {
        let (output, ends) = place.run(4, &program, &["decoupled", how]);
        let right: Vec<String> = [0, 2, 3].map(|rank| format!("{rank} ok")).to_vec();
        assert_eq!((lines(&output), ends), (right, vec![0, end, 0, 0]), "{how}");
    }
}

/// A core dump has the whole address space, and stops only the process that it is of (since Linux 5.16).
#[test]
fn who_dumps_core_dumps_and_ends_alone() {
    let place = Place::new();
    let program = build(&place, &[]);
    let by = ["sh", "-c", "ulimit -c unlimited; exec \"$@\"", "sh"];
    for mode in ["decoupled", "coupled"] {
        let (output, ends) = place.run_by(&by, 4, &program, &[mode, "segv"]);
        let right: Vec<String> = [0, 2, 3].map(|rank| format!("{rank} ok")).to_vec();
        assert_eq!((lines(&output), ends), (right, vec![0, -11, 0, 0]), "{mode}");
        // Where dumps are files in the working directory.
        if std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap().trim() == "core" {
            let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("core");
            let cores = std::fs::read_dir(place.folder()).unwrap().map(Result::unwrap).filter(name);
            let cores: Vec<PathBuf> = cores.map(|entry| entry.path()).collect();
            assert!(!cores.is_empty(), "{mode}");
            cores.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        }
    }
}

/// Kills the ULP that computes for ever when the others have ended. Those on its carrier had to get their turns.
#[test]
fn who_computes_for_ever_does_not_stop_others() {
    let place = Place::new();
    let program = build(&place, &[]);
    let mut host = Running::start(place.on_one_cpu(6, &program, &["policy", "hog"]));
    let mut others: Vec<String> = host.lines().take(5).collect();
    others.sort();
    assert_eq!(others, ["1 ok", "2 ok", "3 ok", "4 ok", "5 ok"]);
    let children = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", host.0.id())).unwrap();
    wait_for("the end of the others", || children().split_whitespace().count() == 1);
    let children = children();
    Command::new("kill").args(["-9", children.trim()]).status().unwrap();
    assert_eq!(host.code(), Some(128 + 9));
}

/// Signals to a parked home task bring the context home, with what the sender sent.
#[test]
fn signals_reach_a_ulp_on_a_carrier() {
    let place = Place::new();
    let (host, told, mut pids) = on_carriers(&place);
    for pid in &pids {
        Command::new("kill").args(["-USR1", pid]).status().unwrap();
    }
    let mut answers: Vec<String> = told.collect();
    let sent: Vec<String> = answers.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert!(answers.iter().all(|line| !line.ends_with(" 0")), "{answers:?}");
    let mut sent = sent;
    sent.sort();
    pids.sort();
    answers.sort();
    assert_eq!((sent, host.code()), (pids, Some(0)));
    assert!(place.told()["stays"].as_u64() >= Some(5), "{}", place.told());
}

/// Signals that are queued arrive in their order, the one that wakes home tasks among them; one that the main thread blocks is another thread's.
#[test]
fn queued_signals_keep_their_order_and_blocked_ones_their_threads() {
    let place = Place::new();
    let program = build(&place, &[]);
    for mode in MODES {
        let (output, ends) = place.run(4, &program, &[mode, "queued"]);
        assert_eq!((lines(&output), ends), (each(4, |rank| format!("{rank} ok")), vec![0; 4]), "{mode}");
        assert_eq!(place.told()["stays"].as_u64() >= Some(4), mode != "coupled", "{mode}: {}", place.told());
    }
}

/// SIGKILL while the context is on a carrier.
#[test]
fn who_is_killed_on_a_carrier_ends_alone() {
    let place = Place::new();
    let (host, told, pids) = on_carriers(&place);
    Command::new("kill").args(["-9", &pids[2]]).status().unwrap();
    sleep(Duration::from_millis(50));
    for pid in pids.iter().filter(|pid| **pid != pids[2]) {
        Command::new("kill").args(["-USR1", pid]).status().unwrap();
    }
    assert_eq!((told.count(), host.code()), (4, Some(128 + 9)));
    assert!(place.told()["stays"].as_u64() >= Some(5), "{}", place.told());
}

/// SIGSTOP while the context is on a carrier: the kernel shows the process as stopped, the others go on, and it answers when it is continued.
#[test]
fn who_is_stopped_on_a_carrier_stops_alone() {
    let place = Place::new();
    let (host, mut told, pids) = on_carriers(&place);
    let send = |signal: &str, pid: &str| assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
    send("-STOP", &pids[2]);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", pids[2])).unwrap();
    wait_for("the stop", || state().contains(") T"));
    send("-USR1", &pids[2]);
    pids.iter().filter(|pid| **pid != pids[2]).for_each(|pid| send("-USR1", pid));
    let others: Vec<String> = told.by_ref().take(4).collect();
    assert!(!others.iter().any(|line| line.starts_with(&format!("{} ", pids[2]))), "{others:?}");
    send("-CONT", &pids[2]);
    let last: Vec<String> = told.collect();
    assert!(last.len() == 1 && last[0].starts_with(&format!("{} ", pids[2])), "{last:?}");
    assert_eq!(host.code(), Some(0));
    assert!(place.told()["stays"].as_u64() >= Some(5), "{}", place.told());
}

/// Seven ULPs find nothing wrong, however they yield.
#[track_caller]
fn assert_right_in_all_modes(what: &str, rounds: &str) {
    let place = Place::new();
    let program = build(&place, &[]);
    for mode in MODES {
        let (output, ends) = place.run(7, &program, &[mode, what, rounds]);
        assert_eq!((lines(&output), ends), (each(7, |rank| format!("{rank} ok")), vec![0; 7]), "{mode}");
    }
}

#[test]
fn ulps_suspend_and_resume_each_other_at_a_barrier() {
    assert_right_in_all_modes("together", "300");
}

#[test]
fn only_one_holds_a_mutex() {
    assert_right_in_all_modes("exclusive", "600");
}

#[test]
fn a_yield_to_another_ulp_continues_it() {
    let place = Place::new();
    let program = build(&place, &[]);
    let (output, ends) = place.run_on_one_cpu(6, &program, &["policy", "ring", "1000"]);
    assert_eq!((lines(&output), ends), (each(6, |rank| format!("{rank} ok")), vec![0; 6]));
}

/// A program that only yields leaves its home once, after a few yields; the kernel sees no more of them. On one CPU, because a ULP that is alone on its
/// carrier leaves the CPU to other programs at each yield.
#[test]
fn who_yields_without_system_calls_stays_on_its_carrier() {
    let place = Place::new();
    let program = build(&place, &[]);
    let (output, ends) = place.run_on_one_cpu(2, &program, &["policy", "yields", "100000"]);
    assert_eq!((lines(&output), ends), (each(2, |rank| format!("{rank} ok")), vec![0; 2]));
    let told = place.told();
    let of = |key: &str| told[key].as_u64().unwrap();
    assert!(of("yields") > 199_900 && of("coupled_yields") < 20, "{told}");
    // The second stay begins with what is printed at the end, if at all.
    assert!((2..=4).contains(&of("stays")), "{told}");
}

/// In a container whose seccomp filter refuses syscall user dispatch, nobody leaves home, and everything else works.
#[test]
fn without_syscall_user_dispatch_all_stay_at_home_and_the_reason_is_told() {
    let place = Place::new();
    let (program, refuse) = (build(&place, &[]), place.compile("refuse", &[]));
    for what in ["mixed", "together"] {
        let (output, ends) = place.run_by(&[&refuse], 4, &program, &["decoupled", what]);
        assert_eq!((lines(&output), ends), (each(4, |rank| format!("{rank} ok")), vec![0; 4]), "{what}");
        let told = place.told();
        assert_eq!((&told["carriers"], &told["stays"]), (&0.into(), &0.into()), "{told}");
        assert!(
            told["no_carriers"].as_str().unwrap().starts_with("syscall user dispatch is not available: "),
            "{told}"
        );
    }
}

/// ULPs on carriers do not outlive their host.
#[test]
fn who_is_on_a_carrier_dies_with_the_host() {
    let place = Place::new();
    let (host, _, pids) = on_carriers(&place);
    drop(host);
    let is_alive = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    wait_for("the end of all", || !pids.iter().any(is_alive));
}
