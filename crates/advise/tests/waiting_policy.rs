//! Advice on the waiting policy holds only for spinning in the runtime's own code; ranks and launchers get advice of their own.

mod staged;

use advise::{Kind, NextStep, Verdict};
use ledger::{HotFunction, Process, Thread};
use wire::Cause;

use staged::common::judge;
use staged::{IDLE, Life, SIBLINGS, Stage, WALL_NS};

/// Three threads on two CPUs that work for 60 % of the time on a CPU, and spin for the rest.
fn spinning() -> Stage {
    let run = 2.0 / 3.0;
    let mut stage = Stage::alike(2, SIBLINGS, 3, &Life { spin: run * 0.4, preempted: 1.0 - run, ..Life::default() });
    stage.facts.openmp_runtime = Some("libgomp.so.1".into());
    stage
}

/// The program spins in LLVM's runtime.
fn spinning_in_llvms(mut stage: Stage) -> Stage {
    stage.facts.openmp_runtime = Some("libomp.so.5".into());
    stage.account.hot_functions.push(HotFunction {
        module: "libomp.so.5".into(),
        function: Some("__kmp_flag_64<>::wait".into()),
        run_ns: 1_000_000_000,
        serial_ns: 0,
        samples: 1000,
        waiting: Some("OpenMP runtime".into()),
    });
    stage
}

fn steps(verdict: &Verdict) -> Vec<&NextStep> {
    verdict.sentences.iter().flat_map(|sentence| &sentence.next).collect()
}

fn actions(verdict: &Verdict) -> Vec<&str> {
    steps(verdict).into_iter().map(|step| step.action.as_str()).collect()
}

#[test]
fn a_runtime_that_is_mapped_is_not_a_runtime_that_waits() {
    let in_runtime = judge(&in_two_processes(spinning()).spinning_in("OpenMP runtime"));
    assert!(actions(&in_runtime).contains(&"OMP_WAIT_POLICY=passive"), "{in_runtime:#?}");
    // As NPB LU does: it spins in a function of its own.
    let in_program = judge(&in_two_processes(spinning()).spinning_in("tight loop"));
    assert_eq!(in_program.headline, Kind::TooManyThreadsSpinning);
    assert!(!actions(&in_program).contains(&"OMP_WAIT_POLICY=passive"), "{in_program:#?}");
}

/// Moves the last thread to a process of its own, so that no process has more threads than CPUs.
fn in_two_processes(mut stage: Stage) -> Stage {
    let processes = &mut stage.account.programs[0].processes;
    let last = processes[0].threads.pop().expect("a thread");
    let other = Process { pid: last.tid, parent_pid: 1, comm: "app".into(), threads: vec![last], ..Process::default() };
    processes.push(other);
    stage
}

#[test]
fn a_library_may_have_mapped_the_runtime() {
    // The threads are the program's own, and sleep in turns; nothing of them is OpenMP.
    let with = |function: &str, module: &str| {
        let mut stage = spinning_in_program(function, module);
        stage.facts.openmp_runtime = Some("libgomp.so.1.0.0".into());
        judge(&stage)
    };
    let of_threads = with("x264_slicetype_decide", "libx264.so.164");
    let doubtful = "run it with 2 threads (OMP_NUM_THREADS=2, if they are OpenMP's)";
    assert!(actions(&of_threads).contains(&doubtful), "{of_threads:#?}");
    for (function, module) in [("main._omp_fn.0", "app"), (".omp_outlined..3", "app"), ("unknown", "libgomp.so.1.0.0")]
    {
        let of_openmp = with(function, module);
        assert!(actions(&of_openmp).contains(&"OMP_NUM_THREADS=2"), "{of_openmp:#?}");
    }
}

fn spinning_in_program(function: &str, module: &str) -> Stage {
    let mut stage = spinning();
    stage.account.hot_functions = vec![HotFunction {
        module: module.into(),
        function: Some(function.into()),
        run_ns: 1,
        samples: 1,
        ..HotFunction::default()
    }];
    stage
}

#[test]
fn a_runtime_with_too_many_threads_spins_only_briefly() {
    let passive = |stage: Stage| {
        let verdict = judge(&stage.spinning_in("OpenMP runtime"));
        steps(&verdict).into_iter().find(|step| step.action.contains("passive")).cloned()
    };
    assert_eq!(passive(spinning()), None);
    assert!(passive(in_two_processes(spinning())).is_some_and(|step| step.expected_high.is_some()));
}

