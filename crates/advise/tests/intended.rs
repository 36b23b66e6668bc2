//! Programs that lose nothing: they work, or they wait because they are meant to.

mod staged;

use advise::Kind;
use ledger::Process;
use staged::common::{expect, judge, text};
use staged::{Life, SIBLINGS, Stage, WALL_NS};

#[test]
fn nothing_wrong() {
    for (threads, cpus) in [(1, 1), (2, 2), (8, 8), (64, 64)] {
        let life = Life { preempted: 0.01, wake_delay: 0.005, futex: 0.01, spin: 0.01, ..Life::default() };
        let verdict = expect(&Stage::alike(cpus, SIBLINGS, threads, &life), Kind::NothingToGain);
        assert!(verdict.sentences[0].text.starts_with("Nothing to gain"));
        assert!(verdict.sentences.iter().all(|sentence| sentence.next.is_empty()), "{}", text(&verdict));
    }
}

#[test]
fn a_parallel_make_that_keeps_its_cpus_busy_has_nothing_to_gain() {
    let job = Life { preempted: 0.5, blocked: vec![("disk", 0.01)], ..Life::default() };
    let make = Life { blocked: vec![("child_wait", 0.999)], ..Life::default() };
    let verdict =
        expect(&Stage::new(2, SIBLINGS, &[make, job.clone(), job.clone(), job.clone(), job]), Kind::NothingToGain);
    assert!(verdict.sentences[1].text.contains("only more CPUs"), "{}", text(&verdict));
}

#[test]
fn joining_two_busy_workers_is_nothing_wrong() {
    let main = Life { futex: 0.999, wakeups_per_s: 0.2, ..Life::default() };
    let busy = Life { preempted: 0.001, ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[main, busy.clone(), busy]), Kind::NothingToGain);
}

#[test]
fn sleeping_waiting_and_child_wait_are_named_not_blamed() {
    for (cause, kind) in [("sleep", Kind::Sleeping), ("poll", Kind::WaitingForInput), ("child_wait", Kind::ChildWait)] {
        let verdict =
            expect(&Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![(cause, 0.95)], ..Life::default() }), kind);
        assert!(verdict.sentences.iter().all(|sentence| sentence.next.is_empty()), "{}", text(&verdict));
    }
}

/// A shell script: one child after another works, and the other CPU is idle. `parts`: the children's parts of the run.
fn script(parts: &[f64]) -> Stage {
    let shell = Life { blocked: vec![("child_wait", 0.999)], ..Life::default() };
    let mut stage = Stage::new(2, SIBLINGS, &[shell, Life::default()]);
    let processes = &mut stage.account.programs[0].processes;
    let child = processes[0].threads.pop().expect("a thread");
    for (part, pid) in parts.iter().zip(200..) {
        let ns = (part * WALL_NS as f64) as u64;
        let thread = ledger::Thread { tid: pid, wall_ns: ns, run_ns: ns, ..child.clone() };
        processes.push(Process {
            pid,
            parent_pid: 100,
            comm: "gzip".into(),
            threads: vec![thread],
            ..Process::default()
        });
    }
    stage
}

#[test]
fn children_one_after_another_are_missing_parallelism() {
    let verdict = expect(&script(&[0.25; 4]), Kind::NothingToGain);
    let step = &verdict.sentences[0].next[0];
    assert!(step.action.starts_with("run 2 children at the same time") && step.expected_low.is_none(), "{step:?}");
    assert!(verdict.sentences[0].text.contains("parallelism is missing"), "{}", text(&verdict));
    for parts in [&[0.6, 0.2, 0.2][..], &[1.0]] {
        let other = judge(&script(parts));
        let steps = other.sentences.iter().flat_map(|sentence| &sentence.next);
        assert!(steps.into_iter().all(|step| !step.action.contains("children")), "{parts:?} {}", text(&other));
    }
}

#[test]
fn who_waits_for_sleepers_does_not_hide_their_sleep() {
    let sleeper = Life { blocked: vec![("sleep", 0.98)], ..Life::default() };
    let joins = Life { futex: 0.999, wakeups_per_s: 0.2, ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[joins, sleeper.clone()]), Kind::Sleeping);
    let shell = Life { blocked: vec![("child_wait", 0.99)], ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[shell, sleeper]), Kind::Sleeping);
}

/// An idle server: its main thread waits for events, and its helpers sleep until they are needed.
#[test]
fn idle_helpers_do_not_hide_that_a_server_waits_for_input() {
    let main = Life { blocked: vec![("poll", 0.9999)], ..Life::default() };
    let helper = Life { futex: 1.0, ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[vec![main], vec![helper; 4]].concat()), Kind::WaitingForInput);
}

#[test]
fn idle_helpers_do_not_hide_a_busy_thread() {
    let helper = Life { blocked: vec![("poll", 0.9999)], ..Life::default() };
    expect(&Stage::new(2, SIBLINGS, &[Life::default(), helper.clone(), helper]), Kind::NothingToGain);
}
