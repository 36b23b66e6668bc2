//! The `bpf` backend on real processes. Needs root (CAP_BPF, CAP_PERFMON).
// A helper of a test may fail it as the test itself may.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::skip::is_root;
use watch::{BpfObserver, Intake, Observer, Settings};
use wire::latency::LONGEST;
use wire::{Cause, Clock, Interval, Migration, Record};

fn settings() -> Settings {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last: u32 = cpus.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap();
    Settings::new(last + 1, last + 1)
}

/// A shell that waits for a line before it becomes the command.
fn gated(script: &str) -> Child {
    let script = format!("read go; {script}");
    Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Voluntary and involuntary switches of a process, from its status.
fn switches(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (field("voluntary_ctxt_switches"), field("nonvoluntary_ctxt_switches"))
}

fn observe(settings: &Settings, script: &str) -> (Record, Intake) {
    let mut child = gated(script);
    let mut observer = BpfObserver::new(settings, None).unwrap();
    observer.enrol(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut intake = Intake::default();
    while child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
        observer.tick(&mut intake).unwrap();
    }
    let record = observer.finish(&mut intake).unwrap();
    (record, intake)
}

fn named<'a>(record: &'a Record, comm: &str) -> Vec<&'a Clock> {
    record.clocks.iter().filter(|c| c.comm() == comm).collect()
}

#[test]
fn every_clock_is_whole_and_every_process_is_there() {
    if !is_root("every_clock_is_whole_and_every_process_is_there") {
        return;
    }
    let (record, _) = observe(&settings(), "for i in 1 2 3 4 5; do sleep 0.01; done; exec sleep 0.02");
    assert_eq!(named(&record, "sleep").len(), 6);
    for clock in &record.clocks {
        assert!(clock.is_whole(), "{clock:?}");
        assert_eq!((clock.impossible, clock.unknown_ns), (0, 0), "{clock:?}");
    }
    assert_eq!(record.losses, wire::Losses::default());
    assert_eq!(record.tracked.alive, 0);
}

#[test]
fn blocks_that_began_before_the_enrolment_are_not_counted() {
    if !is_root("blocks_that_began_before_the_enrolment_are_not_counted") {
        return;
    }
    // The shell waits for its line when it is enrolled.
    let (record, _) = observe(&settings(), "sleep 0.01; sleep 0.01");
    let blocks = record.latencies.iter().filter(|of| of.interval == Interval::Blocked as u16 && of.bucket != LONGEST);
    let switches: u64 = record.clocks.iter().map(|c| c.switches_voluntary).sum();
    assert_eq!(blocks.map(|of| of.count).sum::<u64>(), switches);
}

#[test]
fn switches_are_the_kernels() {
    if !is_root("switches_are_the_kernels") {
        return;
    }
    // Alternately sleeps and yields; then stays, so that the kernel's count can be read.
    let script =
        "exec python3 -c 'import os,time\nfor i in range(200): time.sleep(0.0005); os.sched_yield()\ntime.sleep(100)'";
    let mut child = gated(script);
    let mut observer = BpfObserver::new(&settings(), None).unwrap();
    observer.enrol(child.id()).unwrap();
    let before = switches(child.id());
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let (mut last, deadline) = ((0, 0), Instant::now() + Duration::from_secs(60));
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = switches(child.id());
        if now == last && now.0 > before.0 + 200 {
            break;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the program switched {before:?}, then {now:?} times: more than 200 of its own will were expected");
        }
        last = now;
    }
    let record = observer.finish(&mut Intake::default()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let clock = record.living.iter().find(|l| l.clock.tid == child.id()).unwrap().clock;
    assert_eq!((clock.switches_voluntary, clock.switches_involuntary), (last.0 - before.0, last.1 - before.1));
}

#[test]
fn migrations_by_affinity_are_told_apart() {
    if !is_root("migrations_by_affinity_are_told_apart") {
        return;
    }
    let script = "exec python3 -c 'import os\ncpus = sorted(os.sched_getaffinity(0))\nfor i in range(40): os.sched_setaffinity(0, {cpus[i % 2]})'";
    let (record, _) = observe(&settings(), script);
    let clock = record.clocks.iter().find(|c| c.comm().starts_with("python")).unwrap();
    let by_affinity = clock.migrations[Migration::ByAffinity as usize];
    assert!((38..=41).contains(&by_affinity), "{:?}", clock.migrations);
    let on: u64 = clock.cpu_run_ns.iter().sum::<u64>() + clock.elsewhere_run_ns;
    assert_eq!(on, clock.run_ns);
}

#[test]
fn waiting_is_charged_to_who_ran_and_adds_up() {
    if !is_root("waiting_is_charged_to_who_ran_and_adds_up") {
        return;
    }
    // Three burners on one CPU wait for one another.
    let burner = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let (record, _) = observe(&settings(), &format!("taskset -pc 0 $$; ({burner})& ({burner})& {burner}; wait"));
    let waited: u64 = record.clocks.iter().map(|c| c.wake_delay_ns + c.preempt_wait_ns).sum();
    let siblings: u64 = record.clocks.iter().map(|c| c.took_ns).sum();
    let strangers: u64 = record.preemptors.iter().map(|(_, t)| t.wait_ns).sum();
    let idle: u64 = record.cpus.iter().map(|c| c.took_idle_ns).sum();
    let charged = siblings + strangers + idle;
    // What is not charged: a newborn's first moments, before it is put into a queue.
    assert!(waited.abs_diff(charged) * 100 <= waited, "waited {waited}, charged {charged}");
    // However much others run beside this test, the burners also wait for one another.
    let preemptors = record.clocks.iter().filter(|c| c.run_ns > 50_000_000 && c.took_ns > 1_000_000).count();
    assert_eq!(preemptors, 3, "siblings took {siblings} of {waited}");
}

