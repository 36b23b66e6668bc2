//! Duels: the best schedule so far executes the loop, and others challenge it for single instances.
//!
//!  1. The *champion* is `static` at first. An instance with a *challenger* always stands between two with the champion. Its difference is the logarithm
//!     of its time less the mean of theirs, so that a steady drift of the machine or of the program cancels.
//!  2. The first pass of challengers is in the order of the portfolio, from the lowest overhead on; later ones are in random order.
//!  3. If the median difference of a challenger is clearly below 0, it becomes the champion. If it is clearly above, or cannot gain 1 %, it is
//!     dropped. What is clear depends on how much instances with the same schedule differ (`noise`), which all duels together show.
//!  4. No schedule can save more than imbalance and requests cost. If they cost less than [`LITTLE`] with the champion, it is selected at once. If they do
//!     so with a challenger, its trial is repeated, and if they do so again, any gain makes it the champion. A schedule whose requests alone would cost
//!     more is not tried.
//!  5. What trials cost is bounded: by `SHARE` of all time, and what they could gain in `HORIZON` instances. So on a busy machine, where duels decide
//!     little, few schedules are tried that seem slower.
//!  6. When no challenger is left, the champion is selected. When the loop has changed ([`super::change`]), or is no longer balanced, all challenge again.
//!
//! Time counts per iteration, so the number of iterations may vary between instances.

mod challenger;
mod noise;

use random::Random;

use self::challenger::{Challenger, State};
use self::noise::{FEW, Noise, Recent};
use crate::selection::change::Change;
use crate::selection::record::{Record, Select};
use crate::selection::requests::Requests;
use crate::selection::verdict::{Reason, Verdict};

/// Part of the time below which imbalance and requests are not worth a trial.
pub const LITTLE: f64 = 0.015;

/// A loop that was balanced is tried again when they cost so much.
const MUCH: f64 = 0.04;

/// What trials of slower schedules may cost: this part of all time, this number of instances, and what imbalance costs in so many instances, at most so
/// much of each.
const SHARE: f64 = 0.03;
const ALLOWANCE: f64 = 0.5;
const HORIZON: f64 = 25.0;
const MOST_LOST: f64 = 0.2;

/// Instances with a schedule before its imbalance decides: a thread that lost its CPU may have balanced one by chance.
const BALANCED_INSTANCES: usize = 2;

/// Selection by duels.
#[derive(Clone, Debug)]
pub struct Auto {
    requests: Vec<Requests>,
    threads: f64,
    champion: usize,
    /// All other schedules.
    challengers: Vec<Challenger>,
    /// Schedules that are still to be tried in this pass, the next one last.
    pass: Vec<usize>,
    passes: usize,
    /// The challenger of the next instance; `None`: the champion executes it.
    next: Option<usize>,
    /// The challenger that was tried just now, and the logarithm of its time.
    tried: Option<(usize, f64)>,
    /// A challenger with which imbalance and requests cost little in its first trials, and in how many.
    balanced: Option<(usize, usize)>,
    /// The logarithm of the champion's last time, if the instance before the next one was its.
    before: Option<f64>,
    noise: Noise,
    /// What imbalance and requests cost with the champion, as parts of the time.
    losses: Recent,
    /// Time of all instances, and of what trials have cost, in instances with the champion.
    total: f64,
    spent: f64,
    verdict: Option<Verdict>,
    selections: u64,
    change: Change,
    random: Random,
}

impl Auto {
    /// Begins with the first of some schedules, for a team of so many threads. Without any, there is one with few requests.
    #[must_use]
    pub fn new(requests: &[Requests], threads: u32, seed: u64) -> Auto {
        let requests = if requests.is_empty() { vec![Requests::Few] } else { requests.to_vec() };
        let challengers = (1..requests.len()).map(Challenger::new).collect();
        let mut auto = Auto {
            requests,
            threads: f64::from(threads.max(1)),
            champion: 0,
            challengers,
            pass: Vec::new(),
            passes: 0,
            next: None,
            tried: None,
            balanced: None,
            before: None,
            noise: Noise::default(),
            losses: Recent::default(),
            total: 0.0,
            spent: 0.0,
            verdict: None,
            selections: 0,
            change: Change::default(),
            random: Random::new(seed),
        };
        auto.open();
        auto
    }

    /// Lets all schedules challenge the champion.
    fn open(&mut self) {
        self.challengers.iter_mut().for_each(Challenger::forget);
        self.challengers.sort_by_key(|challenger| challenger.schedule);
        self.pass = self.challengers.iter().rev().map(|challenger| challenger.schedule).collect();
        (self.passes, self.next, self.tried, self.before) = (1, None, None, None);
        (self.verdict, self.balanced) = (None, None);
        self.losses = Recent::default();
        self.change = Change::default();
    }

    /// Returns what imbalance and requests have cost, as a part of the time.
    fn lost(&self, record: &Record) -> f64 {
        record.lib * (self.threads - 1.0) / self.threads + record.dispatch
    }

    /// Records an instance with a challenger, which is compared when the champion's next time is known.
    fn challenger_took(&mut self, schedule: usize, time: f64, record: &Record) {
        self.tried = Some((schedule, time));
        if self.passes > 1 || self.lost(record) > LITTLE {
            self.balanced = None;
            return;
        }
        let before = self.balanced.filter(|(balanced, _)| *balanced == schedule).map_or(0, |(_, trials)| trials);
        self.balanced = Some((schedule, before + 1));
        if before == 0 {
            // Once may be chance.
            self.pass.push(schedule);
        }
    }

