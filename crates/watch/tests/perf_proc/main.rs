//! The perf and proc backends on real programs, compared with the kernel's own figures for their threads.

mod rights;
mod session;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use watch::perf::PerfObserver;
use watch::proc::ProcObserver;
use watch::{Intake, Observer, WatchError};
use wire::layout::ENROLLED_ALIVE;
use wire::{Backend, Clock, State};

use session::{Make, Run, Waiting, observe, observe_to_end, workload};

/// Both backends.
const MAKES: [Make; 2] = [perf, proc];

fn perf(children: bool) -> Box<dyn Observer> {
    Box::new(PerfObserver::new(children, true).expect("perf works here"))
}

fn proc(children: bool) -> Box<dyn Observer> {
    Box::new(ProcObserver::new(children).expect("proc works here"))
}

fn online_cpus() -> u64 {
    std::thread::available_parallelism().expect("known").get() as u64
}

/// What every complete run must satisfy, whatever the program did.
fn check(run: &Run) {
    let backend = run.record.backend;
    assert_eq!(run.record.losses, wire::record::Losses::default(), "{backend:?}");
    for (tid, facts) in &run.facts {
        let clock = run.clock(*tid);
        assert_eq!(clock.impossible, 0, "{backend:?}: {clock:?}");
        assert_eq!(State::from_wire(clock.state), State::Dead, "{backend:?}: {clock:?}");
        let wall_ns = clock.since_ns - clock.born_ns;
        assert!(clock.run_ns <= wall_ns);
        // Run time may be missing only as unknown: to perf before the first switch of a thread that was
        // there before, to proc after its last look. perf counts what the hypervisor took as run. What the first thread
        // did on its way to the gate, before it was enrolled, is nobody's to see.
        let before_ns = if *tid == run.pid { run.before_ns } else { 0 };
        let seen_ns = clock.run_ns + clock.unknown_ns;
        let there_ns = facts.cpu_ns.saturating_sub(before_ns);
        assert!(seen_ns as f64 >= 0.95 * there_ns as f64, "{backend:?}: {facts:?} {before_ns} {clock:?}");
        if backend == Backend::Perf {
            assert!(clock.unknown_ns == 0 || clock.flags & ENROLLED_ALIVE != 0, "{clock:?}");
            exact_switches(clock, *facts);
        } else {
            assert!(clock.kernel_cpu_ns as f64 <= 1.05 * facts.cpu_ns as f64 + 5e6, "{facts:?} {clock:?}");
        }
    }
    assert!(run.living_late.is_empty(), "{backend:?}: {:?}", run.living_late);
}

/// perf must have seen each switch the kernel counted: what a thread does after it asked for its
/// counts are a few switches more, and what it did before it was enrolled is a few less.
fn exact_switches(clock: &Clock, facts: session::Facts) {
    const FEW: u64 = 5;
    let near = |seen: u64, counted: u64| seen <= counted + FEW && counted <= seen + FEW;
    assert!(near(clock.switches_voluntary, facts.voluntary), "{facts:?} {clock:?}");
    // Being preempted between the question and the exit can happen any number of times when the
    // machine is full, but not before.
    assert!(clock.switches_involuntary + FEW >= facts.involuntary, "{facts:?} {clock:?}");
}

#[test]
fn a_sleeper_is_blocked_as_long_as_it_sleeps() {
    for make in MAKES {
        let run = observe(make, true, &["sleep", "300"]);
        check(&run);
        let clock = run.clock(run.pid);
        let (asked_ns, slept_ns) = (300e6, run.slept_ns as f64);
        let blocked_ns = clock.blocked_total_ns() as f64;
        assert!(blocked_ns + clock.unknown_ns as f64 >= 0.95 * asked_ns, "{clock:?}");
        assert!(clock.unknown_ns as u128 <= 2 * run.longest_gap.as_nanos(), "the rest is known: {clock:?}");
        if run.record.backend == Backend::Perf {
            assert!(blocked_ns >= 0.95 * asked_ns && blocked_ns <= 1.05 * slept_ns, "{slept_ns} {clock:?}");
        }
        assert_eq!(clock.blocked_ns[wire::Cause::Unspecified as usize], clock.blocked_total_ns());
        assert_eq!(run.living_early, [(run.pid, run.pid, "workload".to_owned())]);
    }
}

