//! A debugger that knows nothing of ULPs finds their files, and stops one of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use testkit::skip::{Need, skip};

use place::{Place, Running, wait_for};

/// Attaches gdb to a process, runs these commands, and detaches. Returns what it prints.
fn gdb(pid: &str, commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", pid]);
    commands.iter().for_each(|command| {
        gdb.args(["-ex", command]);
    });
    let output = gdb.output().expect("gdb");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn gdb_finds_the_files_of_all_ulps_and_stops_one() {
    let place = Place::new();
    let program = place.compile("debugging", &["-g"]);
    let mut host = Running::start(place.host(3, &program, &[]));
    let pids: Vec<String> = host.lines().take(3).collect();
    if gdb(&pids[0], &[]).contains("ptrace: Operation not permitted") {
        return skip("gdb_finds_the_files_of_all_ulps_and_stops_one", Need::Namespaces, "gdb may not attach");
    }
    let of_host = gdb(&host.0.id().to_string(), &["info sharedlibrary"]);
    let count = |name: &str| of_host.lines().filter(|line| line.starts_with("0x") && line.ends_with(name)).count();
    // The host has a C library of its own.
    assert_eq!((count("/debugging"), count("/libc.so.6")), (3, 4), "{of_host}");
    let stop = ["backtrace", "frame function main", "tbreak *$pc", "continue", "backtrace 1", "print rounds > 0"];
    let of_one = gdb(&pids[1], &stop);
    assert!(of_one.contains("wait_a_little () at"), "{of_one}");
    assert!(of_one.contains("Temporary breakpoint 1, ") && of_one.contains("main () at"), "{of_one}");
    // All of them go on: their main threads sleep again and again.
    let sleeps = |pid: &String| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).map(str::trim);
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
    };
    let before: Vec<u64> = pids.iter().map(sleeps).collect();
    wait_for("all ULPs", || pids.iter().zip(&before).all(|(pid, before)| sleeps(pid) > *before));
}

/// CPU time of a process without its carrier, ticks.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// A ULP that computes on a carrier comes home when a tracer has stopped and continued it, and returns to the carrier when it is no longer traced.
#[test]
fn a_traced_ulp_stays_at_home() {
    let place = Place::new();
    let program = place.compile("carriers", &[]);
    let mut host = Running::start(place.on_one_cpu(2, &program, &["decoupled", "endless"]));
    let pids: Vec<i32> = host.lines().take(2).map(|line| line.parse().unwrap()).collect();
    let is_at_home = |pid: i32| {
        let before = ticks(pid);
        sleep(Duration::from_millis(200));
        ticks(pid) > before + 2
    };
    wait_for("both are on carriers", || !pids.iter().any(|pid| is_at_home(*pid)));
    let trace = |request: libc::c_uint| {
        // SAFETY: these requests take no pointers.
        unsafe { libc::ptrace(request, pids[0], 0, 0) }
    };
    if trace(libc::PTRACE_SEIZE) != 0 {
        return skip("a_traced_ulp_stays_at_home", Need::Namespaces, "the right to trace processes is missing");
    }
    assert_eq!(trace(libc::PTRACE_INTERRUPT), 0);
    let mut status = 0;
    // SAFETY: the status is valid for writing.
    assert_eq!(unsafe { libc::waitpid(pids[0], &raw mut status, libc::__WALL) }, pids[0]);
    assert_eq!(trace(libc::PTRACE_CONT), 0);
    wait_for("the traced one is at home", || is_at_home(pids[0]));
    // On a carrier, it would stay: it makes no system calls.
    wait_for("it stays there", || is_at_home(pids[0]));
    assert!(!is_at_home(pids[1]), "the other one is on its carrier");
    // A tracer that ends lets go of it, and only a stopped one can be detached.
    assert_eq!(trace(libc::PTRACE_INTERRUPT), 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::waitpid(pids[0], &raw mut status, libc::__WALL) }, pids[0]);
    assert_eq!(trace(libc::PTRACE_DETACH), 0);
    wait_for("it is on its carrier again", || !is_at_home(pids[0]));
}