#[test]
fn spinning_that_goes_on_limits_what_a_policy_gives() {
    let bound = |verdict: &Verdict| {
        let steps = steps(verdict);
        let passive = steps.into_iter().find(|step| step.action.contains("passive"));
        passive.and_then(|step| step.expected_high).expect("a range")
    };
    let spinning = || in_two_processes(spinning());
    let all = bound(&judge(&spinning().spinning_in("OpenMP runtime")));
    let half = bound(&judge(&spinning().spinning_in("OpenMP runtime").spinning_in("tight loop")));
    // Work is 0.6 of the two CPUs' time, and a half of the rest is spun elsewhere: 1 / 0.6 and 1 / 0.8.
    // A policy reaches 0.95 of that, and the work can shrink by a factor of 1.15. Half a 90 % interval of the spinning is 1.3 % of the work.
    assert_eq!((all, half), (1.843, 1.382));
    let yields = bound(&judge(&spinning().spinning_in("OpenMP runtime").spinning_in("sched_yield")));
    assert_eq!(yields, all, "the runtime yields");
}

#[test]
fn llvms_runtime_is_not_told_to_sleep() {
    let mut stage = spinning_in_llvms(spinning());
    let verdict = judge(&stage);
    assert!(!actions(&verdict).contains(&"OMP_WAIT_POLICY=passive"), "{verdict:#?}");
    assert!(actions(&verdict).contains(&"OMP_NUM_THREADS=2"), "{verdict:#?}");
    // A library has mapped GCC's runtime, too, and it was found first.
    stage.facts.openmp_runtime = Some("libgomp.so.1".into());
    assert!(!actions(&judge(&stage)).contains(&"OMP_WAIT_POLICY=passive"), "{verdict:#?}");
    // A static one has no file of its own.
    stage.facts.openmp_runtime = None;
    stage.account.hot_functions[0].module = "lulesh".into();
    assert!(!actions(&judge(&stage)).contains(&"OMP_WAIT_POLICY=passive"), "{verdict:#?}");
}

#[test]
fn who_sleeps_at_a_high_cost_is_told_to_spin_again() {
    let life = Life { futex: 0.33, preempted: 0.12, wake_delay: 0.15, wakeups_per_s: 1000.0, ..Life::default() };
    let mut stage = Stage::alike(2, SIBLINGS, 3, &life);
    stage.facts.openmp_runtime = Some("libomp.so.5".into());
    stage.facts.environment.insert("KMP_BLOCKTIME".into(), "0".into());
    let unset = "unset KMP_BLOCKTIME, so that threads spin before they sleep";
    let queues = judge(&stage);
    assert_eq!(queues.headline, Kind::TooManyThreadsSleeping);
    assert!(!actions(&queues).contains(&unset), "a spinning thread would queue as well: {queues:#?}");
    for thread in stage.threads_mut() {
        thread.kernel_sync_ns = staged::WALL_NS / 10;
    }
    let verdict = judge(&stage);
    assert_eq!(verdict.headline, Kind::TooManyThreadsSleeping);
    assert!(actions(&verdict).contains(&unset), "{verdict:#?}");
    stage.facts.openmp_runtime = Some("libgomp.so.1".into());
    assert!(!actions(&judge(&stage)).contains(&unset), "GCC's runtime does not read this variable");
    stage.facts.environment = [("GOMP_SPINCOUNT".to_owned(), "0".to_owned())].into();
    let unset = "unset GOMP_SPINCOUNT, so that threads spin before they sleep";
    assert!(!actions(&judge(&stage)).contains(&unset), "GCC's runtime would spin without yielding");
    stage.facts.openmp_runtime = Some("libomp.so.5".into());
    assert!(!actions(&judge(&stage)).contains(&unset), "LLVM's runtime does not read this variable");
}

/// Turns the threads of a stage into ranks that `mpirun` has started under `timeout`; these two have a thread each.
fn as_ranks(mut stage: Stage) -> Stage {
    // Open MPI's launcher polls while it waits: 3 % of a CPU, which the ranks do not get.
    let polls_ns = staged::WALL_NS * 3 / 100;
    let threads: Vec<Thread> = stage.threads_mut().map(|thread| thread.clone()).collect();
    let ranks = threads.len() as u64;
    let launcher = |pid, parent_pid, comm: &str, run_ns| {
        let (wall_ns, blocked_ns) = (staged::WALL_NS, staged::WALL_NS - run_ns);
        let blocked_by = [(Cause::Poll, blocked_ns)].into_iter().collect();
        let thread =
            Thread { tid: pid, comm: comm.into(), wall_ns, run_ns, blocked_ns, blocked_by, ..Thread::default() };
        Process { pid, parent_pid, comm: comm.into(), threads: vec![thread], ..Process::default() }
    };
    let rank = |thread: Thread| {
        let (run_ns, preempt_wait_ns) = (
            thread.run_ns * 19 / 20 - polls_ns / ranks,
            thread.preempt_wait_ns + polls_ns / ranks + thread.run_ns / 20,
        );
        let thread = Thread { run_ns, preempt_wait_ns, ..thread };
        // MPICH's progress thread.
        let progress = Thread { tid: 1000 + thread.tid, comm: "async".into(), run_ns: run_ns / 20, ..thread.clone() };
        let threads = vec![thread, Thread { spin_ns: 0, preempt_wait_ns: 0, wall_ns: progress.run_ns, ..progress }];
        Process { pid: threads[0].tid, parent_pid: 11, comm: "app".into(), threads, ..Process::default() }
    };
    let launchers = [launcher(10, 1, "timeout", 0), launcher(11, 10, "mpirun", polls_ns)];
    stage.account.programs[0].processes = launchers.into_iter().chain(threads.into_iter().map(rank)).collect();
    stage
}

