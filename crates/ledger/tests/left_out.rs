//! Recordings with missing or damaged events: the replay books nothing that is impossible.
//!
//! The test generates a schedule, whose true times are known. It omits some of the switches, as perf does when its buffers overflow, and replays the
//! rest.
//!
//! 1. Whatever is missing: on each CPU, run time is at most the window.
//! 2. If the remaining switches contradict one another, the stints in question are unknown. Let K1 be the last switch of a CPU before some omitted
//!    ones, and K2 the first after them. If the thread that K2 switches out is not the one that K1 switched in, the stint that K1 began and the stint
//!    that K2 ended have lost one end each: both are unknown, and *unknown* is at least their true length. If it is the same thread, or the CPU was
//!    idle, the omitted switches cannot be detected.
//! 3. Whatever is changed at random (times, CPUs, ids, order): 1 holds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use ledger::replay::Replay;
use ledger::trace_events;
use testkit::Random;
use testkit::trace_events::{change, some};
use wire::{CPU_SLOTS, Clock, Left, TraceEvent, What};

/// Recordings of each kind that are played.
fn times() -> u64 {
    let told = std::env::var("COX_FUZZ_TIMES").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(100_000)
}

const CPUS: u16 = 3;
const THREADS: u32 = 5;
const STEPS: u64 = 24;

/// A switch of the schedule: who leaves, and who comes (0: nobody).
#[derive(Clone, Copy)]
struct Switch {
    t_ns: u64,
    cpu: u16,
    out: u32,
    into: u32,
}

impl Switch {
    fn trace_event(&self) -> TraceEvent {
        let (out_is_member, in_is_member) = (self.out != 0, self.into != 0);
        let left = Left::Blocked(None);
        let what = What::Switch { out: self.out, left, out_is_member, into: self.into, in_is_member, in_cause: None };
        TraceEvent::new(self.t_ns, self.cpu, what)
    }
}

/// Threads that come to CPUs and leave them: each CPU has one at a time, each thread has one CPU at a time.
fn schedule(random: &mut Random) -> Vec<Switch> {
    let mut on = [0u32; CPUS as usize];
    let mut switches = Vec::new();
    let mut t_ns = 1_000;
    for _ in 0..STEPS {
        t_ns += 1 + random.below(500) as u64;
        let cpu = random.below(on.len());
        let free: Vec<u32> = (0..=THREADS).filter(|tid| *tid == 0 || !on.contains(tid)).collect();
        let into = free[random.below(free.len())];
        if into != on[cpu] {
            switches.push(Switch { t_ns, cpu: cpu as u16, out: on[cpu], into });
            on[cpu] = into;
        }
    }
    switches
}

fn play(recording: &[TraceEvent]) -> Vec<Clock> {
    let mut replay = Replay::new();
    for trace_event in recording {
        trace_events::events(trace_event, |event| replay.push(event));
    }
    let end_ns = recording.iter().map(|trace_event| trace_event.t_ns).max().unwrap_or(0);
    replay.finish(end_ns)
}

/// Fails when threads ran longer on a CPU than there was time, or anywhere that is not known.
fn assert_possible(clocks: &[Clock], window_ns: u64, seed: u64) {
    let mut on = std::collections::BTreeMap::new();
    for clock in clocks {
        assert!(clock.is_whole(), "{seed}: {clock:?}");
        for (id, run_ns) in clock.cpu_id.iter().zip(clock.cpu_run_ns) {
            *on.entry(*id).or_insert(0u64) += run_ns;
        }
    }
    for (id, run_ns) in on {
        assert!(run_ns <= window_ns, "{seed}: {run_ns} ns on CPU {} in {window_ns} ns: {clocks:#?}", id - 1);
    }
}