#[test]
fn more_busy_threads_than_cpus_run_or_wait_for_a_cpu() {
    for make in MAKES {
        let threads = online_cpus() + 1;
        let run = observe(make, true, &["busy", &threads.to_string(), "400"]);
        check(&run);
        let busy: Vec<&Clock> = run.facts.keys().filter(|tid| **tid != run.pid).map(|tid| run.clock(*tid)).collect();
        assert_eq!(busy.len() as u64, threads);
        let (mut waited_ns, mut wall_ns) = (0, 0);
        for clock in busy {
            assert_eq!(
                (clock.tgid, clock.parent_tgid),
                (run.pid, if run.record.backend == Backend::Perf { run.pid } else { 0 })
            );
            assert!(clock.blocked_total_ns() < (clock.since_ns - clock.born_ns) / 10, "{clock:?}");
            assert!(clock.switches_involuntary > 0, "{clock:?}");
            waited_ns += clock.preempt_wait_ns;
            wall_ns += clock.since_ns - clock.born_ns;
        }
        // With n + 1 threads on n CPUs each waits 1/(n + 1) of its time at least.
        assert!(waited_ns > wall_ns / (2 * threads), "{waited_ns} of {wall_ns}");
        if run.record.backend == Backend::Perf {
            let cpu_ns: u64 = run.facts.values().map(|facts| facts.cpu_ns).sum();
            let sampled_ns = run.samples.len() as f64 * run.record.sample_period_ns as f64;
            assert!(sampled_ns > 0.5 * cpu_ns as f64 && sampled_ns < 1.1 * cpu_ns as f64, "{sampled_ns} {cpu_ns}");
            assert!(run.samples.iter().all(|s| s.tgid == run.pid && run.facts.contains_key(&s.tid) && s.ip != 0));
        }
    }
}

/// Without samples, no timer interrupts the threads, and their switches are as exact as with them.
#[test]
fn without_samples_perf_sees_the_same_switches() {
    let make: Make = |children| Box::new(PerfObserver::new(children, false).expect("perf works here"));
    let run = observe(make, true, &["busy", &(online_cpus() + 1).to_string(), "400"]);
    check(&run);
    assert_eq!((run.record.sample_period_ns, run.samples.len()), (0, 0));
    let run = observe(make, true, &["generations", "3"]);
    check(&run);
    assert_eq!(run.facts.len(), 4, "threads inherit the events");
}

#[test]
fn threads_of_threads_are_covered_from_their_birth() {
    for make in MAKES {
        let run = observe(make, true, &["generations", "3"]);
        check(&run);
        // The main thread is the first of four generations.
        assert_eq!(run.facts.len(), 4);
        for tid in run.facts.keys() {
            let clock = run.clock(*tid);
            assert_eq!((clock.tgid, clock.flags & ENROLLED_ALIVE != 0), (run.pid, *tid == run.pid));
            assert!(clock.run_ns > 0, "{clock:?}");
        }
    }
}

#[test]
fn child_processes_are_members_if_wanted() {
    for children in [true, false] {
        for make in MAKES {
            let run = observe(make, children, &["fork", "2"]);
            assert_eq!(run.facts.len(), 4, "the program's main thread and three of its child");
            if children {
                check(&run);
                for tid in run.facts.keys().filter(|tid| **tid != run.pid) {
                    let clock = run.clock(*tid);
                    assert_ne!(clock.tgid, run.pid);
                    let own = *tid == clock.tgid;
                    assert!(clock.parent_tgid == run.pid || (!own && clock.parent_tgid == clock.tgid), "{clock:?}");
                }
            } else {
                assert_eq!(run.tids(), [(run.pid, run.pid, "workload".to_owned())], "{:?}", run.record.backend);
            }
        }
    }
}