#[test]
fn a_full_ring_loses_names_but_no_time() {
    if !is_root("a_full_ring_loses_names_but_no_time") {
        return;
    }
    // Room for seven final clocks, and nobody looks before the end.
    let settings = Settings { exited_bytes: 4096, ..settings() };
    let mut child = gated("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do /bin/true; done");
    let mut observer = BpfObserver::new(&settings, None).unwrap();
    observer.enrol(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    child.wait().unwrap();
    let record = observer.finish(&mut Intake::default()).unwrap();
    assert_eq!(record.clocks.len() as u64 + record.losses.finals, 16);
    assert!(record.losses.finals > 0);
    let lost = &record.unlisted;
    let states = lost.run_ns + lost.wake_delay_ns + lost.preempt_wait_ns + lost.unknown_ns + lost.blocked_total_ns();
    assert!(lost.run_ns > 0);
    assert_eq!(states, lost.since_ns, "the sum of the unlisted is as whole as each of them");
}

#[test]
fn children_can_be_left_out() {
    if !is_root("children_can_be_left_out") {
        return;
    }
    let (record, _) = observe(&Settings { children: false, ..settings() }, "sleep 0.01; sleep 0.01; :");
    assert_eq!(record.clocks.len(), 1);
}

#[test]
fn busy_members_are_sampled_by_their_run_time() {
    if !is_root("busy_members_are_sampled_by_their_run_time") {
        return;
    }
    let (record, intake) = observe(&settings(), "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done");
    let run_ns: u64 = record.clocks.iter().map(|c| c.run_ns - c.steal_ns).sum();
    let expected = run_ns as f64 / record.sample_period_ns as f64;
    let got = intake.samples.len() as f64;
    assert!((got / expected - 1.0).abs() < 0.15, "{got} samples, {expected} expected");
    assert!(intake.samples.iter().all(|s| s.ip != 0 && s.tid != 0));
}

/// What kernels before 6.2 get.
#[test]
fn registers_can_be_asked_of_the_helper() {
    if !is_root("registers_can_be_asked_of_the_helper") {
        return;
    }
    let settings = Settings { casts: false, ..settings() };
    // The reader begins before the writer has written, so it blocks.
    let (record, _) = observe(&settings, "{ sleep 0.02; head -c 3000000 /dev/zero; } | cat >/dev/null");
    let blocked = |name: &str, cause: Cause| named(&record, name)[0].blocked_ns[cause as usize];
    assert!(blocked("sleep", Cause::Sleep) > 15_000_000);
    assert!(blocked("cat", Cause::Pipe) > 0);
}

#[test]
fn samples_keep_no_step() {
    if !is_root("samples_keep_no_step") {
        return;
    }
    // A program that does something every 5 ms must not meet each sample at the same place.
    let (record, intake) = observe(
        &settings(),
        "taskset -pc 0 $$ >/dev/null || exit 1; i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done",
    );
    let mut gaps: Vec<u64> = intake.samples.windows(2).map(|pair| pair[1].t_ns.saturating_sub(pair[0].t_ns)).collect();
    // Longer gaps are two periods: a stranger ran when the sample between was due.
    gaps.retain(|gap| *gap < record.sample_period_ns * 3 / 2);
    gaps.sort_unstable();
    let (early, late) = (gaps[gaps.len() / 10], gaps[gaps.len() * 9 / 10]);
    assert!((late - early) * 5 > record.sample_period_ns, "gaps {early} to {late}");
}

#[test]
fn who_woke_whom_is_counted() {
    if !is_root("who_woke_whom_is_counted") {
        return;
    }
    let (record, _) =
        observe(&settings(), "(for i in 1 2 3 4 5 6 7 8; do echo x; sleep 0.01; done) | while read x; do :; done");
    // The reader is woken by the writing subshell, once a line; by tid over pairs and open runs.
    let mut woken: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (pair, sum) in &record.pairs {
        *woken.entry((pair.waker, pair.wakee)).or_default() += sum.count;
    }
    for clock in &record.clocks {
        *woken.entry((clock.waker_tid, clock.tid)).or_default() += u64::from(clock.waker_count);
    }
    let members: Vec<u32> = record.clocks.iter().map(|c| c.tid).collect();
    let most = woken.iter().filter(|((waker, _), _)| members.contains(waker)).map(|(_, n)| *n).max().unwrap_or(0);
    assert!(most >= 7, "{woken:?}");
}

#[test]
fn a_first_short_read_of_descriptor_0_is_a_pipe() {
    if !is_root("a_first_short_read_of_descriptor_0_is_a_pipe") {
        return;
    }
    // cat blocks on its standard input for some microseconds at a time, from its first read on. Where head, once it is woken, always comes before
    // cat, the pipe is never empty and cat never blocks: not so again and again.
    let has_blocked = (0..10).any(|_| {
        let (record, _) = observe(&settings(), "taskset -pc 0 $$; head -c 3000000 /dev/zero | cat");
        let cat = named(&record, "cat")[0];
        assert_eq!(cat.blocked_ns[Cause::Futex as usize], 0, "{:?}", cat.blocked_ns);
        cat.blocked_ns[Cause::Pipe as usize] > 0
    });
    assert!(has_blocked);
}