    /// Records an instance with the champion.
    fn champion_took(&mut self, time: f64, record: &Record) {
        self.total += 1.0;
        self.losses.add(self.lost(record));
        if self.verdict.is_some() {
            if self.has_changed(record) {
                self.open();
            }
            return;
        }
        let before = self.before.replace(time);
        if let Some(before) = before {
            self.noise.add(time - before);
            if let Some((schedule, took)) = self.tried.take() {
                self.duel(schedule, took - f64::midpoint(before, time));
            }
        }
        self.exclude(record);
        self.decide();
    }

    fn has_changed(&mut self, record: &Record) -> bool {
        let was_balanced = self.verdict.is_some_and(|verdict| verdict.reason == Reason::Balanced);
        let is_unbalanced = self.losses.len() >= FEW && self.losses.median() > MUCH;
        self.change.record(record) || was_balanced && is_unbalanced
    }

    /// Ends a duel: the challenger becomes the champion, stays, or is dropped.
    fn duel(&mut self, schedule: usize, difference: f64) {
        let Some(place) = self.challengers.iter().position(|challenger| challenger.schedule == schedule) else {
            return;
        };
        let challenger = &mut self.challengers[place];
        challenger.add(difference);
        self.total += 1.0;
        self.spent += challenger.excess();
        let noise = self.noise.deviation();
        let has_balanced = self.balanced == Some((schedule, BALANCED_INSTANCES));
        if challenger.wins(noise) || has_balanced && challenger.median().is_some_and(|median| median < 0.0) {
            self.replace_champion(place);
        } else {
            challenger.judge(noise);
        }
    }

    /// The challenger becomes the champion. The differences of all others are now relative to it.
    fn replace_champion(&mut self, place: usize) {
        let winner = self.challengers.remove(place);
        let gain = winner.median().unwrap_or(0.0);
        self.challengers.iter_mut().for_each(|challenger| challenger.shift(-gain));
        self.challengers.push(winner.reversed(self.champion));
        self.champion = winner.schedule;
        self.before = None;
        self.losses = Recent::default();
    }

    /// Excludes schedules whose requests alone would cost more than imbalance and requests do now.
    fn exclude(&mut self, record: &Record) {
        if self.losses.len() == 0 {
            return;
        }
        let lost_ns = self.losses.median() * record.time_ns;
        for challenger in self.challengers.iter_mut().filter(|challenger| challenger.median().is_none()) {
            if self.requests[challenger.schedule].least_ns(record.trips) / self.threads > lost_ns {
                challenger.state = State::Excluded;
            }
        }
    }

    /// Selects the champion, or the challenger of the next instance.
    fn decide(&mut self) {
        let in_question = |challenger: &&Challenger| challenger.state == State::InQuestion;
        if self.losses.len() >= BALANCED_INSTANCES && self.losses.median() <= LITTLE {
            return self.select_champion(Reason::Balanced);
        }
        if !self.challengers.iter().any(|challenger| in_question(&challenger)) {
            let is_similar = self.challengers.iter().any(|challenger| challenger.state == State::Similar);
            return self.select_champion(if is_similar { Reason::Similar } else { Reason::Fastest });
        }
        let find = |schedule: usize| self.challengers.iter().filter(in_question).find(|one| one.schedule == schedule);
        while self.pass.last().is_some_and(|schedule| find(*schedule).is_none()) {
            self.pass.pop();
        }
        if self.pass.is_empty() {
            self.pass = self.challengers.iter().filter(in_question).map(|challenger| challenger.schedule).collect();
            self.random.shuffle(&mut self.pass);
            self.passes += 1;
        }
        let challenger = self.pass.last().and_then(|schedule| find(*schedule));
        let gain = HORIZON * self.losses.median().min(MOST_LOST);
        let affordable = SHARE * self.total + ALLOWANCE + gain - self.spent;
        // If the champion has balanced the loop, its next instance shows whether that was chance.
        let may_be_tried = self.before.is_some()
            && self.losses.median() > LITTLE
            && challenger.is_some_and(|one| one.excess() <= affordable);
        self.next = if may_be_tried { self.pass.pop() } else { None };
    }

    fn select_champion(&mut self, reason: Reason) {
        self.selections += 1;
        self.verdict = Some(self.verdict_of(reason));
        self.losses = Recent::default();
    }

    fn verdict_of(&self, reason: Reason) -> Verdict {
        let medians = self.challengers.iter().filter_map(|one| Some((one.schedule, one.median()?)));
        let second = medians.min_by(|one, other| one.1.total_cmp(&other.1));
        let second = second.map(|(schedule, difference)| (schedule, difference.exp()));
        Verdict { schedule: self.champion, reason, rounds: self.passes, second, selections: self.selections }
    }
}

impl Select for Auto {
    fn select(&mut self) -> usize {
        self.next.unwrap_or(self.champion)
    }

    /// During trials, after the first pass: the champion.
    fn verdict(&self) -> Option<Verdict> {
        let Auto { champion: schedule, passes: rounds, selections, .. } = *self;
        let leading = Verdict { schedule, reason: Reason::Leading, rounds, second: None, selections };
        self.verdict.or((rounds > 1).then_some(leading))
    }

    fn record(&mut self, record: &Record) {
        // Without a time, the instance is repeated.
        let Some(time) = record.per_iteration_ns().map(f64::ln) else { return };
        match self.next.take() {
            Some(schedule) => self.challenger_took(schedule, time, record),
            None => self.champion_took(time, record),
        }
    }
}

#[cfg(test)]
mod tests;
