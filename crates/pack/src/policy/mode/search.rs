//! Searches for the best length of the scheduling periods while threads are rotated.

/// The scheduling periods that are tried, ns.
pub const PERIODS_NS: [u64; 7] = [62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];

/// Index in [`PERIODS_NS`] of the scheduling period that is tried first. If phases (times between two barriers) last
/// 0.2 to 50 ms, it is within a factor of four of the optimum.
pub(super) const FIRST_PERIOD: usize = 3;

/// Index of the first and shortest period of the search in the PALM paper: 0.125 ms.
const PALM_FIRST_PERIOD: usize = 1;

/// A period counts as better than another one if its result (see [`Gave::worth`]) is larger by more than this factor;
/// smaller differences are noise.
const BETTER: f64 = 1.01;

/// If the threads together work less than this fraction of one CPU's time, and spin for more than half of all CPUs'
/// time, no thread is considered to be working. The usual cause is that all other threads wait for one thread, which
/// does not get a CPU because scheduling periods are too long. The efficiency of such a window is so small that it is
/// mostly noise.
const SOMEBODY_WORKS: f64 = 0.5;

/// If phases (times between two barriers) are long, rotation should cost at most this fraction of the CPUs' time. The
/// cost is the controller's CPU time plus half of it for its interrupts. At this limit, the controller itself takes 2 %
/// of the CPUs' time: with two CPUs, 4 % of one CPU.
const DEAR: f64 = 0.030;

/// If phases (times between two barriers) are long, a scheduling period whose cost is at most [`DEAR`] gets this bonus
/// on its efficiency. So about this much efficiency is given up for a period that costs little.
const SPARED: f64 = 0.05;

/// Factor by which the cost of rotation (the controller's CPU time and interrupts) grows if the scheduling period is
/// halved and phases are long. It is less than 2, because periods become short only towards the end of a phase. Found
/// by trial in the simulator.
const HALVED_COSTS: f64 = 1.5;

/// After this many measuring windows the efficiency of a period is outdated: the program may have changed.
const STALE_WINDOWS: u32 = 24;

/// A rest ([`Action::Rest`](super::Action::Rest): cox neither rotates threads nor measures) makes all results older by
/// this many measuring windows. So a period that failed is tried again after the fifth rest in a row: `5 × 6 >`
/// [`STALE_WINDOWS`].
const REST_WINDOWS: u32 = 6;

/// How the length of periods is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Periods {
    /// cox searches for the scheduling period with the best efficiency.
    Adapted,
    /// The rule of the PALM paper: 0.125 ms at first; doubled after each measuring window with a better efficiency than
    /// the one before, else halved.
    Doubled,
    /// All periods have this length, ns.
    Fixed(u64),
}

/// The result of a measuring window in which threads were rotated with one scheduling period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gave {
    /// The program's useful CPU time (without spinning, and less the cost of cox's interrupts) ÷ time of all CPUs of
    /// the pack.
    pub(super) efficiency: f64,
    /// CPU time of the controller plus the cost of its interrupts, as a fraction of the CPUs' time.
    pub(super) cost: f64,
    /// The fraction of the CPUs' time that was spent spinning.
    pub(super) spun: f64,
    /// Number of CPUs of the pack.
    pub(super) slots: usize,
    /// True if the program's phases (the times between two barriers) are so long that cheap periods are preferred.
    pub(super) long_phases: bool,
}

impl Gave {
    fn nobody_works(&self) -> bool {
        self.spun > 0.5 && self.efficiency * (self.slots as f64) < SOMEBODY_WORKS
    }

    /// Returns the figure by which periods are compared: the efficiency, plus [`SPARED`] if phases are long, the cost
    /// of the period is at most [`DEAR`], and the efficiency is at least `needed`.
    fn worth(&self, needed: f64) -> f64 {
        let spares = self.long_phases && self.cost <= DEAR && self.efficiency >= needed;
        self.efficiency + if spares { SPARED } else { 0.0 }
    }
}

/// The result of the last use of a period.
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

