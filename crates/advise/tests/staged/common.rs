//! Staged situations that several test files use, and what they expect of them.

use advise::thresholds::{TURNS_COST, WAKEUPS_COST};
use advise::{Kind, NextStep, Verdict};

use super::{Behind, Life, OTHERS, SIBLINGS, Stage, advise};

/// Returns the verdict on a staged run.
pub fn judge(stage: &Stage) -> Verdict {
    advise(&stage.account, &stage.facts)
}

/// The verdict's text, for the message of a failed test.
pub fn text(verdict: &Verdict) -> String {
    let lines = verdict.sentences.iter().map(|sentence| format!("  {} {:?}\n", sentence.text, sentence.next));
    format!("{:?} ({:?})\n{}", verdict.headline, verdict.confidence, lines.collect::<String>())
}

/// Expects a headline, and that the verdict survives its own JSON. Returns the verdict.
#[track_caller]
pub fn expect(stage: &Stage, kind: Kind) -> Verdict {
    let verdict = judge(stage);
    assert_eq!(verdict.headline, kind, "{}", text(&verdict));
    let json = serde_json::to_string(&verdict).expect("a verdict is plain data");
    assert_eq!(serde_json::from_str::<Verdict>(&json).expect("its own JSON"), verdict);
    verdict
}

/// Every thread has the share `cpus / threads` of a CPU, works `work` of that and spins the rest.
pub fn crowd_spinning(threads: usize, cpus: u32, work: f64) -> Stage {
    let run = f64::from(cpus) / threads as f64;
    let life = Life { spin: run * (1.0 - work), preempted: 1.0 - run, ..Life::default() };
    Stage::alike(cpus, SIBLINGS, threads, &life).spinning_in("OpenMP runtime")
}

/// A thread that sleeps on a futex for `share` of its life, and is woken by the first thread.
pub fn asleep(share: f64) -> Life {
    Life { futex: share, wakeups_per_s: 100.0, woken_by: vec![100], ..Life::default() }
}

/// A thread of a program with unequal work: it works and queues for these parts of its life, and sleeps otherwise.
fn unequal(work: f64, queued: f64) -> Life {
    Life {
        preempted: queued,
        futex: 1.0 - work - queued,
        wakeups_per_s: 20.0,
        woken_by: vec![100, 101],
        ..Life::default()
    }
}

/// Three OpenMP threads on two CPUs with unequal work, as measured. Each thread works and queues for these parts of its life.
pub fn three_unequal(behind: Behind, threads: [(f64, f64); 3]) -> Stage {
    let mut stage = Stage::new(2, behind, &threads.map(|(work, queued)| unequal(work, queued)));
    stage.facts.openmp_runtime = Some("libgomp.so.1.0.0".to_owned());
    stage
}

/// [`three_unequal`] on idle CPUs: the threads worked for 2.10, 1.86 and 1.25 s in 2.97 s.
pub const UNEQUAL: [(f64, f64); 3] = [(0.71, 0.18), (0.63, 0.21), (0.42, 0.24)];

/// One thread that waits for storage most of the time.
pub fn disk_bound() -> Stage {
    Stage::alike(2, SIBLINGS, 1, &Life { blocked: vec![("disk", 0.6)], ..Life::default() })
}

/// `threads` threads queue for a lock held nearly all the time.
pub fn convoy(threads: u32, cpus: u32, inside: f64) -> Stage {
    let work = inside / f64::from(threads);
    let wakers = |own: u32| (100..100 + threads.min(8)).filter(|tid| *tid != own).collect::<Vec<_>>();
    let life = |own: u32| Life {
        futex: 1.0 - work - 0.01,
        wake_delay: 0.01,
        wakeups_per_s: 500.0,
        woken_by: wakers(own),
        ..Life::default()
    };
    let lives: Vec<Life> = (100..100 + threads).map(life).collect();
    Stage::new(cpus, Behind { sibling: 0.5, other: 0.0, idle: 0.5 }, &lives)
}

/// A hog has half of one CPU; the threads on the others wait for the displaced one.
pub fn hog_on_one_cpu(cpus: u32, waiting: Life) -> Stage {
    let mut lives = vec![Life { preempted: 0.49, wake_delay: 0.01, ..Life::default() }];
    lives.extend(vec![waiting; cpus as usize - 1]);
    Stage::new(cpus, OTHERS, &lives)
}

/// Returns the highest factor that a step promises if the work does not shrink: its bound; or, without a bound, the high end of its range without what that
/// allows for work that shrinks. For slow wake-ups, the high end is `factor × (1 + cost × (factor − 1))`.
pub fn highest(step: &NextStep) -> Option<f64> {
    let linear = 1.0 - WAKEUPS_COST;
    let of_range = |high: f64| {
        if step.topic == Kind::SlowWakeups.to_string() {
            ((linear * linear + 4.0 * WAKEUPS_COST * high).sqrt() - linear) / (2.0 * WAKEUPS_COST)
        } else {
            high / TURNS_COST
        }
    };
    step.bound.or(step.expected_high.map(of_range))
}
