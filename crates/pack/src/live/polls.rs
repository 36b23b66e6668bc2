//! What threads do while nobody takes samples: told by what each has run, and by what it does at looks meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use crate::policy::{Doing, Observation};

/// The run time that counts as a sample: that between two samples where they are taken.
const SAMPLE_NS: u64 = 1_000_000;
/// A pause is this many times as long as the look before it, so that looking takes 5 % of one CPU at most.
const PAUSE_PER_LOOK: u32 = 20;

/// Threads as they were at the last look.
#[derive(Default)]
pub struct Polls {
    /// The least time between two looks; `None`: samples are not wanted.
    pause: Option<Duration>,
    /// What the last look took.
    took: Duration,
    /// By place.
    tallies: HashMap<usize, Tally>,
    /// Run time that is no whole sample yet, all of it and what was waited, ns.
    rest_ns: (u64, u64),
}

/// What a thread was seen to do.
#[derive(Clone, Copy, Debug)]
struct Tally {
    /// Its CPU time.
    run_ns: u64,
    /// … up to which it has been counted.
    counted_ns: u64,
    /// Looks since then at which it was where chance had found it, and those of them at which it waited.
    looks: u64,
    spinning: u64,
    /// Barriers that its process had passed when its CPU time was last seen to grow.
    latest: u64,
}

/// A thread at a look.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// Its place in the table of stands.
    pub place: usize,
    /// Its process.
    pub tgid: u32,
    /// How it is seen.
    pub observation: Observation,
    /// Barriers it has passed, where it says so.
    pub phases: Option<u64>,
}

impl Polls {
    /// Time to the next look, `longest` at most; `None`: no samples are wanted.
    pub fn pause(&self, longest: Duration) -> Option<Duration> {
        self.pause.map(|pause| pause.max(self.took * PAUSE_PER_LOOK).min(longest))
    }

    /// Whether samples are wanted.
    pub fn is_wanted(&self) -> bool {
        self.pause.is_some()
    }

    /// From now on looks are wanted, so far apart at the least, or not.
    pub fn want(&mut self, pause: Option<Duration>) {
        self.pause = pause;
        if pause.is_none() {
            // What runs meanwhile is not for the next look to judge.
            (self.tallies, self.rest_ns) = (HashMap::new(), (0, 0));
        }
    }