/// The period in use, and the results of all periods.
#[derive(Clone, Debug)]
pub(super) struct Search {
    periods: Periods,
    tried: [Tried; PERIODS_NS.len()],
    period: usize,
    /// Number of consecutive measuring windows in which no thread worked.
    stalled: u32,
    /// True if the last measuring window showed that the scheduling period is much longer than the program's phases
    /// (the times between two barriers).
    too_long: bool,
    /// Efficiency in the last measuring window, and in the one before.
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

    /// Returns the period in use, ns.
    pub(super) fn period_ns(&self) -> u64 {
        match self.periods {
            Periods::Adapted | Periods::Doubled => PERIODS_NS[self.period],
            Periods::Fixed(period_ns) => period_ns,
        }
    }

    /// Returns the efficiency of the period in use, if it has been used before.
    pub(super) fn efficiency(&self) -> Option<f64> {
        let tried = &self.tried[self.period];
        tried.windows_ago.map(|_| tried.gave.efficiency)
    }

    /// Returns the best efficiency of all periods whose result is recent.
    pub(super) fn best_lately(&self) -> Option<f64> {
        self.tried.iter().filter(|tried| tried.is_known()).map(|tried| tried.gave.efficiency).reduce(f64::max)
    }

    /// Stores the result of a measuring window in which threads were rotated with the period in use.
    pub(super) fn note(&mut self, gave: Gave) {
        self.age(1);
        self.stalled = if self.periods == Periods::Adapted && gave.nobody_works() { self.stalled + 1 } else { 0 };
        let tried = &mut self.tried[self.period];
        // Of consecutive measuring windows in which no thread works, the first is ignored if the period already has a
        // recent result: the thread for which all others wait may only have been asleep.
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

    /// Returns whether the period in use is much longer than the program's phases, so that shorter periods will be
    /// tried.
    pub(super) fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// Called when cox begins to rest (neither rotates nor measures): makes all results older by [`REST_WINDOWS`].
    pub(super) fn rested(&mut self) {
        self.age(REST_WINDOWS);
    }

    fn age(&mut self, windows: u32) {
        for tried in &mut self.tried {
            tried.windows_ago = tried.windows_ago.map(|ago| ago.saturating_add(windows));
        }
    }

    /// Chooses the next scheduling period. A period whose efficiency is below `needed` is not preferred for its low
    /// cost (see `worth`).
    pub(super) fn next(&mut self, needed: f64) {
        self.period = match self.periods {
            Periods::Adapted if self.is_too_long() => {
                // The program's phases are much shorter than the period in use. Results from longer phases tell nothing
                // about such short ones.
                self.tried = Default::default();
                self.period.saturating_sub(2)
            }
            Periods::Adapted => self.adapted(needed),
            Periods::Doubled if self.last.0 > self.last.1 => (self.period + 1).min(PERIODS_NS.len() - 1),
            Periods::Doubled => (self.period - 1).max(PALM_FIRST_PERIOD),
            Periods::Fixed(_) => self.period,
        };
    }

    /// Returns the index of the period to use next: the one with the best result among the period in use and the next
    /// shorter and longer periods. If the period in use is the best, returns one of these neighbours instead, if it has
    /// no recent result and could be better. `needed`: see `worth`.
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

    /// Returns whether `period`, the next shorter or longer one, could be better than the period in use.
    ///
    /// Measurements and simulations show: if phases are longer than periods, half the period means half the time `s`
    /// spent spinning, and at most twice the cost `c`. To miss no good period, the estimate is optimistic. A shorter
    /// period changes efficiency by `0.75 s - c`, instead of `0.5 s - c`. A longer one changes it by `0.5 c - 0.5 s`,
    /// instead of `0.5 c - s`.
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

/// Returns `0.7 × before + 0.3 × now`, two efficiencies or costs. The old value weighs more, because a single measuring
/// window is noisy; the new one counts, because programs change.
pub(super) fn mixed(before: f64, now: f64) -> f64 {
    before * 0.7 + now * 0.3
}
