//! A small session: launches the workload, observes it, and makes clocks from the events.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::time::Timespec;
use testkit::native;
use watch::{Intake, Observer};
use wire::layout::ENROLLED_ALIVE;
use wire::{Backend, Cause, Clock, Event, EventKind, Left, Record, Sample, State};

/// Where the compiled workload is, for a copy of this test that runs as another user.
pub const WORKLOAD: &str = "COX_TEST_WORKLOAD";

/// The workload, compiled once.
pub fn workload() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let compile = || {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perf_proc/workload.c");
        let (fresh, path) = (folder.join(format!("workload.{}", std::process::id())), folder.join("workload"));
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Werror", "-pthread", source, "-o"]).arg(&fresh);
        assert!(cc.status().expect("cc is installed").success());
        // Tests may run as several processes at once.
        std::fs::rename(fresh, &path).expect("renamed");
        path
    };
    PATH.get_or_init(|| std::env::var_os(WORKLOAD).map_or_else(compile, PathBuf::from)).clone()
}

/// What a thread of the workload says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub cpu_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
}

/// An observed run.
pub struct Run {
    pub pid: u32,
    /// CPU time of its first thread before it was enrolled.
    pub before_ns: u64,
    pub record: Record,
    /// In order of birth; two of one id only if it was given twice.
    pub clocks: Vec<Clock>,
    pub samples: Vec<Sample>,
    /// Everything the events named, with whether by exec.
    pub names: Vec<(u32, String, bool)>,
    pub facts: BTreeMap<u32, Facts>,
    pub slept_ns: u64,
    /// The longest time from one tick to the next.
    pub longest_gap: Duration,
    /// Threads said to be living at the begin …
    pub living_early: Vec<(u32, u32, String)>,
    /// … and after the program had ended.
    pub living_late: Vec<(u32, u32, String)>,
}

impl Run {
    /// The only clock of a thread.
    pub fn clock(&self, tid: u32) -> &Clock {
        let mut of_tid = self.clocks.iter().filter(|clock| clock.tid == tid);
        let clock = of_tid.next().unwrap_or_else(|| panic!("thread {tid} is in {:#?}", self.tids()));
        assert!(of_tid.next().is_none(), "one clock for thread {tid}");
        clock
    }

    pub fn tids(&self) -> Vec<(u32, u32, String)> {
        self.clocks.iter().map(|clock| (clock.tgid, clock.tid, clock.comm())).collect()
    }
}

/// A workload that waits for its start.
pub struct Waiting {
    pub child: Child,
    /// CPU time that it had before it was enrolled, if it was asked for.
    pub before_ns: u64,
}

impl Waiting {
    pub fn launch(arguments: &[&str]) -> Waiting {
        Waiting::command(Command::new(workload()).args(arguments))
    }

    pub fn command(command: &mut Command) -> Waiting {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        Waiting { child, before_ns: 0 }
    }

    /// CPU time that it has had, as the kernel has counted so far.
    pub fn cpu_ns(&self) -> u64 {
        let path = format!("/proc/{}/schedstat", self.child.id());
        let text = std::fs::read_to_string(path).expect("it waits");
        text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
    }

    pub fn go(&mut self) {
        self.child.stdin.take().expect("piped").write_all(b"x").expect("it waits");
    }

    pub fn has_ended(&self) -> bool {
        let pid = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(pid), options).expect("our child").is_some()
    }

    /// What it printed, once it has ended; it is reaped.
    pub fn output(mut self) -> String {
        let mut text = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        assert!(self.child.wait().expect("our child").success(), "workload: {text}");
        text
    }
}

/// Makes an observer, with child processes or without.
pub type Make = fn(bool) -> Box<dyn Observer>;

/// Launch, enrol, and observe to the end.
///
/// What `proc` sees depends on how often it may look. On a machine so busy that it was kept from
/// looking, the run says nothing, and is repeated.
pub fn observe(make: Make, children: bool, arguments: &[&str]) -> Run {
    const OFTEN_ENOUGH: Duration = Duration::from_millis(110);
    for _ in 0..20 {
        let mut observer = make(children);
        let mut waiting = Waiting::launch(arguments);
        observer.enrol(waiting.child.id()).expect("enrolled");
        waiting.before_ns = waiting.cpu_ns();
        waiting.go();
        let run = observe_to_end(&mut *observer, waiting);
        if run.record.backend == Backend::Perf || run.longest_gap <= OFTEN_ENOUGH {
            return run;
        }
    }
    panic!("this machine is too busy to poll anything every {OFTEN_ENOUGH:?}");
}

