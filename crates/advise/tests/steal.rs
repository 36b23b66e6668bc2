//! Hypervisor steal beside each other loss: the larger one is named first, and the sizes of both are right to three points. Where threads wait for one
//! another at any time, an account does not show whether they waited for a thread whose CPU was stolen, so that only the order is known.

mod staged;

use advise::{Kind, Verdict};
use staged::common::{asleep, judge, text};
use staged::{IDLE, Life, OTHERS, SIBLINGS, Stage};

/// Largest error of a size, as a part of all thread time.
const POINTS: f64 = 0.03;

/// A loss that can occur beside steal.
struct Other {
    kind: Kind,
    /// A large and a small share of all thread time that it costs.
    shares: (f64, f64),
    /// Whether the sizes are known.
    sized: bool,
    /// A run that loses these shares of all thread time: to this loss, and to the hypervisor.
    run: fn(f64, f64) -> Stage,
}

/// Two threads on two CPUs that are blocked for this cause.
fn blocked(cause: &'static str, loss: f64, steal: f64) -> Stage {
    Stage::alike(2, IDLE, 2, &Life { blocked: vec![(cause, loss)], steal, ..Life::default() })
}

/// Two threads on two CPUs of which one waits asleep for the other, `waits` of its life.
fn one_waits(waits: f64, steal: f64) -> Stage {
    Stage::new(2, SIBLINGS, &[Life { steal, ..Life::default() }, Life { steal, ..asleep(waits) }])
}

const OTHERS_OF_STEAL: [Other; 11] = [
    Other { kind: Kind::DiskBound, shares: (0.3, 0.1), sized: true, run: |loss, steal| blocked("disk", loss, steal) },
    Other {
        kind: Kind::PageFaults,
        shares: (0.3, 0.1),
        sized: true,
        run: |loss, steal| blocked("page_fault", loss, steal),
    },
    Other {
        kind: Kind::FileLock,
        shares: (0.3, 0.1),
        sized: true,
        run: |loss, steal| blocked("file_lock", loss, steal),
    },
    Other {
        kind: Kind::CpuHog,
        shares: (0.3, 0.1),
        sized: true,
        run: |loss, steal| Stage::alike(2, OTHERS, 2, &Life { preempted: loss, steal, ..Life::default() }),
    },
    Other {
        kind: Kind::QuotaThrottled,
        shares: (0.3, 0.1),
        sized: true,
        run: |loss, steal| {
            let life = Life { preempted: loss, steal, ..Life::default() };
            Stage::alike(2, IDLE, 2, &life).throttled(2.0 * (1.0 - loss), loss)
        },
    },
    Other {
        kind: Kind::TooManyThreadsSpinning,
        // Three threads on two CPUs: a third of the time is queueing.
        shares: (0.5, 0.36),
        sized: false,
        run: |loss, steal| {
            let life = Life { preempted: 0.34, spin: loss - 0.34, steal, ..Life::default() };
            Stage::alike(2, SIBLINGS, 3, &life)
        },
    },
    Other {
        kind: Kind::TooManyThreadsSleeping,
        // Three threads on two CPUs run to a barrier in two turns.
        shares: (0.5, 0.45),
        sized: false,
        run: |loss, steal| {
            let life = Life { preempted: 0.2, futex: loss - 0.2, wakeups_per_s: 100.0, steal, ..Life::default() };
            Stage::alike(2, SIBLINGS, 3, &Life { woken_by: vec![100, 101, 102], ..life })
        },
    },
    Other { kind: Kind::Imbalance, shares: (0.3, 0.12), sized: true, run: |loss, steal| one_waits(2.0 * loss, steal) },
    Other {
        kind: Kind::Serial,
        shares: (0.3, 0.1),
        sized: true,
        run: |loss, steal| one_waits(2.0 * loss, steal).serial(0, 2.0 * loss, "output", "app"),
    },
    Other {
        kind: Kind::LockConvoy,
        shares: (0.45, 0.3),
        sized: false,
        run: |loss, steal| {
            let life = Life { futex: loss, wakeups_per_s: 500.0, woken_by: vec![100, 101], steal, ..Life::default() };
            Stage::alike(2, IDLE, 2, &life)
        },
    },
    Other {
        kind: Kind::SlowWakeups,
        shares: (0.3, 0.1),
        sized: false,
        run: |loss, steal| {
            let life = Life { futex: 0.1, wake_delay: loss, wakeups_per_s: 20_000.0, steal, ..Life::default() };
            Stage::alike(2, IDLE, 2, &Life { woken_by: vec![100, 101], ..life })
        },
    },
];

/// Returns what is wrong with the verdict on a run that loses `loss` to `other` and `steal` to the hypervisor.
fn faults(verdict: &Verdict, other: &Other, loss: f64, steal: f64) -> Vec<String> {
    let larger = if loss > steal { other.kind } else { Kind::HypervisorSteal };
    let mut faults = Vec::new();
    if verdict.headline != larger {
        faults.push(format!("{} {loss}, steal {steal}: {}", other.kind, text(verdict)));
    }
    if !other.sized {
        return faults;
    }
    for (kind, share) in [(other.kind, loss), (Kind::HypervisorSteal, steal)] {
        let found = verdict.losses.iter().find(|loss| loss.kind == kind).map_or(0.0, |loss| loss.cost_share);
        if (found - share).abs() > POINTS {
            faults.push(format!("{kind}: {share} is found as {found}\n{:?}", verdict.losses));
        }
    }
    faults
}

#[test]
fn the_larger_of_steal_and_another_loss_comes_first() {
    let mut all = Vec::new();
    for other in &OTHERS_OF_STEAL {
        let (large, small) = other.shares;
        let less = if other.sized { 0.5 } else { 0.2 };
        for (loss, steal) in [(large, less * large), (small, (1.5 * small).max(0.2))] {
            all.extend(faults(&judge(&(other.run)(loss, steal)), other, loss, steal));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
