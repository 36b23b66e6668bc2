//! Estimates by polling how often threads spin, if the backend takes no samples: each millisecond of a thread's run
//! time counts as one sample, and the polls of the thread show whether it spins.

use std::collections::HashMap;
use std::time::Duration;

use crate::policy::{Doing, Observation};

/// Run time that counts as one sample, ns: the usual time between two samples.
const SAMPLE_NS: u64 = 1_000_000;
/// The pause before the next poll is the CPU time of the last poll times this factor, so that polling takes at most 5 %
/// of one CPU.
const PAUSE_PER_LOOK: u32 = 20;

/// The state of polling: what the polls have found about each thread since its run time was last counted.
#[derive(Default)]
pub struct Polls {
    /// The shortest time between two polls; `None`: no samples are wanted.
    pause: Option<Duration>,
    /// CPU time of the last poll.
    took: Duration,
    /// The results of the polls of each thread, by the index of the thread's snapshot in the table.
    tallies: HashMap<usize, Tally>,
    /// Run time that is left after all whole samples ([`SAMPLE_NS`] each) were counted: in total, and the part spent
    /// spinning, ns.
    rest_ns: (u64, u64),
}

/// Results of the polls of one thread.
#[derive(Clone, Copy, Debug)]
struct Tally {
    /// CPU time at the last poll, ns.
    run_ns: u64,
    /// CPU time up to which samples have been counted, ns.
    counted_ns: u64,
    /// Number of polls that found the thread runnable since `counted_ns` was set; `spinning`: how many of these polls
    /// found it spinning.
    looks: u64,
    spinning: u64,
    /// How many barriers the most advanced thread of the process had passed when a poll last found that this thread had
    /// run.
    latest: u64,
}

/// A thread as a poll finds it.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// Index of the thread's snapshot in the table.
    pub place: usize,
    /// Process id.
    pub tgid: u32,
    /// The thread's observation.
    pub observation: Observation,
    /// Number of barriers that the thread has passed; `None` if no preload library counts them.
    pub phases: Option<u64>,
}

impl Polls {
    /// Returns the time until the next poll, at most `longest`; `None` if no samples are wanted.
    pub fn pause(&self, longest: Duration) -> Option<Duration> {
        self.pause.map(|pause| pause.max(self.took * PAUSE_PER_LOOK).min(longest))
    }

    /// Returns whether samples are wanted.
    pub fn is_wanted(&self) -> bool {
        self.pause.is_some()
    }

    /// Sets the shortest time between two polls; `None`: no samples are wanted.
    pub fn want(&mut self, pause: Option<Duration>) {
        self.pause = pause;
        if pause.is_none() {
            // The run time until samples are wanted again must not count as samples.
            (self.tallies, self.rest_ns) = (HashMap::new(), (0, 0));
        }
    }

    /// Converts the run time of `threads` since the last poll to samples, one for each `SAMPLE_NS`. Returns the number
    /// of samples, and how many of them are spinning. A thread's spinning time is its `run time × polls that found it
    /// spinning ÷ polls that found it runnable`. Threads that are not in `threads` are forgotten. `took` is the CPU
    /// time that reading `threads` took.
    ///
    /// Only polls that find the thread runnable count, because they find it at a random place in its code. A sleeping
    /// thread has left its loop, so its place tells nothing about the time before. A thread that was released from a
    /// barrier and has not run since does not count either: its place is still in the spin loop, although it no longer
    /// waits. The kernel updates a thread's run time some milliseconds late, so all polls since the last update count.
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
            // The thread was released but has not run since: another thread has passed the barrier at which it spins.
            // If it had run since and still spun, it would wait for something else.
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
        let observation = Observation { run_ns, doing, spins, ..Observation::default() };
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
