//! How long a period should be: searched for while threads are rotated.

/// Periods that are tried.
pub const PERIODS_NS: [u64; 7] = [62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];

/// Where the search begins: within a factor of four of the optimum for phases from 0.2 to 50 ms.
pub(super) const FIRST_PERIOD: usize = 3;

/// Where the paper's search begins, and it never goes below: 0.125 ms.
const PALM_FIRST_PERIOD: usize = 1;

/// One percent better, or it is only noise.
const BETTER: f64 = 1.01;

/// Where useful time is less than this of one CPU, and more than half of all time is waited in loops, nobody works.
/// There is nearly always a thread for which the others wait, so it does not get a CPU: periods are too long. What such
/// a window gave is so little that it is mostly noise.
const SOMEBODY_WORKS: f64 = 0.5;

/// More of the slots' time than this should periods not cost where phases are long, with what interrupts cost: the
/// controller takes 2 % of it then, which is 4 % of one CPU of two.
const DEAR: f64 = 0.030;

/// As much efficiency may be lost for that.
const SPARED: f64 = 0.05;

/// Periods of half the length cost so many times as much in long phases, where periods become short only towards the end;
/// by trial in the simulator.
const HALVED_COSTS: f64 = 1.5;

/// After so many windows a period's efficiency is old: it says nothing about the program of now.
const STALE_WINDOWS: u32 = 24;

/// As so many windows counts a rest: what failed is tried again after the fifth in a row.
const REST_WINDOWS: u32 = 6;

/// How periods are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Periods {
    /// Searched for.
    Adapted,
    /// The PALM paper's rule: 0.125 ms at first; doubled after each window that was better than the one
    /// before, else halved.
    Doubled,
    /// Always this long.
    Fixed(u64),
}

/// What a period gave in a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gave {
    /// Useful time of the slots' time.
    pub(super) efficiency: f64,
    /// The controller's part of the slots' time, and what its interrupts cost.
    pub(super) cost: f64,
    /// The part of the slots' time that was spent waiting in loops.
    pub(super) spun: f64,
    /// How many slots there are.
    pub(super) slots: usize,
    /// Phases are so long that the controller should cost little.
    pub(super) long_phases: bool,
}

impl Gave {
    fn nobody_works(&self) -> bool {
        self.spun > 0.5 && self.efficiency * (self.slots as f64) < SOMEBODY_WORKS
    }

    /// Efficiency, and more for a period that costs little in long phases; not for one that is not efficient enough to
    /// be used at all.
    fn worth(&self, needed: f64) -> f64 {
        let spares = self.long_phases && self.cost <= DEAR && self.efficiency >= needed;
        self.efficiency + if spares { SPARED } else { 0.0 }
    }
}

/// What a period gave when it was used last.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    gave: Gave,
    windows_ago: Option<u32>,
}

impl Tried {
    fn is_known(&self) -> bool {
        self.windows_ago.is_some_and(|ago| ago <= STALE_WINDOWS)
    }
}

/// The period in use, and what is known about it and others.
#[derive(Clone, Debug)]
pub(super) struct Search {
    periods: Periods,
    tried: [Tried; PERIODS_NS.len()],
    period: usize,
    /// Windows in a row in which nobody worked.
    stalled: u32,
    /// The last window showed that the period is much longer than phases.
    too_long: bool,
    /// Efficiency in the last window, and in the one before.
    last: (f64, f64),
}

impl Search {
    pub(super) fn new(periods: Periods) -> Search {
        let period = if periods == Periods::Doubled { PALM_FIRST_PERIOD } else { FIRST_PERIOD };
        Search {
            periods,
            tried: [Tried::default(); PERIODS_NS.len()],
            period,
            stalled: 0,
            too_long: false,
            last: (0.0, 0.0),
        }
    }

    /// The period in use, ns.
    pub(super) fn period_ns(&self) -> u64 {
        match self.periods {
            Periods::Adapted | Periods::Doubled => PERIODS_NS[self.period],
            Periods::Fixed(period_ns) => period_ns,
        }
    }

    /// Of the period in use, if it has been used before.
    pub(super) fn efficiency(&self) -> Option<f64> {
        let tried = &self.tried[self.period];
        tried.windows_ago.map(|_| tried.gave.efficiency)
    }

