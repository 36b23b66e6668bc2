//! The decision whether a program that is not packed is worth measuring, from profiles of its threads.
//!
//! To measure a program and to try rotation costs it some ten milliseconds: the BPF programs are loaded while it runs,
//! samples are taken, and its threads are rotated for at least one measuring window. That is much for a program that
//! takes half a second and gains nothing. So cox first profiles the threads for some milliseconds, without BPF:
//!
//! - Threads that sleep after short bursts gain nothing, even if they spin for a moment before they sleep. The kernel
//!   counts their sleeps, so they are not even profiled: to start and stop the profile's timer at each switch took 5 to
//!   15 % of such a program's time.
//! - Threads that spin may be ten times slower without rotation. Then nothing is lost by trying.
//! - Threads that sleep while they wait gained up to 12 %, but only if they run for some milliseconds between two sleeps.
//!   cox tries rotation once the time that the CPUs were idle is as long as a trial may cost.
//! - Threads that yield while they wait gained as much, but only if they work for some milliseconds between two waits: a
//!   thread on each CPU then runs through a close look ([`CLOSE_LOOK`]) without a switch. If not, they are not profiled.
//!   Otherwise cox tries rotation once the time that they might have gained is as long as a trial may cost.
//! - Threads that keep all CPUs of the pack busy with work have nothing to gain.

use std::time::Duration;

use super::mode::{GOOD_ENOUGH, LONG_BURST_NS};

/// Lengths of the profiles, ns. The first one is short, because threads that spin may be ten times slower without packing.
/// The others follow one another without a pause, and longer ones cost less: to end a profile and to begin the next one,
/// cox wakes up, which can move a thread of the program to another CPU.
const LENGTHS_NS: [u64; 5] = [10_000_000, 30_000_000, 60_000_000, 120_000_000, 200_000_000];

/// Number of samples of each CPU in a profile. On a virtual machine a sample takes up to 26 us.
const SAMPLES: u64 = 25;

/// Threads that run for less than this between two switches of any kind are looked at closely before they are profiled, ns.
const OFTEN_NS: u64 = 400_000;

/// Length of a close look: as long as the shortest phase that rotation can help.
pub const CLOSE_LOOK: Duration = Duration::from_nanos(LONG_BURST_NS);

/// Code is judged if at least this part of a profile's samples hit its line. A waiting loop that matters is short, and a
/// program that computes is sampled in many places, all of which would cost more to judge than the profile itself.
pub const JUDGED_PART: f64 = 0.05;

/// If spinning takes at least this fraction of the CPUs' time, rotation is tried at once.
const MUCH: f64 = 0.1;

/// Most of its time that a program gained whose threads yield while they wait.
const GAINED: f64 = 0.12;

/// What a trial may cost a program that gains nothing, ns of its wall time: 25 to 50 ms were measured.
const TRIAL_NS: f64 = 60e6;

/// A profile: CPU time of all threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiled {
    /// Length of the profile, ns of wall time.
    pub length_ns: u64,
    /// CPU time in the profile, ns.
    pub run_ns: u64,
    /// Fraction of the samples in loops that wait without yielding.
    pub spinning: f64,
    /// Fraction of the samples in loops that wait and yield.
    pub yielding: f64,
}

/// How much a running thread ran and slept since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// CPU time, ns.
    pub run_ns: u64,
    /// How often it went to sleep.
    pub sleeps: u64,
    /// How often it left its CPU, for whatever reason.
    pub switches: u64,
}

impl Ran {
    /// Returns how much it ran and slept between `before` and `self`, both counted from the thread's start.
    #[must_use]
    pub fn since(self, before: Option<&Ran>) -> Ran {
        let Some(before) = before else { return self };
        Ran {
            run_ns: self.run_ns.saturating_sub(before.run_ns),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
            switches: self.switches.saturating_sub(before.switches),
        }
    }

    /// Returns the sum over threads.
    fn sum(threads: &[Ran]) -> Ran {
        threads.iter().fold(Ran::default(), |sum, ran| Ran {
            run_ns: sum.run_ns + ran.run_ns,
            sleeps: sum.sleeps + ran.sleeps,
            switches: sum.switches + ran.switches,
        })
    }

    /// Returns how long the thread ran between two sleeps on average, ns.
    fn burst_ns(self) -> u64 {
        self.run_ns / self.sleeps.max(1)
    }
}

/// Whether a program is worth a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// It is not: at most one of its running threads runs long enough between two sleeps. All others are left to the
    /// kernel, whatever they do while they wait.
    Nothing,
    /// It is, if threads run through a close look.
    CloseLook,
    /// It is.
    Profile,
}

