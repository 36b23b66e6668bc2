//! Whether to rotate at all, and how long a period should be.
//!
//! Packing must do no harm. So it is tried, and kept only while it is worth it:
//!
//! 1. **Measure**: the kernel places the threads, and samples tell what they do. *Efficiency* is the useful CPU
//!    time (work, not waiting in loops) of the slots' time. More threads must want to run than there are
//!    slots, and efficiency must leave something to win; else rest.
//! 2. **Rotate** with periods of 0.5 ms, and measure the same efficiency. The controller's own time is missing
//!    from it by itself, since threads do not run then; what its interrupts cost the threads is charged half
//!    as much again.
//! 3. **Periods** are doubled and halved in search of the best efficiency, but not where their cost alone says
//!    that they cannot be better. Neighbours are tried again now and then, since programs change.
//!    Where nearly all time is waited periods are much too long, and what a window shows is noise: then they become
//!    short at once. And in long phases the controller should take little, 2 % of the CPUs' time: some efficiency is
//!    given for that, but not what makes rotation worth it.
//! 4. **Back out** when even the best period does not win 5 % over what was measured without; rest, and the
//!    next rest is twice as long.
//! 5. **Spread** threads that divide evenly among the slots: the kernel may leave three on one CPU and one on
//!    the other for long, and then what was measured is not what it can do. They are rotated for one window,
//!    which leaves them spread, and measured again.
//! 6. **Verify**: from time to time measure again, because the program may have become another one.
//!
//! *Turned down:* deciding from the program's kind (spinning, blocking, not synchronising) alone. The kind is
//! known from samples, but what rotation wins or costs depends on phase lengths, caches and the machine;
//! efficiency is what users pay for.

pub mod search;

use self::search::{Gave, Search, mixed};
pub use self::search::{PERIODS_NS, Periods};
use super::bound::Shape;
use super::seen::Seen;

/// A window is at least this long; shorter ones are all noise.
const WINDOW_NS: u64 = 80_000_000;

/// Time between two samples of a slot while measuring; and where nobody was seen to wait in loops: efficiency does not
/// depend on samples then, and they only tell whether that is still so. A sample costs a virtual machine up to 26 us,
/// for which all wait that meet often.
const LOOK_NS: u64 = 1_000_000;
const LOOK_SELDOM_NS: u64 = 4_000_000;

/// The kernel needs some ticks to spread threads again that were let go ...
const SETTLE_NS: u64 = 80_000_000;

/// ... unless threads that wait in loops leave so little that there is no doubt: nobody should suffer 13
/// times slower barriers for the sake of a figure.
const NO_DOUBT: f64 = 0.75;

/// After the first half of that time efficiency has to be so bad for it.
const NO_DOUBT_SOON: f64 = 0.6;

/// Then this long: 160 samples per slot where threads wait in loops, a standard error of 3 % with two slots.
const MEASURE_NS: u64 = 160_000_000;

/// … and at least this many periods.
const WINDOW_PERIODS: u64 = 40;

/// How long a program is looked at before it is rotated for the first time, unless it is beyond doubt.
pub const FIRST_LOOK_NS: u64 = SETTLE_NS + MEASURE_NS;

/// Nothing worth winning is left above this efficiency.
const GOOD_ENOUGH: f64 = 0.97;

/// What rotation must win to be kept: more than what both figures may be wrong by.
pub const WORTH: f64 = 1.05;

/// Above this there is no doubt, and verification can wait.
const CLEARLY: f64 = 1.2;

/// What rotation costs at the least, of the slots' time: periods of 2 ms at 30 to 40 us each.
const LEAST_COST: f64 = 0.02;

/// What the controller's time costs threads beyond itself, of its own length: a tick of 13 us cost the
/// interrupted thread 20 us on a virtual machine.
const INTERRUPTS: f64 = 0.5;

/// Threads of which fewer than this part of samples spin do not wait in loops.
const SPINS: f64 = 0.02;

/// Threads that wait asleep are only rotated when they run at least this long at a time. Shorter ones lose
/// more to masks that keep an idle CPU from pulling them than they win: 3 threads on 2 CPUs with phases of
/// 0.2 ms took 1.43 instead of 1.38 of the ideal time, of 1 ms the same, of 10 ms 1.10 instead of 1.25.
const LONG_BURST_NS: u64 = 2_000_000;

/// Phases are called long from here on: the controller should take less than 5 % of one CPU of two then.
const LONG_PHASE_NS: u64 = 5_000_000;

/// Threads that block less often than this in a window do not wait for one another.
const SELDOM: u64 = 3;

/// The first rest, and the longest. Programs begin with one thread that prepares the others' work, so what is seen
/// first is often not what comes; measuring costs threads that meet often about 3 % while it lasts.
const REST_NS: (u64, u64) = (500_000_000, 16_000_000_000);

/// The first time between two verifications, and the longest.
const VERIFY_NS: (u64, u64) = (10_000_000_000, 120_000_000_000);