    /// The best efficiency of all periods of which it is known.
    pub(super) fn best_lately(&self) -> Option<f64> {
        self.tried.iter().filter(|tried| tried.is_known()).map(|tried| tried.gave.efficiency).reduce(f64::max)
    }

    /// A window with the period in use is over.
    pub(super) fn note(&mut self, gave: Gave) {
        self.age(1);
        self.stalled = if self.periods == Periods::Adapted && gave.nobody_works() { self.stalled + 1 } else { 0 };
        let tried = &mut self.tried[self.period];
        // Once in a while the thread for which all wait is asleep: that says nothing about a period that was good.
        let passes = self.stalled == 1 && tried.is_known();
        self.too_long = self.stalled > 0 && !passes && self.period > 0;
        if passes {
            return;
        }
        let mean = |before: f64, now: f64| if tried.is_known() { mixed(before, now) } else { now };
        let (efficiency, cost) = (mean(tried.gave.efficiency, gave.efficiency), mean(tried.gave.cost, gave.cost));
        *tried = Tried { gave: Gave { efficiency, cost, ..gave }, windows_ago: Some(0) };
        self.last = (gave.efficiency, self.last.0);
    }

    /// The period in use is much longer than phases, and shorter ones will be tried.
    pub(super) fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// The threads were left to the kernel for a while.
    pub(super) fn rested(&mut self) {
        self.age(REST_WINDOWS);
    }

    fn age(&mut self, windows: u32) {
        for tried in &mut self.tried {
            tried.windows_ago = tried.windows_ago.map(|ago| ago.saturating_add(windows));
        }
    }

    /// Chooses the period to use next. Periods of less efficiency than `needed` are not used for long.
    pub(super) fn next(&mut self, needed: f64) {
        self.period = match self.periods {
            Periods::Adapted if self.is_too_long() => {
                // What was before says nothing about a program whose phases are so short.
                self.tried = Default::default();
                self.period.saturating_sub(2)
            }
            Periods::Adapted => self.adapted(needed),
            Periods::Doubled if self.last.0 > self.last.1 => (self.period + 1).min(PERIODS_NS.len() - 1),
            Periods::Doubled => (self.period - 1).max(PALM_FIRST_PERIOD),
            Periods::Fixed(_) => self.period,
        };
    }

    /// A neighbour that has not been tried (lately), else the best of three.
    fn adapted(&self, needed: f64) -> usize {
        let worth = |period: usize| self.tried[period].gave.worth(needed);
        let neighbours = [self.period.checked_sub(1), (self.period + 1 < PERIODS_NS.len()).then_some(self.period + 1)];
        let neighbours = || neighbours.into_iter().flatten();
        let best = neighbours().fold(self.period, |best, other| {
            let clearly = worth(other) > worth(best) * BETTER;
            if self.tried[other].windows_ago.is_some() && clearly { other } else { best }
        });
        if best != self.period {
            return best;
        }
        neighbours()
            .find(|&period| !self.tried[period].is_known() && self.may_be_better(period, needed))
            .unwrap_or(best)
    }

    /// Whether a neighbour of the present period could be better. Costs at most double with each halving of the period;
    /// waiting in loops halves with it, measured and simulated, where phases are longer than periods. So that
    /// nothing good is missed, a halving is given three quarters of the waiting, and a doubling spared half of it.
    fn may_be_better(&self, period: usize, needed: f64) -> bool {
        let gave = self.tried[self.period].gave;
        let Gave { efficiency, cost, spun, .. } = gave;
        let (gain, would_cost) = if period < self.period {
            (0.75 * spun - cost, cost * HALVED_COSTS)
        } else {
            (0.5 * (cost - spun), cost / HALVED_COSTS)
        };
        let other = Gave { efficiency: efficiency + gain, cost: would_cost, ..gave };
        cost == 0.0 || other.worth(needed) > gave.worth(needed) * BETTER
    }
}

/// Mostly the old: a window is noisy, and programs change.
pub(super) fn mixed(before: f64, now: f64) -> f64 {
    before * 0.7 + now * 0.3
}
