//! Serial parts: work that one thread does alone.

mod staged;

use advise::thresholds::TURNS_COST;
use advise::{Confidence, Kind, NextStep, Verdict};
use staged::common::{asleep, judge};
use staged::{IDLE, Life, SIBLINGS, Stage};

fn steps(verdict: &Verdict) -> Vec<&str> {
    verdict.sentences.iter().flat_map(|sentence| &sentence.next).map(|step| step.action.as_str()).collect()
}

/// Four threads on four CPUs. The first works all the time, 40 % of it in serial code; the others wait for it asleep.
fn two_fifths_serial() -> Stage {
    let waits = asleep(0.4);
    Stage::new(4, SIBLINGS, &[Life::default(), waits.clone(), waits.clone(), waits])
}

#[test]
fn serial_work_is_no_imbalance() {
    let verdict = judge(&two_fifths_serial());
    assert_eq!(verdict.headline, Kind::Imbalance, "without the functions, one thread has more work");
    let verdict = judge(&two_fifths_serial().serial(0, 0.4, "init_matrix", "cg.A"));
    assert_eq!((verdict.headline, verdict.confidence), (Kind::Serial, Confidence::High));
    let sentence = &verdict.sentences[0];
    let text = "Serial parts: 4.00 s of 10.00 s (40 %) ran in 100 app alone, mostly in init_matrix (cg.A).";
    assert!(sentence.text.starts_with(text), "{}", sentence.text);
    // Amdahl: 10 / (10 − 4 + 4 / 4) = 1.428; half of the saving of 3 s: 10 / 8.5 = 1.176.
    let step = &sentence.next[0];
    assert_eq!((step.expected_low, step.expected_high, step.bound), (Some(1.176), Some(1.428), Some(1.428)));
    assert!(!steps(&verdict).iter().any(|step| step.contains("schedule(")), "{verdict:#?}");
}

#[test]
fn threads_that_spin_or_do_not_exist_yet_make_no_difference() {
    let spins = Life { spin: 0.4, ..Life::default() };
    let stage = Stage::new(4, SIBLINGS, &[Life::default(), spins.clone(), spins.clone(), spins]);
    assert_eq!(judge(&stage.serial(0, 0.4, "init", "app")).headline, Kind::Serial);
    let mut stage = Stage::new(4, IDLE, &[Life::default(), Life::default(), Life::default(), Life::default()]);
    for thread in &mut stage.account.programs[0].processes[0].threads[1..] {
        (thread.wall_ns, thread.run_ns) = (thread.wall_ns * 6 / 10, thread.run_ns * 6 / 10);
    }
    let stage = stage.serial(0, 0.4, "init", "app");
    assert_eq!(judge(&stage).headline, Kind::Serial);
    // The threads that do not exist yet do not wait: all waiting later has another cause.
    let mut stage = stage;
    for thread in &mut stage.account.programs[0].processes[0].threads {
        let waited_ns = thread.run_ns / 4;
        (thread.run_ns, thread.blocked_ns) = (thread.run_ns - waited_ns, waited_ns);
        thread.blocked_by = [(staged::cause("futex"), waited_ns)].into_iter().collect();
    }
    let losses = judge(&stage).losses;
    let waiting = losses.iter().find(|loss| matches!(loss.kind, Kind::LockConvoy | Kind::WaitingForThreads));
    assert!(waiting.is_some_and(|loss| loss.cost_share > 0.2), "{losses:#?}");
}

#[test]
fn a_launcher_that_works_alone_is_not_the_program() {
    let mut stage = Stage::new(2, SIBLINGS, &[Life::default(), Life::default()]).serial(0, 0.0, "f", "app");
    let mut launcher = stage.account.programs[0].processes[0].clone();
    (launcher.pid, launcher.comm) = (7, "mpirun".into());
    launcher.threads.truncate(1);
    launcher.threads[0].serial_ns = staged::WALL_NS * 3 / 10;
    stage.account.programs[0].processes[0].parent_pid = 7;
    stage.account.programs[0].processes.insert(0, launcher);
    assert_ne!(judge(&stage).headline, Kind::Serial);
}