impl Worth {
    /// Returns what the threads that ran since the last look are worth.
    #[must_use]
    pub fn of(running: &[Ran]) -> Worth {
        // A kernel that keeps no such figures: a profile tells more.
        if running.iter().all(|ran| ran.run_ns == 0) {
            return Worth::Profile;
        }
        // One sleep says nothing: if many threads share the CPUs, a thread may have run for less than a burst since then.
        let seldom = running.iter().filter(|ran| ran.sleeps <= 1 || ran.burst_ns() >= LONG_BURST_NS).count();
        let sum = Ran::sum(running);
        if seldom < 2 {
            Worth::Nothing
        } else if sum.run_ns < sum.switches * OFTEN_NS {
            Worth::CloseLook
        } else {
            Worth::Profile
        }
    }
}

/// Returns whether a thread on each CPU ran through a close look: for at least half of it, with at most one switch. `closely`
/// are some of the `running` threads, so that as large a part of the `cpus` is enough, but at least two. A single thread that
/// has a CPU to itself always runs through, because sched_yield(2) then returns at once.
#[must_use]
pub fn ran_through(closely: &[Ran], running: usize, cpus: usize) -> bool {
    let through = closely.iter().filter(|ran| ran.switches <= 1 && ran.run_ns >= LONG_BURST_NS / 2).count();
    through >= (cpus * closely.len() / running.max(1)).max(cpus.min(2))
}

/// What the profiles of a program have shown so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Number of profiles.
    pub count: u64,
    /// Length of all profiles, ns of wall time, and the CPU time in them, ns.
    crowded_ns: u64,
    run_ns: u64,
    /// Fractions of the CPUs' time in the last profile.
    spinning: f64,
    yielding: f64,
}

impl Shown {
    /// Returns the length that the next profile should have, ns.
    #[must_use]
    pub fn next_length_ns(&self) -> u64 {
        LENGTHS_NS[LENGTHS_NS.len().min(self.count as usize + 1) - 1]
    }

    /// Returns the CPU time between two samples of a thread in the next profile, ns.
    #[must_use]
    pub fn next_interval_ns(&self) -> u64 {
        self.next_length_ns() / SAMPLES
    }

    /// Adds a profile during which more threads ran than the pack has CPUs, `cpus`.
    pub fn add(&mut self, profiled: Profiled, cpus: usize) {
        self.count += 1;
        self.crowded_ns += profiled.length_ns;
        self.run_ns += profiled.run_ns;
        let busy = part(profiled.run_ns, profiled.length_ns, cpus);
        (self.spinning, self.yielding) = (busy * profiled.spinning, busy * profiled.yielding);
    }

    /// Returns whether the program is worth measuring. `ran`: its threads since the last look. `idle_ns` returns for how
    /// long the CPUs had nothing to run since the first profile began, all together: what the program did not use, others
    /// may have used. It is called only if that matters.
    pub fn is_promising(&self, cpus: usize, idle_ns: impl FnOnce() -> Option<u64>, ran: &[Ran]) -> bool {
        let wasted = self.spinning + self.yielding;
        let unused = 1.0 - part(self.run_ns, self.crowded_ns, cpus);
        let pays = |unused: f64| {
            let may_gain = wasted >= JUDGED_PART || unused > 1.0 - GOOD_ENOUGH;
            let gain = self.spinning + unused + self.yielding.min(GAINED);
            may_gain && gain * self.crowded_ns as f64 >= TRIAL_NS
        };
        let idle = || idle_ns().map_or(unused, |idle_ns| unused.min(part(idle_ns, self.crowded_ns, cpus)));
        let sleeps_seldom = || Ran::sum(ran).burst_ns() >= LONG_BURST_NS;
        self.spinning >= MUCH || pays(0.0) || (pays(unused) && sleeps_seldom() && pays(idle()))
    }
}

