//! Verdicts on staged situations: real programs that lose their time for a known reason.

use std::path::Path;

use testkit::skip::Need;
use testkit::staged::{Group, Judged, Situation, Stage};

const SPINNING: &str = "too_many_threads_spinning";
const SLEEPING: &str = "too_many_threads_sleeping";

/// A program and its arguments.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// A program with nothing special around it.
fn program(line: &str) -> Situation {
    Situation { program: words(line), ..Situation::default() }
}

/// Judges a situation and checks what is said about it; `None` when the machine was never quiet.
#[track_caller]
fn expect(stage: &Stage, situation: &Situation, right: &[&str]) -> Option<Judged> {
    let judged = stage.judge(situation, right)?;
    judged.assert(right);
    Some(judged)
}

/// The first thing to try is this, with a number unless others left nothing to promise.
#[track_caller]
fn assert_first_step(situation: &Situation, judged: &Judged, action: &str) {
    let first = judged.steps().next().unwrap_or_else(|| panic!("no step\n{}", judged.summary()));
    assert!(first.action.contains(action), "{action}\n{}", judged.summary());
    assert!(first.expected_low.is_some() || judged.disturbance(situation).is_some(), "no number\n{}", judged.summary());
}

#[test]
fn too_many_threads_spinning() {
    let Some(stage) = Stage::set("too_many_threads_spinning") else { return };
    let (threads, cpus) = (stage.cpus + 1, stage.cpus);
    for wait in ["spin", "yield"] {
        let step = format!("run it with {cpus} threads");
        // Threads that hardly work: too few samples show work for a number.
        let situation = program(&format!("barriers --threads {threads} --seconds 0.6 --wait {wait}"));
        if let Some(judged) = expect(&stage, &situation, &[SPINNING]) {
            assert_eq!(judged.steps().next().map(|first| &first.action), Some(&step), "{}", judged.summary());
        }
        let situation = program(&format!("barriers --threads {threads} --seconds 0.6 --work-us 20000 --wait {wait}"));
        if let Some(judged) = expect(&stage, &situation, &[SPINNING]) {
            assert_first_step(&situation, &judged, &step);
        }
    }
}

#[test]
fn too_many_threads_spinning_before_they_sleep() {
    let Some(stage) = Stage::set("too_many_threads_spinning_before_they_sleep") else { return };
    let (threads, cpus) = (stage.cpus + 1, stage.cpus);
    let situation = program(&format!("barriers --threads {threads} --seconds 0.6 --wait spin-futex"));
    if let Some(judged) = expect(&stage, &situation, &[SPINNING, SLEEPING]) {
        assert_first_step(&situation, &judged, &format!("run it with {cpus} threads"));
    }
}

#[test]
fn too_many_threads_sleeping() {
    let Some(stage) = Stage::set("too_many_threads_sleeping") else { return };
    let cpus = stage.cpus;
    for threads in [2 * cpus, 2 * cpus + 1] {
        let situation = program(&format!("barriers --threads {threads} --seconds 0.6 --work-us 60 --wait futex"));
        if let Some(judged) = expect(&stage, &situation, &[SLEEPING]) {
            assert_first_step(&situation, &judged, &format!("run it with {cpus} threads"));
        }
    }
}

/// libgomp spins some microseconds only when it has more threads than CPUs, also when told to wait actively.
#[test]
fn too_many_openmp_threads() {
    let Some(stage) = Stage::set("too_many_openmp_threads") else { return };
    let (threads, cpus) = (stage.cpus + 1, stage.cpus);
    let active = vec![("OMP_WAIT_POLICY", "active")];
    let lines = [
        format!("imbalance --threads {threads} --factor 1 --work-us 500 --seconds 0.6"),
        format!("triad --bytes 64M --threads {threads} --seconds 0.6"),
    ];
    for line in lines {
        let situation = Situation { environment: active.clone(), ..program(&line) };
        if let Some(judged) = expect(&stage, &situation, &[SLEEPING, SPINNING]) {
            assert_first_step(&situation, &judged, &format!("OMP_NUM_THREADS={cpus}"));
        }
    }
}

/// LLVM's runtime, in place of libgomp, does spin.
#[test]
fn too_many_openmp_threads_spinning() {
    let Some(stage) = Stage::set("too_many_openmp_threads_spinning") else { return };
    let Some(library) = ["/usr/lib/x86_64-linux-gnu/libomp.so.5", "/usr/lib/aarch64-linux-gnu/libomp.so.5"]
        .into_iter()
        .find(|library| Path::new(library).exists())
    else {
        return stage.skip(Need::Libomp, "needs libomp");
    };
    let (threads, cpus) = (stage.cpus + 1, stage.cpus);
    let environment = vec![("LD_PRELOAD", library), ("OMP_WAIT_POLICY", "active"), ("KMP_BLOCKTIME", "infinite")];
    let line = format!("imbalance --threads {threads} --factor 1 --work-us 500 --seconds 0.6");
    let situation = Situation { environment, ..program(&line) };
    if let Some(judged) = expect(&stage, &situation, &[SPINNING]) {
        assert_first_step(&situation, &judged, &format!("OMP_NUM_THREADS={cpus}"));
    }
}

#[test]
fn imbalance_however_the_others_wait() {
    let Some(stage) = Stage::set("imbalance_however_the_others_wait") else { return };
    for policy in ["active", "passive"] {
        let environment = vec![("OMP_WAIT_POLICY", policy)];
        let situation = Situation { environment, ..program("imbalance --threads 2 --factor 3 --seconds 0.6") };
        if let Some(judged) = expect(&stage, &situation, &["imbalance"]) {
            assert_first_step(&situation, &judged, "schedule(dynamic)");
        }
    }
}