#[test]
fn what_is_unequal_beside_the_serial_part_stays_imbalance() {
    // The second thread has most of the parallel work; the first has a short serial part.
    let waits = |futex| Life { futex, wakeups_per_s: 100.0, woken_by: vec![101], ..Life::default() };
    let stage = Stage::new(2, SIBLINGS, &[waits(0.5), Life::default()]).serial(0, 0.06, "output", "app");
    let verdict = judge(&stage);
    assert_eq!(verdict.headline, Kind::Imbalance);
    assert!(verdict.sentences[0].text.starts_with("The parallel work is unequal: 101 app"), "{verdict:#?}");
}

#[test]
fn a_stolen_cpu_is_no_unequal_work() {
    // Both threads have the same work; the hypervisor took the first one's CPU for 30 % of the time, and the second one waited for it.
    let waits = asleep(0.3);
    let stage = |steal| Stage::new(2, SIBLINGS, &[Life { steal, ..Life::default() }, waits.clone()]);
    assert_eq!(judge(&stage(0.0)).headline, Kind::Imbalance);
    let verdict = judge(&stage(0.3));
    assert_eq!(verdict.headline, Kind::HypervisorSteal, "{verdict:#?}");
    assert!((verdict.losses[0].cost_share - 0.3).abs() < 0.03, "15 % stolen, and as much waited: {verdict:#?}");
}

#[test]
fn little_or_doubtful_serial_work_is_no_headline() {
    let equal = || Stage::new(2, SIBLINGS, &[Life::default(), Life::default()]);
    assert_eq!(judge(&equal().serial(0, 0.08, "f", "app")).headline, Kind::NothingToGain);
    let mut doubtful = two_fifths_serial().serial(0, 0.4, "f", "app");
    doubtful.account.programs[0].processes[0].threads[0].serial_error_ns = 1_400_000_000;
    assert_ne!(judge(&doubtful).headline, Kind::Serial);
}

#[test]
fn memory_that_goes_back_and_forth_is_kept_by_a_variable() {
    // Blocks that malloc maps one by one are not in the heap.
    let mapped = two_fifths_serial().serial(0, 0.3, "init", "app").serial(0, 0.1, "munmap", "libc.so.6");
    assert!(!steps(&judge(&mapped)).iter().any(|step| step.starts_with("MALLOC")));
    let keeps = |stage: &Stage| steps(&judge(stage)).iter().any(|step| step.starts_with("MALLOC_TOP_PAD_="));
    let mut stage = two_fifths_serial().serial(0, 0.3, "init", "app").serial(0, 0.1, "brk", "libc.so.6");
    assert!(keeps(&stage));
    stage.facts.environment.insert("MALLOC_TOP_PAD_".into(), "1000000".into());
    assert!(!keeps(&stage), "it is set already");
    assert!(!keeps(&two_fifths_serial().serial(0, 0.4, "brk", "app")), "a function of the program");
}

#[test]
fn fewer_threads_leave_the_serial_parts_as_they_are() {
    // Three threads on two CPUs. One works for 6.5 s of 10 s, 3 s of it alone while the others sleep; these work for 3.5 s each.
    let first = Life { spin: 0.1, preempted: 0.25, ..Life::default() };
    let other = Life { spin: first.spin, preempted: first.preempted, ..asleep(0.3) };
    let mut stage = Stage::new(2, SIBLINGS, &[first, other.clone(), other]).serial(0, 0.3, "output", "app");
    stage.facts.openmp_runtime = Some("libgomp.so.1.0.0".into());
    let verdict = judge(&stage);
    let mut steps = verdict.sentences.iter().flat_map(|sentence| &sentence.next);
    let high = steps
        .find(|step| step.action.contains("OMP_NUM_THREADS=2"))
        .and_then(NextStep::range)
        .unwrap_or_else(|| panic!("{verdict:#?}"))
        .1;
    let amdahl = 10.0 / (3.0 + 10.5 / 2.0);
    assert!((high / TURNS_COST - amdahl).abs() < 0.03, "{verdict:#?}");
}