/// The true length of stints of which what is left tells one end, and something else for the other.
fn left_out_ns(all: &[Switch], kept: &[bool]) -> u64 {
    let mut sum_ns = 0;
    for cpu in 0..CPUS {
        let here: Vec<usize> = (0..all.len()).filter(|at| all[*at].cpu == cpu).collect();
        for (from, k1) in here.iter().enumerate().filter(|(_, at)| kept[**at]) {
            let Some(to) = (from + 1..here.len()).find(|next| kept[here[*next]]) else { continue };
            let (k1, k2) = (all[*k1], all[here[to]]);
            if to == from + 1 || k1.into == k2.out {
                continue;
            }
            // The stint that K1 began ended with the next switch, the one that K2 ended began with the one before.
            let (ended, began) = (all[here[from + 1]], all[here[to - 1]]);
            sum_ns += if k1.into != 0 { ended.t_ns - k1.t_ns } else { 0 };
            // A thread of which nothing was told before is not known to have been there.
            let is_known =
                all[..here[to - 1]].iter().zip(kept).any(|(s, kept)| *kept && [s.out, s.into].contains(&k2.out));
            sum_ns += if k2.out != 0 && is_known { k2.t_ns - began.t_ns } else { 0 };
        }
    }
    sum_ns
}

#[test]
fn what_was_left_out_is_unknown() {
    let (mut missing, mut contradicted) = (0, 0);
    for seed in 0..times() {
        let random = &mut Random::new(seed);
        let all = schedule(random);
        let one_in = 2 + random.below(12);
        let kept: Vec<bool> = all.iter().map(|_| !random.one_in(one_in)).collect();
        let recording: Vec<TraceEvent> =
            all.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(switch, _)| switch.trace_event()).collect();
        if recording.is_empty() {
            continue;
        }
        let clocks = play(&recording);
        let window_ns = recording.last().unwrap().t_ns - recording[0].t_ns;
        assert_possible(&clocks, window_ns, seed);
        let left_out_ns = left_out_ns(&all, &kept);
        let unknown_ns: u64 = clocks.iter().map(|clock| clock.unknown_ns).sum();
        assert!(unknown_ns >= left_out_ns, "{seed}: {unknown_ns} ns unknown, {left_out_ns} ns left out: {clocks:#?}");
        let contradictions: u32 = clocks.iter().map(|clock| clock.impossible).sum();
        assert!(left_out_ns == 0 || contradictions > 0, "{seed}: not counted");
        // Nothing is unknown where nothing is missing, but before a thread's first event.
        if kept.iter().all(|kept| *kept) {
            assert_eq!(contradictions, 0, "{seed}");
            let run_ns: u64 = clocks.iter().map(|clock| clock.run_ns).sum();
            assert_eq!(run_ns, true_run_ns(&all), "{seed}");
        }
        missing += u64::from(left_out_ns > 0);
        contradicted += u64::from(contradictions);
    }
    // Else the test would look at nothing.
    assert!(missing > times() / 4 && contradicted > times() / 4, "{missing} {contradicted}");
}

/// What threads ran, up to the last switch.
fn true_run_ns(all: &[Switch]) -> u64 {
    let end_ns = all.last().unwrap().t_ns;
    let mut sum_ns = 0;
    for (at, switch) in all.iter().enumerate().filter(|(_, switch)| switch.into != 0) {
        let next = all[at + 1..].iter().find(|next| next.cpu == switch.cpu);
        sum_ns += next.map_or(end_ns, |next| next.t_ns) - switch.t_ns;
    }
    sum_ns
}

#[test]
fn no_damage_makes_more_time_than_there_was() {
    for seed in 0..times() {
        let random = &mut Random::new(seed);
        let mut recording: Vec<TraceEvent> =
            if random.one_in(2) { some(20, 40) } else { schedule(random).iter().map(Switch::trace_event).collect() };
        change(&mut recording, random);
        // As readers do: times beyond any clock are refused, and the window is what is told of.
        recording.retain(|trace_event| trace_event.t_ns <= wire::LATEST_NS);
        let Some(first_ns) = recording.iter().map(|trace_event| trace_event.t_ns).min() else { continue };
        let last_ns = recording.iter().map(|trace_event| trace_event.t_ns).max().unwrap();
        assert_possible(&play(&recording), last_ns - first_ns, seed);
    }
}

/// Slots are where the sums above come from: a thread on more CPUs would have some of its time elsewhere.
const _: () = assert!(CPUS as usize <= CPU_SLOTS);
