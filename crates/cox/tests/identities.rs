//! Sums that must hold in every account, tested on programs that were not written for this purpose.

use std::fs;
use std::path::Path;
use std::process::Command;

use ledger::account::{CpuAccount, Thread};
use serde_json::{Map, Value};
use testkit::measured::{Bench, Seen, assert_none, bench, on_cpus};
use testkit::schema::follows_schema;
use testkit::skip::{Need, installed};
use wire::Cause;

/// What users were promised to find in the JSON: at the top, and in each thread.
const TOP: &str = "schema_version backend events lost_events programs cpus preemptors verdict";
const PER_THREAD: &str = "tid comm run_ns steal_ns spin_ns kernel_sync_ns kernel_ns spin_basis wake_delay_ns preempt_wait_ns blocked_ns \
    blocked_by unknown_ns wall_ns switches_voluntary switches_involuntary migrations cpus";

#[test]
fn barriers_in_all_wait_modes() {
    let Some(bench) = bench("barriers_in_all_wait_modes") else { return };
    for wait in ["futex", "spin", "yield", "spin-futex"] {
        let arguments = ["--threads", "3", "--seconds", "1", "--wait", wait];
        let (seen, _) = bench.watch_workload(&on_cpus(2), "barriers", &arguments);
        assert_eq!(seen.threads().count(), 3);
        adds_up(wait, &seen);
    }
}

#[test]
fn stress_ng() {
    let Some(bench) = bench("stress_ng") else { return };
    if !installed("stress_ng", Need::Programs, "stress-ng") {
        return;
    }
    let seconds = if std::env::var_os("COX_TEST_LONG").is_some() { "10" } else { "4" };
    let seen = bench.watch(&[], &["stress-ng", "--switch", "2", "--fork", "2", "--vm", "1", "-t", seconds]);
    for stressor in ["stress-ng-switch", "stress-ng-fork", "stress-ng-vm"] {
        // Names are cut to 15 bytes.
        let name = &stressor[..stressor.len().min(15)];
        assert!(seen.threads().any(|thread| thread.comm.starts_with(name)), "no {name}");
    }
    adds_up("stress-ng", &seen);
}

#[test]
fn parallel_make() {
    let Some(bench) = bench("parallel_make") else { return };
    const FILES: usize = 12;
    c_project(bench.folder(), FILES);
    let seen = bench.watch(&[], &["make", "-j4"]);
    let program = Command::new(bench.folder().join("program")).output().expect("start what make built");
    assert_eq!(String::from_utf8_lossy(&program.stdout).trim(), FILES.to_string());
    let compilers = seen.document.account.programs[0].processes.iter().filter(|p| p.comm == "cc1").count();
    assert_eq!(compilers, FILES + 1);
    adds_up("make -j4", &seen);
}

#[test]
fn python_with_50_threads() {
    const PROGRAM: &str = "
import threading, time
lock = threading.Lock()
done = []
def sleeper():
    for _ in range(50): time.sleep(0.01)
def locker():
    for _ in range(100):
        with lock: time.sleep(0.0002)
def worker():
    sum(i * i for i in range(200_000))
def run(work):
    work()
    done.append(work.__name__)
threads = [threading.Thread(target=run, args=([sleeper, locker, worker][i % 3],)) for i in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(done))
";
    let Some(bench) = bench("python_with_50_threads") else { return };
    if !installed("python_with_50_threads", Need::Python, "python3") {
        return;
    }
    let seen = bench.watch(&[], &["python3", "-c", PROGRAM]);
    assert_eq!(seen.stdout.trim(), "50");
    let most = seen.document.account.programs[0].processes.iter().map(|process| process.threads.len()).max();
    assert_eq!(most, Some(51));
    adds_up("python3", &seen);
}

