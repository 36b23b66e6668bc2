//! POP's metrics on staged programs, whose answers follow from how much of its life each thread worked.

mod staged;

use advise::efficiency::{Base, Efficiency};
use advise::evidence::Evidence;
use ledger::{SpinBasis, Thread};
use proptest::prelude::*;
use staged::{Life, SIBLINGS, Stage};

fn of(stage: &Stage) -> Option<Efficiency> {
    Efficiency::of(&Evidence::new(&stage.account, &stage.facts))
}

/// Threads on so many CPUs that work for these parts of the time, and spin for the rest.
fn spinning(cpus: u32, work: &[f64]) -> Stage {
    let lives: Vec<Life> = work.iter().map(|work| Life { spin: 1.0 - work, ..Life::default() }).collect();
    Stage::new(cpus, SIBLINGS, &lives)
}

fn threads(stage: &mut Stage) -> &mut Vec<Thread> {
    &mut stage.account.programs[0].processes[0].threads
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-6
}

#[test]
fn threads_with_a_cpu_each_are_compared_with_one_another() {
    let efficiency = of(&spinning(4, &[0.9, 0.6, 0.3])).expect("an efficiency");
    let Base::Threads { threads: 3, balance, serialisation } = efficiency.of else { panic!("{efficiency:?}") };
    assert!(near(balance, 0.6 / 0.9) && near(serialisation, 0.9) && near(efficiency.parallel, 0.6), "{efficiency:?}");
}

#[test]
fn more_threads_than_cpus_are_compared_with_the_cpus() {
    let run = 2.0 / 3.0;
    let life = Life { spin: 0.25 * run, preempted: 1.0 - run, ..Life::default() };
    let efficiency = of(&Stage::alike(2, SIBLINGS, 3, &life)).expect("an efficiency");
    assert_eq!((efficiency.of, efficiency.parts()), (Base::Cpus(2), None));
    assert!(near(efficiency.parallel, 0.75), "{efficiency:?}");
    // A thread that only joins is no worker, and the CPUs are enough.
    let joins = Life { futex: 0.99, ..Life::default() };
    let works = Life { futex: 0.25, wakeups_per_s: 1000.0, ..Life::default() };
    let efficiency = of(&Stage::new(2, SIBLINGS, &[joins, works.clone(), works])).expect("an efficiency");
    assert!(matches!(efficiency.of, Base::Threads { threads: 2, .. }) && near(efficiency.parallel, 0.75));
}

#[test]
fn nothing_is_said_where_the_premises_do_not_hold() {
    let whole = spinning(2, &[0.9, 0.6]);
    assert!(of(&whole).is_some());
    // One worker.
    assert_eq!(of(&spinning(2, &[0.9])), None);
    // Spinning would count as useful.
    let mut unseen = whole.clone();
    threads(&mut unseen).iter_mut().for_each(|thread| (thread.spin_ns, thread.spin_basis) = (0, SpinBasis::None));
    assert_eq!(of(&unseen), None);
    // Two programs, whose wall times differ.
    let mut two = whole.clone();
    let program = two.account.programs[0].clone();
    two.account.programs.push(program);
    assert_eq!(of(&two), None);
    // Who the threads without an entry were is not known: only what all did together.
    let mut unlisted = whole;
    unlisted.account.lost.finals = 1;
    assert!(matches!(of(&unlisted), Some(Efficiency { of: Base::Cpus(2), .. })));
}

proptest! {
    #[test]
    fn metrics_are_parts_of_one_and_multiply(work in prop::collection::vec(0.05..1.0f64, 2..40), cpus in 1u32..40) {
        let efficiency = of(&spinning(cpus, &work)).expect("an efficiency");
        prop_assert!((0.0..=1.0).contains(&efficiency.parallel), "{:?}", efficiency);
        prop_assert_eq!(efficiency.parts().is_some(), work.len() <= cpus as usize);
        if let Some((balance, serialisation)) = efficiency.parts() {
            prop_assert!((0.0..=1.0).contains(&balance) && (0.0..=1.0).contains(&serialisation));
            let mean = work.iter().sum::<f64>() / work.len() as f64;
            prop_assert!(near(balance * serialisation, efficiency.parallel) && near(efficiency.parallel, mean));
        }
    }
}