/// Observe an enrolled program that was told to go.
pub fn observe_to_end(observer: &mut dyn Observer, waiting: Waiting) -> Run {
    let (pid, before_ns) = (waiting.child.id(), waiting.before_ns);
    let mut intake = Intake::default();
    let living_early = observer.living().expect("living");
    let (mut last_tick, mut longest_gap) = (Instant::now(), Duration::ZERO);
    loop {
        // As the session does it: what is there before a dead child is reaped is final.
        let ended = waiting.has_ended();
        observer.tick(&mut intake).expect("ticked");
        longest_gap = longest_gap.max(last_tick.elapsed());
        last_tick = Instant::now();
        if ended {
            break;
        }
        let ready = observer.readiness().expect("a descriptor");
        let limit = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&limit)).expect("polled");
    }
    let living_late = observer.living().expect("living");
    let record = observer.finish(&mut intake).expect("finished");
    let output = waiting.output();
    let mut run = Run {
        pid,
        before_ns,
        clocks: record.clocks.clone(),
        record,
        samples: intake.samples,
        names: Vec::new(),
        facts: BTreeMap::new(),
        slept_ns: 0,
        longest_gap,
        living_early,
        living_late,
    };
    reduce(&intake.events, &mut run);
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "thread" => {
                let facts = Facts { cpu_ns: number(2), voluntary: number(3), involuntary: number(4) };
                run.facts.insert(number(1) as u32, facts);
            }
            _ => run.slept_ns += number(1),
        }
    }
    for clock in &run.clocks {
        assert!(clock.is_whole(), "{clock:#?}");
        assert!(clock.since_ns <= run.record.end_ns && clock.born_ns >= run.record.start_ns);
    }
    run
}

/// Events → clocks by the kernel side's own rule.
fn reduce(events: &[Event], run: &mut Run) {
    let mut open: BTreeMap<u32, Clock> = BTreeMap::new();
    for event in events {
        let begin = |tgid: u32, parent_tgid: u32, flags: u32| Clock {
            tid: event.tid,
            tgid,
            parent_tgid,
            flags,
            ..Clock::default()
        };
        match &event.kind {
            EventKind::Born { tgid, parent_tgid } => {
                let mut clock = begin(*tgid, *parent_tgid, 0);
                native::born(&mut clock, event.t_ns);
                run.clocks.extend(open.insert(event.tid, clock));
                continue;
            }
            EventKind::Enrolled { tgid, .. } => {
                let mut clock = begin(*tgid, 0, ENROLLED_ALIVE);
                native::born(&mut clock, event.t_ns);
                clock.state = State::Unseen as u8;
                run.clocks.extend(open.insert(event.tid, clock));
                continue;
            }
            _ => {}
        }
        let clock = open.get_mut(&event.tid).expect("events of members only");
        assert!(event.t_ns >= clock.since_ns, "in order of time: {event:?} after {}", clock.since_ns);
        match &event.kind {
            EventKind::In { cpu } => native::switch_in(clock, event.t_ns, *cpu, 0, 0),
            EventKind::Out { left } => {
                let (state, cause) = match left {
                    Left::Preempted { .. } => (State::Preempt, 0),
                    Left::Blocked(cause) => (State::Blocked, cause.unwrap_or(Cause::Other) as u8),
                    Left::Dead => (State::Dead, 0),
                };
                native::switch_out(clock, event.t_ns, state as u8, cause, false, 0, 0);
            }
            EventKind::Named { comm, exec } => {
                clock.comm = [0; 16];
                clock.comm[..comm.len()].copy_from_slice(comm.as_bytes());
                run.names.push((event.tid, comm.clone(), *exec));
            }
            // Which CPU it leaves: for what contradicts that, which the ledger judges.
            EventKind::Had { .. } => {}
            other => assert_eq!(*other, EventKind::Exit),
        }
    }
    run.clocks.extend(open.into_values());
    run.clocks.sort_by_key(|clock| clock.born_ns);
}