#[test]
fn one_thread_beside_idle_cpus_is_told_to_use_more() {
    let one = |cpus| Stage::new(cpus, IDLE, &[Life::default()]);
    let advised = |stage: &Stage| steps(&judge(stage)).first().map(|step| (*step).to_owned());
    let options = "run it with 2 threads, if it has an option for that (such as -j, -p, -T or --threads)";
    assert_eq!(judge(&one(2)).headline, Kind::NothingToGain);
    assert_eq!(advised(&one(2)).as_deref(), Some(options));
    assert_eq!(advised(&one(1)), None, "no CPU is idle");
    let mut openmp = one(4);
    openmp.facts.openmp_runtime = Some("libgomp.so.1.0.0".into());
    assert_eq!(advised(&openmp).as_deref(), Some("OMP_NUM_THREADS=4"));
    openmp.facts.cpu_quota = Some(1.5);
    assert_eq!(advised(&openmp), None, "the quota allows one CPU");
}

#[test]
fn helpers_beside_one_thread_are_no_parallelism() {
    // A reader feeds one thread that compresses.
    let reader = asleep(0.97);
    let verdict = judge(&Stage::new(2, IDLE, &[Life::default(), reader]).serial(0, 0.98, "compress", "lbzip2"));
    assert_eq!(verdict.headline, Kind::NothingToGain, "{verdict:#?}");
    assert!(steps(&verdict)[0].starts_with("run it with 2 threads, if"), "{verdict:#?}");
}

#[test]
fn threads_that_never_get_work_are_no_parallelism() {
    // ffmpeg with one thread for x264: three more threads exist, and one of them spins while it is started.
    let idle = |spin| Life { futex: 0.99 - spin, spin, wakeups_per_s: 0.2, woken_by: vec![100], ..Life::default() };
    let stage = |spin| Stage::new(2, IDLE, &[Life::default(), idle(spin), idle(0.0)]).serial(0, 0.5, "trellis", "x264");
    let verdict = judge(&stage(0.09));
    assert_eq!(verdict.headline, Kind::NothingToGain, "{verdict:#?}");
    assert!(steps(&verdict)[0].starts_with("run it with 2 threads, if"), "{verdict:#?}");
    assert_eq!(judge(&stage(0.5)).headline, Kind::Serial, "who spins for half of its life waits for work");
}

#[test]
fn a_known_pool_is_set_by_its_variable() {
    let advised = |module: &str, function: &str| {
        let stage = Stage::new(4, IDLE, &[Life::default()]).serial(0, 0.9, function, module);
        steps(&judge(&stage)).first().map(|step| (*step).to_owned())
    };
    assert_eq!(advised("libopenblasp-r0.3.21.so", "dgemm_kernel").as_deref(), Some("OPENBLAS_NUM_THREADS=4"));
    // Most time is spent in the program's own functions.
    let mut of_go = Stage::new(4, IDLE, &[Life::default()]).serial(0, 0.9, "main.fft", "server");
    of_go = of_go.serial(0, 0.01, "runtime.mallocgc", "server");
    assert_eq!(steps(&judge(&of_go))[0], "GOMAXPROCS=4");
    assert!(advised("server", "main").is_some_and(|step| step.starts_with("run it with 4 threads, if")));
    // The main thread of Node.js, which runs the program's JavaScript, is not of the pool.
    assert!(advised("node", "sha512").is_some_and(|step| step.starts_with("run it with 4 threads, if")));
    let main = Life { blocked: vec![("poll", 0.95)], ..Life::default() };
    let of_node = Stage::new(4, IDLE, &[main, Life::default()]).serial(1, 0.7, "sha512", "node");
    assert_eq!(steps(&judge(&of_node))[0], "UV_THREADPOOL_SIZE=4");
}
