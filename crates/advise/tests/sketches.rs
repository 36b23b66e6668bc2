//! Sketches for the forecast: what an account shows of a program that would run on fewer CPUs.

mod staged;

use advise::evidence::Evidence;
use advise::forecast::Refusal;
use advise::forecast::modelled::{Sketch, Waits};
use ledger::{Sees, SpinBasis, Unsampled};
use staged::{Life, SIBLINGS, Stage, WALL_NS};

fn staged(lives: &[Life], cpus: u32) -> Stage {
    Stage::new(cpus, SIBLINGS, lives)
}

fn sketch(stage: &Stage, cpus: u64) -> Result<Sketch, Refusal> {
    Sketch::of(&Evidence::new(&stage.account, &stage.facts), cpus)
}

fn spinning() -> Vec<Life> {
    vec![Life { spin: 0.2, preempted: 0.3, ..Life::default() }; 3]
}

#[test]
fn spinning_threads_have_phases_of_any_length() {
    let stage = staged(&spinning(), 2);
    let sketch = sketch(&stage, 2).unwrap();
    assert_eq!((sketch.threads, sketch.had_cpus, sketch.waits), (3, 2, Waits::Loops));
    assert!(sketch.phases_ns.len() > 3 && !sketch.accepts);
    assert_eq!(sketch.work_ns, WALL_NS / 2 * 3);
}

/// Threads that sleep now and then, but are mostly in loops, wait by spinning.
#[test]
fn mostly_spinning_is_spinning() {
    let life = Life { spin: 0.6, preempted: 0.3, ..Life::default() };
    let mut stage = staged(&vec![life; 3], 2);
    for thread in stage.threads_mut() {
        thread.switches_voluntary = 1_000;
    }
    assert_eq!(sketch(&stage, 2).unwrap().waits, Waits::Loops);
}

/// Half of ten seconds is work, and 900 sleeps of each of three threads are 1,350 meetings.
#[test]
fn sleeping_threads_tell_the_length_of_their_phases() {
    let life = Life { futex: 0.2, preempted: 0.3, wakeups_per_s: 90.0, ..Life::default() };
    let mut stage = staged(&vec![life; 3], 2);
    for thread in stage.threads_mut() {
        thread.switches_voluntary = 900;
    }
    stage.facts.openmp_runtime = Some("libgomp.so.1".to_owned());
    let sketch = sketch(&stage, 2).unwrap();
    assert_eq!((sketch.waits, sketch.accepts), (Waits::Asleep, true));
    assert_eq!(sketch.phases_ns, [WALL_NS / 2 / 1_350]);
}

#[test]
fn what_cannot_be_packed_or_told_is_refused() {
    assert_eq!(sketch(&staged(&spinning(), 4), 3), Err(Refusal::NothingToPack { threads: 3, cpus: 3 }));
    assert_eq!(sketch(&staged(&spinning()[..1], 4), 1), Err(Refusal::SingleThreaded));
    let mut lossy = staged(&spinning(), 2);
    lossy.account.lost.finals = 1;
    assert_eq!(sketch(&lossy, 2), Err(Refusal::Lossy));
    let mut blind = staged(&spinning(), 2);
    for thread in blind.threads_mut() {
        thread.spin_basis = SpinBasis::None;
    }
    assert_eq!(sketch(&blind, 2), Err(Refusal::Blind));
    blind.account.sees = Some(Sees { unsampled: Some(Unsampled::Noise), ..blind.account.sees() });
    assert_eq!(sketch(&blind, 2), Err(Refusal::Unsampled));
}