/// A thread too many whose work is unequal besides: fewer threads gain nothing there. Measured with
/// three on two CPUs: 2.97 s, with two threads 3.09 s, with three and a dynamic schedule 2.66 s.
#[test]
fn imbalance_under_a_thread_too_many() {
    let Some(stage) = Stage::set("imbalance_under_a_thread_too_many") else { return };
    let situation = program(&format!("mandelbrot --threads {} --steps 5 --no-verify", stage.cpus + 1));
    if let Some(judged) = expect(&stage, &situation, &["imbalance"]) {
        assert_first_step(&situation, &judged, "schedule(dynamic)");
        assert!(!judged.steps().any(|step| step.action.contains("OMP_NUM_THREADS")), "{}", judged.summary());
    }
}

#[test]
fn a_cpu_hog_beside_us() {
    let Some(stage) = Stage::set("a_cpu_hog_beside_us") else { return };
    let cpus = stage.cpus;
    for line in [
        format!("barriers --threads {cpus} --seconds 0.6"),
        format!("triad --bytes 64M --threads {cpus} --seconds 0.6"),
    ] {
        let situation = Situation { hogs: true, ..program(&line) };
        let Some(judged) = expect(&stage, &situation, &["cpu_hog"]) else { continue };
        let main = &judged.sentences()[0];
        assert!(main.text.contains("hog") && main.next[0].action.contains("hog"), "{}", judged.summary());
        let other = |topic: &str| topic != "cpu_hog";
        let left = 1.0 - judged.used_by_others();
        let most = judged.figure("wall_ns") * left * cpus as f64 / judged.figure("work_ns").max(1.0);
        for step in judged.steps().filter(|step| other(&step.topic)) {
            assert!(step.bound.is_none_or(|bound| bound <= most * 1.01), "{step:?} takes from the hog, {most}");
        }
    }
}

#[test]
fn disk_bound() {
    on_a_slow_disk("disk_bound", "known-write --seconds 0.6", "disk_bound");
}

#[test]
fn page_faults() {
    on_a_slow_disk("page_faults", "known-fault --pages 250 --seconds 0.6", "page_faults");
}

/// Requests per second to the slow disk.
const REQUESTS: u32 = 400;

fn on_a_slow_disk(test: &str, line: &str, right: &str) {
    let Some(stage) = Stage::set(test) else { return };
    match Group::with_slow_disk(stage.folder(), REQUESTS) {
        Ok(group) => {
            let mut situation = Situation { group: Some(group), slow_disk: true, ..program(line) };
            situation.program.extend(["--dir".to_owned(), stage.folder().display().to_string()]);
            expect(&stage, &situation, &[right]);
        }
        Err(why) => stage.skip(Need::SlowDisk, &format!("needs a slow disk: {why}")),
    }
}

#[test]
fn a_lock_convoy() {
    let Some(stage) = Stage::set("a_lock_convoy") else { return };
    for threads in [2, 3, 4] {
        let situation = program(&format!("known-mutex --threads {threads} --rounds 120"));
        if let Some(judged) = expect(&stage, &situation, &["lock_convoy"]) {
            assert_first_step(&situation, &judged, "hold the lock for a shorter time");
        }
    }
}

#[test]
fn pinned_to_too_few_cpus() {
    let Some(stage) = Stage::set("pinned_to_too_few_cpus") else { return };
    let pinned = words("taskset -c 0");
    for line in ["triad --bytes 64M --threads 2 --seconds 0.6", "barriers --threads 2 --seconds 0.6"] {
        let by_itself = Situation { program: [pinned.clone(), words(line)].concat(), ..Situation::default() };
        let from_outside = Situation { outside: pinned.clone(), ..program(line) };
        for situation in [by_itself, from_outside] {
            if let Some(judged) = expect(&stage, &situation, &["pinned_too_few"]) {
                assert_first_step(&situation, &judged, "allow CPU 0-");
            }
        }
    }
}

#[test]
fn throttled_by_a_quota() {
    let Some(stage) = Stage::set("throttled_by_a_quota") else { return };
    for line in ["triad --bytes 64M --threads 2 --seconds 0.6", "barriers --threads 2 --seconds 0.6"] {
        match Group::with_quota(0.8) {
            Ok(group) => {
                let situation = Situation { group: Some(group), ..program(line) };
                if let Some(judged) = expect(&stage, &situation, &["quota_throttled"]) {
                    assert_first_step(&situation, &judged, "raise the group's");
                }
            }
            Err(why) => return stage.skip(Need::Cgroup, &format!("needs a CPU quota: {why}")),
        }
    }
}

#[test]
fn nothing_wrong() {
    let Some(stage) = Stage::set("nothing_wrong") else { return };
    let cpus = stage.cpus;
    expect(&stage, &program(&format!("hog --threads {cpus} --seconds 0.6")), &["nothing_to_gain"]);
    // With equal shares of memory traffic there is something to gain wherever CPUs are not equally fast, as
    // on a virtual machine whose neighbours use one memory channel more: the shares have to follow the speed.
    let environment = vec![("OMP_SCHEDULE", "dynamic,8192")];
    let shared = Situation { environment, ..program(&format!("triad --bytes 64M --threads {cpus} --seconds 0.6")) };
    expect(&stage, &shared, &["nothing_to_gain"]);
}

#[test]
fn sleep_is_its_own_wish() {
    let Some(stage) = Stage::set("sleep_is_its_own_wish") else { return };
    for line in ["sleep 0.5", "known-sleep --seconds 0.5"] {
        if let Some(judged) = expect(&stage, &program(line), &["sleeping"]) {
            assert_eq!(judged.steps().count(), 0, "{}", judged.summary());
        }
    }
}