#[test]
fn ranks_get_their_launchers_option_and_launchers_are_no_workers() {
    let verdict = judge(&as_ranks(spinning().spinning_in("MPI progress")));
    assert_eq!(verdict.headline, Kind::TooManyThreadsSpinning);
    assert!(verdict.sentences[0].text.starts_with("3 ranks share 2 CPUs"), "{verdict:#?}");
    assert_eq!(actions(&verdict), ["run it with 2 ranks on this machine (mpirun -n 2)"]);
}

#[test]
fn sleeping_threads_of_ranks_are_no_helpers() {
    let mut stage = as_ranks(spinning().spinning_in("MPI progress"));
    for thread in stage.threads_mut().filter(|thread| thread.comm == "async") {
        // An OpenMP thread that sleeps at the barrier while its master works alone.
        let futex_ns = staged::WALL_NS - thread.run_ns;
        (thread.wall_ns, thread.blocked_ns) = (staged::WALL_NS, futex_ns);
        thread.blocked_by = [(Cause::Futex, futex_ns)].into_iter().collect();
    }
    let verdict = judge(&stage);
    assert!(!actions(&verdict).iter().any(|action| action.contains("ranks")), "{verdict:#?}");
}

#[test]
fn ranks_with_unequal_work_get_no_loop_schedule() {
    let lives = [0.1, 0.8].map(|spin| Life { spin, ..Life::default() });
    let mut stage = as_ranks(Stage::new(2, SIBLINGS, &lives).spinning_in("MPI progress"));
    // A library that the ranks use has mapped it.
    stage.facts.openmp_runtime = Some("libgomp.so.1".into());
    let verdict = judge(&stage);
    assert_eq!(verdict.headline, Kind::Imbalance);
    assert_eq!(actions(&verdict)[0], "give part of the work of process 100 to the other ranks");
    assert!(verdict.sentences[0].text.contains("the 2 ranks spent"), "{verdict:#?}");
}

/// Two threads of one rank, both bound to CPU 0, that wait for each other; `mpirun` polls on CPU 1 for 3 % of the time.
fn bound(life: &Life) -> Stage {
    let polls_ns = staged::WALL_NS * 3 / 100;
    let mut stage = Stage::alike(1, SIBLINGS, 2, life).on_machine_of(2);
    stage.facts.allowed_cpus = vec![0, 1];
    for thread in stage.threads_mut() {
        thread.cpus = [(Some(0), thread.run_ns)].into_iter().collect();
    }
    let (wall_ns, blocked_ns) = (staged::WALL_NS, staged::WALL_NS - polls_ns);
    let blocked_by = [(Cause::Poll, blocked_ns)].into_iter().collect();
    let cpus = [(Some(1), polls_ns)].into_iter().collect();
    let thread = Thread { tid: 11, wall_ns, run_ns: polls_ns, blocked_ns, blocked_by, cpus, ..Thread::default() };
    let mpirun = Process { pid: 11, comm: "mpirun".into(), threads: vec![thread], ..Process::default() };
    stage.account.programs[0].processes[0].parent_pid = 11;
    stage.account.programs[0].processes.push(mpirun);
    (stage.account.cpus[1].busy_program_ns, stage.account.cpus[1].idle_ns) = (polls_ns, blocked_ns);
    stage
}

#[test]
fn a_rank_bound_to_one_cpu_is_found_although_its_launcher_uses_another() {
    let verdict = judge(&bound(&Life { preempted: 0.5, ..Life::default() }));
    assert_eq!(verdict.headline, Kind::PinnedTooFew, "{verdict:#?}");
    assert!(verdict.sentences[0].text.starts_with("2 threads shared CPU 0 while CPU 1 stood idle"), "{verdict:#?}");
    assert_eq!(actions(&verdict), ["mpirun --bind-to none, or a binding that includes CPU 0-1"]);
    // The launcher's 3 % are work, too.
    assert_eq!((steps(&verdict)[0].expected_high, steps(&verdict)[0].bound), (Some(2.232), None), "1.941 × 1.15");
}

