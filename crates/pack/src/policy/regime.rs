//! Whether to rotate at all, and how long a turn should be.
//!
//! Packing must do no harm. So it is tried, and kept only while it is worth it:
//!
//! 1. **Measure**: the kernel places the threads, and samples tell what they do. *Efficiency* is the useful CPU
//!    time (work, not waiting in loops) of the seats' time. More threads must want to run than there are
//!    seats, and efficiency must leave something to win; else rest.
//! 2. **Rotate** with turns of 0.5 ms, and measure the same efficiency. The controller's own time is missing
//!    from it by itself, since threads do not run then; what its interrupts cost the threads is charged half
//!    as much again.
//! 3. **Turns** are doubled and halved in search of the best efficiency, but not where their cost alone says
//!    that they cannot be better. Neighbours are tried again now and then, since programs change.
//! 4. **Back out** when even the best turn does not win 5 % over what was measured without; rest, and the
//!    next rest is twice as long.
//! 5. **Verify**: from time to time measure again, because the program may have become another one.
//!
//! *Turned down:* deciding from the program's kind (spinning, blocking, not synchronising) alone. The kind is
//! known from samples, but what rotation wins or costs depends on phase lengths, caches and the machine;
//! efficiency is what users pay for.

use super::seen::Seen;

/// Lengths of turns that are tried.
pub const TURNS_NS: [u64; 7] = [62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];

/// Where the search begins: within a factor of four of the optimum for phases from 0.2 to 50 ms.
const FIRST_TURN: usize = 3;

/// Where the paper's search begins, and it never goes below: 0.125 ms.
const PALM_FIRST_TURN: usize = 1;

/// A window is at least this long; shorter ones are all noise.
const WINDOW_NS: u64 = 80_000_000;

/// Time between two samples of a seat while measuring. A sample costs a virtual machine up to 26 us.
const LOOK_NS: u64 = 1_000_000;

/// The kernel needs some ticks to spread threads again that were let go ...
const SETTLE_NS: u64 = 80_000_000;

/// ... unless threads that wait in loops leave so little that there is no doubt: nobody should suffer 13
/// times slower barriers for the sake of a figure.
const NO_DOUBT: f64 = 0.75;

/// After the first half of that time efficiency has to be so bad for it.
const NO_DOUBT_SOON: f64 = 0.6;

/// Then this long: 160 samples per seat, a standard error of 3 % with two seats.
const MEASURE_NS: u64 = 160_000_000;

/// … and at least this many turns.
const WINDOW_TURNS: u64 = 40;

/// How long a program is looked at before it is rotated for the first time, unless it is beyond doubt.
pub const FIRST_LOOK_NS: u64 = SETTLE_NS + MEASURE_NS;

/// Nothing worth winning is left above this efficiency.
const GOOD_ENOUGH: f64 = 0.97;

/// What rotation must win to be kept: more than what both figures may be wrong by.
pub const WORTH: f64 = 1.05;

/// Above this there is no doubt, and verification can wait.
const CLEARLY: f64 = 1.2;

/// One percent better, or it is only noise.
const BETTER: f64 = 1.01;

/// After so many windows a neighbouring turn's efficiency is old.
const STALE_WINDOWS: u32 = 24;

/// What the controller's time costs threads beyond itself, of its own length: a tick of 13 us cost the
/// interrupted thread 20 us on a virtual machine.
const INTERRUPTS: f64 = 0.5;

/// Threads of which fewer than this part of samples spin do not wait in loops.
const SPINS: f64 = 0.02;

/// Threads that wait asleep are only rotated when they run at least this long at a time. Shorter ones lose
/// more to masks that keep an idle CPU from pulling them than they win: 3 threads on 2 CPUs with phases of
/// 0.2 ms took 1.43 instead of 1.38 of the ideal time, of 1 ms the same, of 10 ms 1.10 instead of 1.25.
const LONG_BURST_NS: u64 = 2_000_000;

/// Threads that block less often than this in a window do not wait for one another.
const SELDOM: u64 = 3;

/// The first rest, and the longest.
const REST_NS: (u64, u64) = (1_000_000_000, 30_000_000_000);

/// The first time between two verifications, and the longest.
const VERIFY_NS: (u64, u64) = (10_000_000_000, 120_000_000_000);

/// What the seats should do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel places threads; nobody looks.
    Rest,
    /// The kernel places threads; samples are wanted, one per seat and this time. No ticks: a tick makes
    /// the kernel choose anew, and what is measured would be a better kernel than there is.
    Measure {
        /// Time between two samples of a seat.
        look_ns: u64,
    },
    /// Seats are taken in turns of this length.
    Rotate {
        /// Length of a turn.
        turn_ns: u64,
    },
}