#[test]
fn an_exec_gives_a_new_name() {
    let program = workload();
    let mut observer = perf(true);
    let mut shell = std::process::Command::new("/bin/sh");
    let line = format!("read start; exec {} --go sleep 50", program.display());
    let mut waiting = Waiting::command(shell.args(["-c", &line]));
    observer.enrol(waiting.child.id()).expect("enrolled");
    waiting.child.stdin.take().expect("piped");
    let run = observe_to_end(&mut *observer, waiting);
    check(&run);
    assert_eq!(run.names, [(run.pid, "sh".to_owned(), false), (run.pid, "workload".to_owned(), true)]);
}

#[test]
fn an_exec_by_another_thread_is_followed_under_its_new_id() {
    let run = observe(perf, true, &["exec-by-thread"]);
    assert_eq!(run.record.losses, wire::record::Losses::default());
    let [main, thread, next] = &run.clocks[..] else { panic!("{:?}", run.tids()) };
    assert_eq!((main.tid, next.tid, thread.tgid), (run.pid, run.pid, run.pid));
    assert_ne!(thread.tid, run.pid);
    assert!(run.clocks.iter().all(|clock| clock.impossible == 0 && State::from_wire(clock.state) == State::Dead));
    assert!(thread.run_ns > 0 && thread.since_ns <= next.born_ns, "{thread:?} {next:?}");
    assert!(next.blocked_total_ns() as f64 >= 0.95 * 100e6, "it sleeps after the exec: {next:?}");
    assert!(run.living_late.is_empty());
}

#[test]
fn a_running_program_can_be_joined() {
    for make in MAKES {
        let mut observer = make(true);
        let threads = online_cpus();
        let mut waiting = Waiting::launch(&["busy", &threads.to_string(), "500"]);
        let pid = waiting.child.id();
        waiting.go();
        let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").count() as u64;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while tasks() <= threads {
            assert!(std::time::Instant::now() < deadline, "{} of {threads} threads", tasks());
            std::thread::yield_now();
        }
        observer.enrol(pid).expect("enrolled");
        let run = observe_to_end(&mut *observer, waiting);
        assert_eq!(run.facts.len() as u64, threads + 1);
        let mut run_ns = 0;
        for tid in run.facts.keys() {
            let clock = run.clock(*tid);
            assert!(clock.flags & ENROLLED_ALIVE != 0 && State::from_wire(clock.state) == State::Dead, "{clock:?}");
            run_ns += clock.run_ns;
        }
        assert!(run_ns > 0);
        assert_eq!(run.living_early.len() as u64, threads + 1);
    }
}

fn readable(observer: &dyn Observer, limit_s: i64) -> bool {
    let ready = observer.readiness().expect("a descriptor");
    let limit = Timespec { tv_sec: limit_s, tv_nsec: 0 };
    poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&limit)).expect("polled") > 0
}

#[test]
fn full_rings_are_told_and_the_dead_are_known() {
    let mut observer = PerfObserver::new(true, true).expect("perf works here");
    // A round trip is at least four records of 32 bytes; three times what the rings hold.
    let rounds = 3 * observer.ring_bytes() as u64 * online_cpus() / (4 * 32);
    let mut waiting = Waiting::launch(&["ping-pong", &rounds.to_string()]);
    observer.enrol(waiting.child.id()).expect("enrolled");
    waiting.go();
    assert!(readable(&observer, 60), "half full");
    while !waiting.has_ended() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut intake = Intake::default();
    observer.tick(&mut intake).expect("ticked");
    assert!(!readable(&observer, 0), "emptied");
    waiting.output();
    let record = observer.finish(&mut intake).expect("finished");
    assert!(record.losses.events > 0 && record.losses.spoil_accounts(), "{:?}", record.losses);
    let died = |event: &&wire::Event| event.kind == wire::EventKind::Exit;
    assert_eq!(intake.events.iter().filter(died).count(), 2, "both processes");
}

#[test]
fn whoever_is_not_there_is_refused() {
    for make in MAKES {
        let mut observer = make(true);
        let gone = Waiting::launch(&["sleep", "0"]);
        let pid = gone.child.id();
        let mut gone = gone;
        gone.go();
        gone.output();
        match observer.enrol(pid) {
            Err(WatchError::NoTarget { pid: named, .. }) => assert_eq!(named, pid),
            other => panic!("{:?}: {other:?}", observer.backend()),
        }
    }
}