#[test]
fn graphicsmagick() {
    let Some(bench) = bench("graphicsmagick") else { return };
    if !installed("graphicsmagick", Need::Programs, "gm") {
        return;
    }
    let image = bench.folder().join("image.miff");
    let mut make = Command::new("gm");
    make.args(["convert", "-size", "1200x1200", "plasma:fractal"]).arg(&image);
    assert!(make.status().expect("start gm").success(), "{make:?}");
    let seen = bench.watch(&[], &["gm", "convert", "image.miff", "-blur", "0x3", "-resize", "50%", "small.png"]);
    assert!(fs::metadata(bench.folder().join("small.png")).is_ok_and(|file| file.len() > 0));
    adds_up("gm convert", &seen);
}

/// A Makefile, a main program and `files` more files of C, which add up to `files`.
fn c_project(folder: &Path, files: usize) {
    let mut main = String::from("#include <stdio.h>\n");
    let mut sum = String::from("0");
    let mut objects = String::from("main.o");
    for file in 0..files {
        let mut source = String::new();
        for function in 0..60 {
            source.push_str(&format!(
                "static int f{function}(int n) {{ int s = 0; for (int i = 1; i < n; i++) s += i % {} ? n / i : i; \
                 return s; }}\n",
                function + 2
            ));
        }
        let calls: Vec<String> = (0..60).map(|function| format!("f{function}(n)")).collect();
        source.push_str(&format!("int part{file}(int n) {{ return n < 2 ? 1 : {}; }}\n", calls.join(" + ")));
        fs::write(folder.join(format!("part{file}.c")), source).expect("write a C file");
        main.push_str(&format!("int part{file}(int);\n"));
        sum.push_str(&format!(" + part{file}(1)"));
        objects.push_str(&format!(" part{file}.o"));
    }
    main.push_str(&format!("int main(void) {{ printf(\"%d\\n\", {sum}); }}\n"));
    fs::write(folder.join("main.c"), main).expect("write a C file");
    let makefile = format!("CC = gcc\nCFLAGS = -O2\nprogram: {objects}\n\t$(CC) -o $@ $^\n");
    fs::write(folder.join("Makefile"), makefile).expect("write the Makefile");
}

/// Checks everything that holds in every account.
fn adds_up(what: &str, seen: &Seen) {
    let mut faults = seen.faults();
    faults.extend(seen.busy_faults());
    seen.threads().for_each(|thread| thread_adds_up(thread, &mut faults));
    session_adds_up(what, seen, &mut faults);
    promised(seen, &mut faults);
    follows_schema(&seen.json, &mut faults);
    match testkit::audit::audit(&seen.report) {
        Ok(added) if added.programs == 0 || added.rows == 0 || added.cpus == 0 => {
            faults.push(format!("the report is incomplete: {added:?}\n{}", seen.report));
        }
        Ok(_) => {}
        Err(open) => faults.push(format!("the report: {}\n{}", open.join("; "), seen.report)),
    }
    assert_none(&faults.into_iter().map(|fault| format!("{what}: {fault}")).collect::<Vec<_>>());
}

fn thread_adds_up(thread: &Thread, faults: &mut Vec<String>) {
    let states = [thread.run_ns, thread.wake_delay_ns, thread.preempt_wait_ns, thread.blocked_ns, thread.unknown_ns];
    let sum: u64 = states.iter().sum();
    let parts = [
        ("states and wall", sum, thread.wall_ns, thread.wall_ns / 1000),
        ("CPUs and run", thread.cpus.iter().map(|(_, ns)| ns).sum::<u64>() + thread.cpus.other_ns(), thread.run_ns, 0),
        ("causes and blocked", thread.blocked_by.total(), thread.blocked_ns, 0),
    ];
    for (which, parts, whole, slack) in parts {
        if parts.abs_diff(whole) > slack {
            faults.push(format!("{which} differ, {parts} and {whole} ns: {thread:?}"));
        }
    }
    let within = [
        ("spin and synchronisation in run", thread.spin_ns + thread.kernel_sync_ns, thread.run_ns),
        ("synchronisation in kernel", thread.kernel_sync_ns, thread.kernel_ns),
        ("kernel in run", thread.kernel_ns, thread.run_ns),
        ("serial work in work", thread.serial_ns, thread.work_ns()),
        ("steal in run", thread.steal_ns, thread.run_ns),
        ("yield wait in preempt wait", thread.yield_wait_ns, thread.preempt_wait_ns),
    ];
    for (which, part, whole) in within {
        if part > whole {
            faults.push(format!("{which}: {part} of {whole} ns: {thread:?}"));
        }
    }
}