/// What the slots should do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel places threads; nobody looks.
    Rest,
    /// The kernel places threads; samples are wanted, one per slot and this time. No ticks: a tick makes
    /// the kernel choose anew, and what is measured would be a better kernel than there is.
    Measure {
        /// Time between two samples of a slot.
        look_ns: u64,
    },
    /// Threads are rotated with this period.
    Rotate {
        /// The period.
        period_ns: u64,
    },
}

/// What was seen in a window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// What was seen at the slots.
    pub seen: Seen,
    /// CPU time of the program's threads in it, ns.
    pub run_ns: u64,
    /// Times they left their CPUs by their own doing.
    pub blocks: u64,
    /// Slots' time in it: slots × length, ns.
    pub slots_ns: u64,
    /// CPU time of the controller in it.
    pub own_ns: u64,
    /// Threads that wanted to run.
    pub active: usize,
    /// How long phases are, where the last ones were alike.
    pub phase_ns: Option<u64>,
}

/// How a program's threads wait for one another, as far as a window shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In loops.
    Spinning,
    /// Asleep, after running for so long on average, ns.
    Blocking(u64),
    /// Hardly ever, or there are no more of them than CPUs.
    Free,
}

impl Kind {
    /// What a window shows.
    #[must_use]
    pub fn of(window: &Window, slots: usize) -> Kind {
        if window.active <= slots {
            Kind::Free
        } else if window.seen.spinning as f64 > window.seen.samples as f64 * SPINS {
            Kind::Spinning
        } else if efficiency(window) > GOOD_ENOUGH || window.blocks < window.active as u64 * SELDOM {
            // What is missing from the CPUs went to other programs, not into waiting for one another.
            Kind::Free
        } else {
            Kind::Blocking(window.run_ns / window.blocks.max(1))
        }
    }

    /// Whether rotation might help such threads.
    #[must_use]
    pub fn may_gain(self) -> bool {
        match self {
            Kind::Spinning => true,
            Kind::Blocking(burst_ns) => burst_ns >= LONG_BURST_NS,
            Kind::Free => false,
        }
    }
}

/// The state of the decision.
#[derive(Clone, Debug)]
pub struct Mode {
    action: Action,
    search: Search,
    /// Rotate, whatever it gives (experiments).
    always: bool,
    until_ns: u64,
    /// The kernel has had time to spread the threads: the present measurement counts.
    settled: bool,
    /// It has only just begun.
    soon: bool,
    /// Nothing has been found out about the program yet.
    starting: bool,
    /// What the last measurement showed.
    kind: Option<Kind>,
    /// Efficiency without rotation, when it was measured last.
    without: Option<f64>,
    /// They are rotated for one window, to be spread evenly.
    spreading: bool,
    /// They have been since the last rest.
    spread: bool,
    rotated_windows: u32,
    verify_at_ns: u64,
    verify_after_ns: u64,
    rest_ns: u64,
}

impl Mode {
    /// Begins with measuring, or with rotating when `always`.
    #[must_use]
    pub fn new(now_ns: u64, periods: Periods, always: bool) -> Mode {
        let mut mode = Mode {
            action: Action::Rest,
            search: Search::new(periods),
            always,
            until_ns: now_ns,
            settled: false,
            soon: true,
            starting: true,
            kind: None,
            without: None,
            spreading: false,
            spread: false,
            rotated_windows: 0,
            verify_at_ns: 0,
            verify_after_ns: VERIFY_NS.0,
            rest_ns: REST_NS.0,
        };
        if always {
            mode.rotate(now_ns)
        } else {
            mode.measure(now_ns)
        }
        mode
    }

    /// What the slots should do.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// When the present window ends.
    #[must_use]
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Efficiency without rotation, if the kernel had time to settle while it was measured, and, of the period
    /// that is used, with it.
    #[must_use]
    pub fn efficiencies(&self) -> (Option<f64>, Option<f64>) {
        (self.without.filter(|_| self.settled), self.search.efficiency())
    }

    /// How threads wait, as measured last; `None` before.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// A window is over: decide what comes next.
    pub fn decide(&mut self, now_ns: u64, slots: usize, window: &Window) {
        let efficiency = efficiency(window);
        match self.action {
            Action::Rest => self.measure(now_ns),
            Action::Measure { .. } if !self.settled => {
                // Not by efficiency: a program that is only just starting leaves CPUs idle. And who yields is in
                // nobody's way: there is time to measure.
                let no_doubt = if self.soon { NO_DOUBT_SOON } else { NO_DOUBT };
                let kept = 1.0 - window.seen.yielding as f64 / window.seen.spinning.max(1) as f64;
                let in_the_way = Kind::of(window, slots) == Kind::Spinning && spun(window) * kept > 1.0 - no_doubt;
                if in_the_way && self.may_win(efficiency) {
                    self.without = Some(efficiency);
                    self.kind = Some(Kind::Spinning);
                    return self.rotate(now_ns);
                }
                self.action = Action::Measure { look_ns: look_ns(window, slots) };
                if std::mem::take(&mut self.soon) {
                    self.until_ns = now_ns + SETTLE_NS / 2;
                    return;
                }
                self.settled = true;
                self.until_ns = now_ns + MEASURE_NS;
            }
            Action::Measure { look_ns: LOOK_SELDOM_NS } if Kind::of(window, slots) == Kind::Spinning => {
                // They have begun to: too few samples.
                self.action = Action::Measure { look_ns: LOOK_NS };
                self.until_ns = now_ns + MEASURE_NS;
            }
            Action::Measure { .. } => {
                let without = self.without.map_or(efficiency, |before| mixed(before, efficiency));
                self.without = Some(without);
                self.kind = Some(Kind::of(window, slots));
                if !self.kind.is_some_and(Kind::may_gain) || !self.may_win(without) {
                    return self.rest(now_ns);
                }
                let evenly = Shape::new(window.active, slots).is_some_and(|shape| shape.static_slowdown() == 1.0);
                self.spreading = evenly && !std::mem::replace(&mut self.spread, true);
                self.rotate(now_ns);
            }
            Action::Rotate { .. } => self.rotated(now_ns, slots, window, efficiency),
        }
    }