/// What was seen in a window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// What was seen at the seats.
    pub seen: Seen,
    /// CPU time of the program's threads in it, ns.
    pub run_ns: u64,
    /// Times they left their CPUs by their own doing.
    pub blocks: u64,
    /// Seats' time in it: seats × length, ns.
    pub seats_ns: u64,
    /// CPU time of the controller in it.
    pub own_ns: u64,
    /// Threads that wanted to run.
    pub active: usize,
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
    pub fn of(window: &Window, seats: usize) -> Kind {
        if window.active <= seats {
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

/// How turns are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Searched for.
    Adapted,
    /// The PALM paper's rule: 0.125 ms at first; doubled after each window that was better than the one
    /// before, else halved.
    Doubled,
    /// Always this long.
    Fixed(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    efficiency: f64,
    /// The controller's part of the seats' time, and what its interrupts cost.
    cost: f64,
    /// The part of the seats' time that was spent waiting in loops.
    spun: f64,
    windows_ago: Option<u32>,
}

/// The state of the decision.
#[derive(Clone, Debug)]
pub struct Regime {
    action: Action,
    turns: Turns,
    /// Rotate, whatever it gives (experiments).
    always: bool,
    until_ns: u64,
    /// The kernel has had time to spread the threads: the present measurement counts.
    settled: bool,
    /// It has only just begun.
    soon: bool,
    /// What the last measurement showed.
    kind: Option<Kind>,
    /// Efficiency without rotation, when it was measured last.
    without: Option<f64>,
    tried: [Tried; TURNS_NS.len()],
    turn: usize,
    /// Efficiency in the window before.
    before: f64,
    rotated_windows: u32,
    verify_at_ns: u64,
    verify_after_ns: u64,
    rest_ns: u64,
}

impl Regime {
    /// Begins with measuring, or with rotating when `always`.
    #[must_use]
    pub fn new(now_ns: u64, turns: Turns, always: bool) -> Regime {
        let mut regime = Regime {
            action: Action::Rest,
            turns,
            always,
            until_ns: now_ns,
            settled: false,
            soon: true,
            kind: None,
            without: None,
            tried: [Tried::default(); TURNS_NS.len()],
            turn: if turns == Turns::Doubled { PALM_FIRST_TURN } else { FIRST_TURN },
            before: 0.0,
            rotated_windows: 0,
            verify_at_ns: 0,
            verify_after_ns: VERIFY_NS.0,
            rest_ns: REST_NS.0,
        };
        if always {
            regime.rotate(now_ns)
        } else {
            regime.measure(now_ns)
        }
        regime
    }

    /// What the seats should do.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// When the present window ends.
    #[must_use]
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Efficiency without rotation, if the kernel had time to settle while it was measured, and, of the turn
    /// that is used, with it.
    #[must_use]
    pub fn efficiencies(&self) -> (Option<f64>, Option<f64>) {
        let with = self.tried[self.turn];
        (self.without.filter(|_| self.settled), with.windows_ago.map(|_| with.efficiency))
    }

    /// How threads wait, as measured last; `None` before.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// A window is over: decide what comes next.
    pub fn decide(&mut self, now_ns: u64, seats: usize, window: &Window) {
        let efficiency = efficiency(window);
        match self.action {
            Action::Rest => self.measure(now_ns),
            Action::Measure { .. } if !self.settled => {
                // Not by efficiency: a program that is only just starting leaves CPUs idle. And who yields is in
                // nobody's way: there is time to measure.
                let no_doubt = if self.soon { NO_DOUBT_SOON } else { NO_DOUBT };
                let kept = 1.0 - window.seen.yielding as f64 / window.seen.spinning.max(1) as f64;
                if Kind::of(window, seats) == Kind::Spinning && spun(window) * kept > 1.0 - no_doubt {
                    self.without = Some(efficiency);
                    self.kind = Some(Kind::of(window, seats));
                    return self.rotate(now_ns);
                }
                if std::mem::take(&mut self.soon) {
                    self.until_ns = now_ns + SETTLE_NS / 2;
                    return;
                }
                self.settled = true;
                self.until_ns = now_ns + MEASURE_NS;
            }
            Action::Measure { .. } => {
                self.without = Some(self.without.map_or(efficiency, |before| mixed(before, efficiency)));
                self.kind = Some(Kind::of(window, seats));
                if self.kind.is_some_and(Kind::may_gain) {
                    self.rotate(now_ns);
                } else {
                    self.rest(now_ns);
                }
            }
            Action::Rotate { .. } => self.rotated(now_ns, seats, window, efficiency),
        }
    }

    fn rotated(&mut self, now_ns: u64, seats: usize, window: &Window, efficiency: f64) {
        self.rotated_windows += 1;
        for tried in &mut self.tried {
            tried.windows_ago = tried.windows_ago.map(|ago| ago + 1);
        }
        let tried = &mut self.tried[self.turn];
        tried.efficiency = if tried.windows_ago.is_some() { mixed(tried.efficiency, efficiency) } else { efficiency };
        tried.cost = window.own_ns as f64 * (1.0 + INTERRUPTS) / window.seats_ns.max(1) as f64;
        tried.spun = spun(window);
        tried.windows_ago = Some(0);
        if self.turns == Turns::Doubled {
            self.turn = match efficiency > self.before {
                true => (self.turn + 1).min(TURNS_NS.len() - 1),
                false => (self.turn - 1).max(PALM_FIRST_TURN),
            };
            self.before = efficiency;
        }
        if self.always {
            return self.next_turn(now_ns);
        }
        if window.active <= seats {
            return self.rest(now_ns);
        }
        // What a turn gave long ago says nothing about the program of now.
        let lately = |tried: &&Tried| tried.windows_ago.is_some_and(|ago| ago <= STALE_WINDOWS);
        let best = self.tried.iter().filter(lately).map(|t| t.efficiency).fold(0.0, f64::max);
        let worth = |factor: f64| self.without.is_none_or(|without| best >= without * factor);
        if self.rotated_windows >= 4 && !worth(WORTH) || self.rotated_windows >= 2 && !worth(1.0) {
            return self.rest(now_ns);
        }
        if self.rotated_windows == 4 {
            // It is worth it here: the next rest is a short one again.
            self.rest_ns = REST_NS.0;
        }
        let clear = self.without.is_some_and(|without| best > without * CLEARLY);
        if now_ns >= self.verify_at_ns + if clear { VERIFY_NS.1 / 2 } else { 0 } {
            self.verify_after_ns = (self.verify_after_ns * 2).min(VERIFY_NS.1);
            return self.measure(now_ns);
        }
        self.next_turn(now_ns);
    }

    /// A neighbour that has not been tried (lately), else the best of three.
    fn next_turn(&mut self, now_ns: u64) {
        if self.turns == Turns::Adapted {
            let neighbours = [self.turn.checked_sub(1), (self.turn + 1 < TURNS_NS.len()).then_some(self.turn + 1)];
            let best = neighbours.into_iter().flatten().fold(self.turn, |best, other| {
                if self.tried[other].windows_ago.is_some()
                    && self.tried[other].efficiency > self.tried[best].efficiency * BETTER
                {
                    other
                } else {
                    best
                }
            });
            let unknown = |&turn: &usize| {
                self.tried[turn].windows_ago.is_none_or(|ago| ago > STALE_WINDOWS) && self.may_be_better(turn)
            };
            self.turn =
                if best != self.turn { best } else { neighbours.into_iter().flatten().find(unknown).unwrap_or(best) };
        }
        self.rotate(now_ns);
    }

    /// Whether a neighbour of the present turn could be better. Costs double with each halving of the turn;
    /// waiting in loops halves with it, measured and simulated, where phases are longer than turns. So that
    /// nothing good is missed, a halving is given three quarters of the waiting, and a doubling spared half of it.
    fn may_be_better(&self, turn: usize) -> bool {
        let Tried { efficiency, cost, spun, .. } = self.tried[self.turn];
        let gain = if turn < self.turn { 0.75 * spun - cost } else { 0.5 * (cost - spun) };
        cost == 0.0 || efficiency + gain > efficiency * BETTER
    }

    fn measure(&mut self, now_ns: u64) {
        self.action = Action::Measure { look_ns: LOOK_NS };
        (self.settled, self.soon) = (false, true);
        self.until_ns = now_ns + SETTLE_NS / 2;
    }

    fn rotate(&mut self, now_ns: u64) {
        let turn_ns = match self.turns {
            Turns::Adapted | Turns::Doubled => TURNS_NS[self.turn],
            Turns::Fixed(turn_ns) => turn_ns,
        };
        if !matches!(self.action, Action::Rotate { .. }) {
            self.rotated_windows = 0;
            self.verify_at_ns = now_ns + self.verify_after_ns;
        }
        self.action = Action::Rotate { turn_ns };
        self.until_ns = now_ns + WINDOW_NS.max(WINDOW_TURNS * turn_ns);
    }

    fn rest(&mut self, now_ns: u64) {
        self.action = Action::Rest;
        self.until_ns = now_ns + self.rest_ns;
        self.rest_ns = (self.rest_ns * 2).min(REST_NS.1);
    }
}

/// Mostly the old: a window is noisy, and programs change.
fn mixed(before: f64, now: f64) -> f64 {
    before * 0.7 + now * 0.3
}

fn efficiency(window: &Window) -> f64 {
    if window.seats_ns == 0 {
        return 0.0;
    }
    let useful_ns = window.run_ns as f64 * (1.0 - spinning(window)) - window.own_ns as f64 * INTERRUPTS;
    (useful_ns / window.seats_ns as f64).max(0.0)
}

/// The part of the seats' time that was spent waiting in loops.
fn spun(window: &Window) -> f64 {
    window.run_ns as f64 * spinning(window) / window.seats_ns.max(1) as f64
}

/// The part of the threads' time that was spent waiting in loops.
fn spinning(window: &Window) -> f64 {
    window.seen.spinning_part(window.run_ns / window.blocks.max(1))
}

#[cfg(test)]
mod tests;