    /// Samples, and how many of them waited in loops, since the last look. Who is not among these any more is
    /// forgotten.
    ///
    /// A thread that runs, or was made to stop, is where chance has found it. One that has gone to sleep has come to
    /// an end, which says nothing about the way there; and one that was let go, and has not run since, would work. The
    /// kernel tells what a thread has run some milliseconds late, so all that it was seen to do since it told last
    /// counts. To see the threads took `took` of CPU time.
    pub fn look(&mut self, threads: &[Sighting], took: Duration) -> (u64, u64) {
        self.took = took;
        let mut latest: HashMap<u32, u64> = HashMap::new();
        for thread in threads {
            let phases = latest.entry(thread.tgid).or_default();
            *phases = thread.phases.unwrap_or(0).max(*phases);
        }
        let mut tallies = HashMap::new();
        for Sighting { place, tgid, observation, phases } in threads {
            let (run_ns, latest) = (observation.run_ns, latest[tgid]);
            let new = Tally { run_ns, counted_ns: run_ns, looks: 0, spinning: 0, latest };
            let mut tally = self.tallies.get(place).copied().unwrap_or(new);
            if run_ns > tally.run_ns {
                (tally.run_ns, tally.latest) = (run_ns, latest);
            }
            // Whoever has run since, and waits still, waits for others than those that have gone on.
            let was_let_go = observation.spins && tally.latest < latest && phases.is_some_and(|phases| phases < latest);
            if matches!(observation.doing, Doing::Queued | Doing::Runs) && !was_let_go {
                tally.looks += 1;
                tally.spinning += u64::from(observation.spins);
            }
            let ran_ns = run_ns.saturating_sub(tally.counted_ns);
            if ran_ns > 0 && tally.looks > 0 {
                self.rest_ns.0 += ran_ns;
                self.rest_ns.1 += ran_ns * tally.spinning / tally.looks;
                tally = new;
            }
            tallies.insert(*place, tally);
        }
        self.tallies = tallies;
        let (samples, spinning) = (self.rest_ns.0 / SAMPLE_NS, self.rest_ns.1 / SAMPLE_NS);
        self.rest_ns = (self.rest_ns.0 % SAMPLE_NS, self.rest_ns.1 % SAMPLE_NS);
        (samples, spinning.min(samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Doing = Doing::Queued;

    fn look(polls: &mut Polls, threads: &[Sighting]) -> (u64, u64) {
        polls.look(threads, Duration::ZERO)
    }

    fn thread(place: usize, run_ms: u64, spins: bool, doing: Doing) -> Sighting {
        let run_ns = run_ms * 1_000_000;
        let observation = Observation { run_ns, blocks: 0, doing, spins, yields: false, at: None, out_ns: 0 };
        Sighting { place, tgid: 1, observation, phases: None }
    }

    #[test]
    fn run_time_counts_by_what_chance_has_found_meanwhile() {
        let mut polls = Polls::default();
        let first = [thread(0, 100, false, READY), thread(1, 0, true, READY)];
        assert_eq!(look(&mut polls, &first), (0, 0), "nothing is known of before");
        assert_eq!(look(&mut polls, &[thread(0, 104, false, READY), thread(1, 6, true, READY)]), (10, 6));
        assert_eq!(look(&mut polls, &[thread(0, 104, true, READY), thread(1, 8, false, READY)]), (2, 0));
        assert_eq!(
            look(&mut polls, &[thread(0, 108, false, READY), thread(1, 8, true, READY)]),
            (4, 2),
            "half of the looks"
        );
        assert_eq!(look(&mut polls, &[thread(0, 108, true, READY)]), (0, 0), "it has not run");
        assert_eq!(
            look(&mut polls, &[thread(0, 109, true, READY), thread(1, 50, true, READY)]),
            (1, 1),
            "a new thread"
        );
    }

    #[test]
    fn who_has_gone_to_sleep_says_nothing_of_the_way_there() {
        let mut polls = Polls::default();
        look(&mut polls, &[thread(0, 1, false, READY)]);
        assert_eq!(look(&mut polls, &[thread(0, 3, true, Doing::Blocked)]), (2, 0), "it worked when it was seen");
        assert_eq!(look(&mut polls, &[thread(0, 6, true, Doing::Blocked)]), (0, 0), "nothing was seen");
        assert_eq!(look(&mut polls, &[thread(0, 7, false, READY)]), (4, 0), "seen late");
    }

    #[test]
    fn parts_of_samples_are_not_lost() {
        let mut polls = Polls::default();
        let at = |run_us: u64| {
            let thread = thread(0, 0, true, READY);
            [Sighting { observation: Observation { run_ns: run_us * 1_000, ..thread.observation }, ..thread }]
        };
        look(&mut polls, &at(0));
        assert_eq!((look(&mut polls, &at(600)), look(&mut polls, &at(1_200))), ((0, 0), (1, 1)));
    }

    #[test]
    fn what_ran_while_nobody_looked_does_not_count() {
        let mut polls = Polls::default();
        look(&mut polls, &[thread(0, 1, true, READY)]);
        polls.want(None);
        assert!(!polls.is_wanted() && polls.pause(Duration::MAX).is_none());
        polls.want(Some(Duration::from_millis(1)));
        assert_eq!(look(&mut polls, &[thread(0, 900, true, READY)]), (0, 0));
    }

    #[test]
    fn where_looks_take_long_there_are_fewer() {
        let mut polls = Polls::default();
        let ms = Duration::from_millis;
        polls.want(Some(ms(1)));
        polls.look(&[], Duration::from_micros(20));
        assert_eq!(polls.pause(ms(30)), Some(ms(1)));
        polls.look(&[], ms(1));
        assert_eq!(polls.pause(ms(30)), Some(ms(20)));
        polls.look(&[], ms(2));
        assert_eq!(polls.pause(ms(30)), Some(ms(30)), "others wait for that look too");
    }

    #[test]
    fn a_team_that_meets_less_often_waits_all_the_same() {
        let mut polls = Polls::default();
        let at =
            |place, run_ms, spins, phases| Sighting { phases: Some(phases), ..thread(place, run_ms, spins, READY) };
        look(&mut polls, &[at(0, 0, false, 100), at(1, 0, true, 3)]);
        assert_eq!(look(&mut polls, &[at(0, 1, false, 200), at(1, 1, true, 3)]), (2, 1));
    }

    #[test]
    fn who_was_let_go_and_has_not_run_since_tells_nothing() {
        let mut polls = Polls::default();
        let at =
            |place, run_ms, spins, phases| Sighting { phases: Some(phases), ..thread(place, run_ms, spins, READY) };
        look(&mut polls, &[at(0, 0, false, 7), at(1, 0, true, 7)]);
        assert_eq!(look(&mut polls, &[at(0, 1, false, 7), at(1, 1, true, 7)]), (2, 1), "one waits for the other");
        assert_eq!(look(&mut polls, &[at(0, 2, false, 8), at(1, 1, true, 7)]), (1, 0));
        let other = Sighting { tgid: 2, ..at(2, 0, false, 99) };
        assert_eq!(look(&mut polls, &[at(0, 2, false, 8), at(1, 2, true, 8), other]), (1, 1), "in the end it waited");
        assert_eq!(
            look(&mut polls, &[at(0, 3, false, 8), at(1, 3, true, 8), other]),
            (2, 1),
            "another process's barriers"
        );
    }
}