    /// Whether this efficiency without rotation leaves something to win, as far as is known.
    fn may_win(&self, without: f64) -> bool {
        self.search.best_lately().unwrap_or(1.0 - LEAST_COST) >= without * WORTH
    }

    fn rotated(&mut self, now_ns: u64, slots: usize, window: &Window, efficiency: f64) {
        self.rotated_windows += 1;
        let cost = window.own_ns as f64 * (1.0 + INTERRUPTS) / window.slots_ns.max(1) as f64;
        let long_phases = window.phase_ns.is_some_and(|phase_ns| phase_ns >= LONG_PHASE_NS);
        self.search.note(Gave { efficiency, cost, spun: spun(window), slots, long_phases });
        let without = self.without.unwrap_or(0.0);
        let needed = without * WORTH;
        if self.always {
            self.search.next(needed);
            return self.rotate(now_ns);
        }
        if window.active <= slots {
            return self.rest(now_ns);
        }
        if std::mem::take(&mut self.spreading) {
            self.without = None;
            return self.measure(now_ns);
        }
        if self.search.is_too_long() {
            // What shorter ones give is not seen yet.
            self.search.next(needed);
            return self.rotate(now_ns);
        }
        let best = self.search.best_lately().unwrap_or(0.0);
        if self.rotated_windows >= 4 && best < needed || self.rotated_windows >= 2 && best < without {
            if !self.settled && std::mem::take(&mut self.starting) {
                // It was beyond doubt, but the program may only have been starting: measured properly, or again.
                self.without = None;
                return self.measure(now_ns);
            }
            return self.rest(now_ns);
        }
        if self.rotated_windows == 4 {
            // It is worth it here: the next rest is a short one again.
            self.rest_ns = REST_NS.0;
            self.starting = false;
        }
        let clear = self.without.is_some_and(|without| best > without * CLEARLY);
        if now_ns >= self.verify_at_ns + if clear { VERIFY_NS.1 / 2 } else { 0 } {
            self.verify_after_ns = (self.verify_after_ns * 2).min(VERIFY_NS.1);
            return self.measure(now_ns);
        }
        self.search.next(needed);
        self.rotate(now_ns);
    }

    fn measure(&mut self, now_ns: u64) {
        self.action = Action::Measure { look_ns: LOOK_NS };
        (self.settled, self.soon) = (false, true);
        self.until_ns = now_ns + SETTLE_NS / 2;
    }

    fn rotate(&mut self, now_ns: u64) {
        let period_ns = self.search.period_ns();
        if !matches!(self.action, Action::Rotate { .. }) {
            self.rotated_windows = 0;
            self.verify_at_ns = now_ns + self.verify_after_ns;
        }
        self.action = Action::Rotate { period_ns };
        self.until_ns = now_ns + WINDOW_NS.max(WINDOW_PERIODS * period_ns);
    }

    fn rest(&mut self, now_ns: u64) {
        self.action = Action::Rest;
        (self.spread, self.starting) = (false, false);
        self.search.rested();
        self.until_ns = now_ns + self.rest_ns;
        self.rest_ns = (self.rest_ns * 2).min(REST_NS.1);
    }
}

/// How seldom samples may be, after such a window. With few threads nothing is known yet: the program may be starting.
fn look_ns(window: &Window, slots: usize) -> u64 {
    let asleep = window.active > slots && Kind::of(window, slots) != Kind::Spinning;
    if asleep { LOOK_SELDOM_NS } else { LOOK_NS }
}

fn efficiency(window: &Window) -> f64 {
    if window.slots_ns == 0 {
        return 0.0;
    }
    let useful_ns = window.run_ns as f64 * (1.0 - spinning(window)) - window.own_ns as f64 * INTERRUPTS;
    (useful_ns / window.slots_ns as f64).max(0.0)
}

/// The part of the slots' time that was spent waiting in loops.
fn spun(window: &Window) -> f64 {
    window.run_ns as f64 * spinning(window) / window.slots_ns.max(1) as f64
}

/// The part of the threads' time that was spent waiting in loops.
fn spinning(window: &Window) -> f64 {
    window.seen.spinning_part(window.run_ns / window.blocks.max(1))
}

#[cfg(test)]
mod tests;