fn session_adds_up(what: &str, seen: &Seen, faults: &mut Vec<String>) {
    let account = &seen.document.account;
    if account.cpus.is_empty() {
        faults.push("no CPUs".to_owned());
    }
    for cpu in &account.cpus {
        let CpuAccount { busy_program_ns, busy_others_ns, idle_ns, unknown_ns, .. } = *cpu;
        if busy_program_ns + busy_others_ns + idle_ns + unknown_ns != account.window_ns
            || cpu.idle_while_waiting_ns + cpu.idle_while_blocked_ns > idle_ns
        {
            faults.push(format!("the window is {} ns: {cpu:?}", account.window_ns));
        }
    }
    let over = |part: fn(&Thread) -> u64| seen.threads().map(part).sum::<u64>();
    let waited = over(|thread| thread.wake_delay_ns + thread.preempt_wait_ns);
    // Who still held a CPU at the end of the window has no name there: that much is booked as lost.
    let took = account.preemptors.iter().map(|preemptor| preemptor.wait_ns).sum::<u64>() + account.lost.preemptors_ns;
    let run = over(|thread| thread.run_ns);
    let busy = account.cpus.iter().map(|cpu| cpu.busy_program_ns).sum::<u64>();
    // The two sides are booked at different events: some microseconds per thread, whatever its length.
    for (which, ours, whole, permille) in
        [("preemptors and waiting", took, waited, 10), ("busy CPUs and running", busy, run, 5)]
    {
        let difference = (ours as f64 / whole.max(1) as f64 - 1.0) * 100.0;
        println!("{what}: {which}: {ours} and {whole} ns ({difference:+.3} %)");
        if ours.abs_diff(whole) > whole * permille / 1000 + 1_000_000 {
            faults.push(format!("{which} differ: {ours} and {whole} ns ({difference:+.2} %)"));
        }
    }
    let others = over(|t| t.spin_ns + t.kernel_sync_ns + t.yield_wait_ns + t.blocked_by[Cause::Futex]);
    if seen.json["figures"]["waiting_for_threads_ns"] != others {
        faults.push(format!("{others} ns were waited for other threads: {}", seen.json["figures"]));
    }
    let worst = seen.threads().map(|t| t.unknown_ns as f64 / t.wall_ns.max(1) as f64).fold(0.0, f64::max);
    let (threads, gap) = (seen.threads().count(), seen.document.checks.worst_gap);
    println!("{what}: {threads} threads, worst gap {:.4} %, worst unknown {:.4} %", gap * 100.0, worst * 100.0);
}

fn promised(seen: &Seen, faults: &mut Vec<String>) {
    let thread = &seen.json["programs"][0]["processes"][0]["threads"][0];
    for (object, keys) in [(&seen.json, TOP), (thread, PER_THREAD)] {
        let missing = keys.split_whitespace().filter(|&key| object.get(key).is_none());
        faults.extend(missing.map(|key| format!("no {key} in the JSON")));
    }
}

#[test]
fn a_broken_document_does_not_follow_the_schema() {
    let Some(bench) = bench("a_broken_document_does_not_follow_the_schema") else { return };
    let seen = small(&bench);
    let breaks: [(&str, Value); 4] = [
        ("/backend", Value::from(3)),
        ("/programs/0/processes/0/threads/0/run_ns", Value::from(-1)),
        ("/programs/0/processes/0/threads/0/spin_basis", Value::from("guessed")),
        ("/cpus/0", Value::Object(Map::new())),
    ];
    for (place, wrong) in breaks {
        let mut document = seen.json.clone();
        *document.pointer_mut(place).expect(place) = wrong;
        let mut faults = Vec::new();
        follows_schema(&document, &mut faults);
        assert_eq!(faults.len(), 1, "{place}");
    }
}

fn small(bench: &Bench) -> Seen {
    let seen = bench.watch(&[], &["true"]);
    adds_up("true", &seen);
    seen
}