/// Returns a sum over `cpus` CPUs as a fraction of their time.
fn part(ns: u64, wall_ns: u64, cpus: usize) -> f64 {
    (ns as f64 / (wall_ns.max(1) as f64 * cpus as f64)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Two CPUs, profiled for so many milliseconds.
    fn shown(ms: u64, busy: f64, spinning: f64, yielding: f64) -> Shown {
        let mut shown = Shown::default();
        let run_ns = (2.0 * busy * (ms * MS) as f64) as u64;
        shown.add(Profiled { length_ns: ms * MS, run_ns, spinning, yielding }, 2);
        shown
    }

    #[test]
    fn spinning_is_worth_a_trial_at_once_and_other_waiting_later() {
        let promising =
            |busy, spinning, yielding, ms| shown(ms, busy, spinning, yielding).is_promising(2, || None, &LONG);
        assert!(promising(1.0, 0.1, 0.0, 20) && !promising(0.5, 0.1, 0.0, 20));
        assert!(!promising(0.96, 0.06, 0.0, 599) && promising(0.96, 0.06, 0.0, 620));
        assert!(!promising(1.0, 0.0, 0.5, 499) && promising(1.0, 0.0, 0.5, 501));
        assert!(!promising(1.0, 0.0, 0.06, 999) && promising(1.0, 0.0, 0.06, 1001));
        assert!(!promising(0.75, 0.0, 0.0, 239) && promising(0.75, 0.0, 0.0, 241));
        assert!(!promising(0.92, 0.0, 0.0, 740) && promising(0.92, 0.0, 0.0, 760));
        assert!(!promising(0.98, 0.0, 0.0, 100_000), "all CPUs work");
    }

    /// Threads that run for ten milliseconds between two sleeps.
    const LONG: [Ran; 2] = [Ran { run_ns: 10 * MS, sleeps: 1, switches: 1 }; 2];

    #[test]
    fn threads_that_sleep_after_short_bursts_are_left_alone() {
        let of = |sleeps| {
            let ran = [Ran { run_ns: 10 * MS, sleeps, switches: sleeps }; 2];
            shown(1000, 0.75, 0.0, 0.0).is_promising(2, || None, &ran)
        };
        assert!(of(0) && of(5) && !of(6));
    }

    #[test]
    fn two_threads_that_seldom_sleep_are_worth_a_profile() {
        let worth = |run_ms, sleeps: &[u64]| {
            let ran: Vec<Ran> =
                sleeps.iter().map(|&sleeps| Ran { run_ns: run_ms * MS, sleeps, switches: sleeps }).collect();
            Worth::of(&ran)
        };
        use Worth::{Nothing, Profile};
        assert_eq!([worth(10, &[0, 5, 10]), worth(10, &[5, 5]), worth(1, &[1, 1])], [Profile; 3]);
        assert_eq!((worth(0, &[0, 0, 5]), Worth::of(&[])), (Profile, Profile), "no figures");
        assert_eq!([worth(10, &[0, 6, 10]), worth(10, &[6, 6, 6]), worth(1, &[2, 2]), worth(10, &[0])], [Nothing; 4]);
    }

    #[test]
    fn threads_that_yield_are_looked_at_closely() {
        let ran = |run_ns, switches| Ran { run_ns, sleeps: 0, switches };
        assert_eq!(Worth::of(&[ran(10 * MS, 40), ran(10 * MS, 10)]), Worth::Profile);
        assert_eq!(Worth::of(&[ran(10 * MS, 41), ran(10 * MS, 10)]), Worth::CloseLook);
        assert!(ran_through(&[ran(2 * MS, 0), ran(2 * MS, 500), ran(MS, 1)], 3, 2));
        assert!(!ran_through(&[ran(2 * MS, 0), ran(2 * MS, 2), ran(MS - 1, 0)], 3, 2));
        // 16 of 64 threads on 12 CPUs: 3 of them run at a time.
        let mut sixteen = [ran(MS / 8, 200); 16];
        sixteen[..2].fill(ran(2 * MS, 0));
        assert!(!ran_through(&sixteen, 64, 12));
        sixteen[2] = ran(2 * MS, 1);
        assert!(ran_through(&sixteen, 64, 12));
    }

    #[test]
    fn time_that_others_used_is_not_idle() {
        let shown = shown(1000, 0.75, 0.0, 0.0);
        assert!(shown.is_promising(2, || Some(500 * MS), &LONG));
        assert!(!shown.is_promising(2, || Some(80 * MS), &LONG));
    }

    #[test]
    fn profiles_become_longer_and_only_their_own_time_counts() {
        let mut shown = Shown::default();
        let mut lengths = Vec::new();
        for _ in 0..6 {
            let length_ns = shown.next_length_ns();
            lengths.push(length_ns / MS);
            shown.add(Profiled { length_ns, run_ns: 2 * length_ns, ..Profiled::default() }, 2);
        }
        assert_eq!(lengths, [10, 30, 60, 120, 200, 200]);
        assert_eq!((Shown::default().next_interval_ns(), shown.next_interval_ns()), (MS * 4 / 10, 8 * MS));
        // The CPUs were idle between the profiles.
        assert!(!shown.is_promising(2, || Some(10_000 * MS), &LONG));
    }
}