#[test]
fn a_mask_from_outside_is_not_the_launchers() {
    let mut stage = bound(&Life { preempted: 0.5, ..Life::default() });
    stage.facts.allowed_cpus = vec![0];
    let verdict = judge(&stage);
    assert_eq!(verdict.headline, Kind::PinnedTooFew, "{verdict:#?}");
    assert!(actions(&verdict)[0].starts_with("allow CPU 0-1"), "taskset around mpirun: {verdict:#?}");
    let mut stage = bound(&Life { preempted: 0.5, ..Life::default() });
    stage.facts.openmp_runtime = Some("libgomp.so.1".into());
    stage.facts.environment.insert("OMP_PLACES".into(), "{0}".into());
    let verdict = judge(&stage);
    assert!(actions(&verdict)[0].starts_with("unset OMP_PLACES"), "{verdict:#?}");
}

#[test]
fn a_cpu_that_another_thread_of_the_program_keeps_busy_is_not_free() {
    let mut stage = bound(&Life { preempted: 0.5, ..Life::default() });
    let busy_ns = staged::WALL_NS * 9 / 10;
    (stage.account.cpus[1].busy_program_ns, stage.account.cpus[1].idle_ns) = (busy_ns, staged::WALL_NS - busy_ns);
    assert_ne!(judge(&stage).headline, Kind::PinnedTooFew);
    let mut stage = bound(&Life { preempted: 0.5, ..Life::default() });
    let partly = stage.threads_mut().next().expect("a thread");
    partly.cpus = Default::default();
    // By what the whole program ran there, CPU 1 is used.
    assert_ne!(judge(&stage).headline, Kind::PinnedTooFew, "it is not known where that thread ran");
}

#[test]
fn unbound_threads_do_not_spin_for_one_another() {
    let verdict = judge(&bound(&Life { spin: 0.49, preempted: 0.5, ..Life::default() }));
    assert_eq!(verdict.headline, Kind::PinnedTooFew, "{verdict:#?}");
    // Each thread works for 1 % of the time, and the launcher for 3 %: 5 % on two CPUs.
    // A range up to that would say little.
    assert_eq!(steps(&verdict)[0].expected_high, None);
    assert_eq!(actions(&verdict).len(), 1, "no second step that contradicts the first: {verdict:#?}");
}

/// Clustal Omega with three threads on two CPUs: a CPU is idle most of the time, so that no thread queues. With two threads, it ran 3.1 times faster.
#[test]
fn threads_that_sleep_because_they_are_too_many_are_found_without_a_queue() {
    let life =
        Life { futex: 0.4, wake_delay: 0.3, wakeups_per_s: 10_000.0, woken_by: vec![100, 101, 102], ..Life::default() };
    let stage = |count, runtime: &str| {
        let mut stage = Stage::alike(2, IDLE, count, &life);
        stage.threads_mut().for_each(|thread| thread.kernel_sync_ns = WALL_NS * 15 / 100);
        stage.facts.openmp_runtime = Some(runtime.to_owned());
        stage
    };
    let verdict = judge(&stage(3, "libgomp.so.1"));
    assert_eq!((verdict.headline, &actions(&verdict)[..]), (Kind::TooManyThreadsSleeping, &["OMP_NUM_THREADS=2"][..]));
    let told = &verdict.sentences[0].text;
    assert!(told.contains("waking up on idle CPUs cost 30 % of thread time") && told.contains("15 %"), "{told}");
    let mut passive = stage(3, "libgomp.so.1");
    passive.facts.environment.insert("OMP_WAIT_POLICY".to_owned(), "passive".to_owned());
    let mut pool = stage(3, "libgomp.so.1");
    pool.account.hot_functions = vec![HotFunction {
        module: "libx264.so.164".into(),
        function: Some("x264_worker".into()),
        run_ns: 1,
        samples: 1,
        ..HotFunction::default()
    }];
    assert_ne!(judge(&pool).headline, Kind::TooManyThreadsSleeping, "libgomp is mapped, but the threads are others");
    for other in
        [stage(2, "libgomp.so.1"), stage(3, "libomp.so.5"), passive, stage(3, "libgomp.so.1").throttled(1.5, 0.2)]
    {
        assert_ne!(judge(&other).headline, Kind::TooManyThreadsSleeping, "{:?}", other.facts);
    }
}
