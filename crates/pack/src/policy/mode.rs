//! The mode: whether to rotate threads at all, and how long a period should be.
//!
//! Packing must do no harm. So rotation is tried, and kept only while it is worth it:
//!
//! 1. **Measure**: the kernel places the threads, and samples show what they do. *Efficiency* is useful CPU time (work
//!    without spinning) divided by the time of all CPUs of the pack. Rotation is tried only if more threads are
//!    runnable than there are CPUs, and efficiency leaves something to gain. Otherwise cox *rests*: it takes no samples
//!    for some time, and then measures again.
//! 2. **Rotate** with periods of 0.5 ms, and measure efficiency the same way. While the controller uses a CPU, no
//!    thread of the program runs there, so the controller's CPU time already lowers the measured efficiency. Half of
//!    that time is subtracted in addition, because the controller's interrupts also slow the threads.
//! 3. **Search the period**: scheduling periods are doubled and halved to find the best efficiency, except where their
//!    cost alone shows that they cannot be better. Neighbouring periods are tried again from time to time, because
//!    programs change. If nearly all time is spent spinning, periods are much too long and a measuring window shows
//!    only noise; then periods become short immediately. In long phases the controller should take at most 2 % of the
//!    CPUs' time. Some efficiency is given up for that, but not so much that rotation is no longer worth it.
//! 4. **Back out** if even the best period does not gain 5 % over the kernel, or the program does not advance faster
//!    (`progress`). Then cox rests, and the next rest will be twice as long.
//! 5. **Spread** threads whose number is a multiple of the number of CPUs. The kernel may leave three threads on one
//!    CPU and one on the other for a long time, and then the measured efficiency is not what the kernel can reach. So
//!    the threads are rotated for one measuring window, which leaves them evenly spread, and efficiency without
//!    rotation is measured again.
//! 6. **Verify**: measure again from time to time, because the program may behave differently now.
//!
//! *Alternative that was rejected:* decide only from how the program waits (spinning, blocking, or not at all).
//! Samples show this, but the gain or loss of rotation also depends on phase lengths, caches and the machine.

mod progress;
pub mod search;

use self::progress::{Counted, Progress};
use self::search::{Gave, Search, mixed};
pub use self::search::{PERIODS_NS, Periods};
use super::seen::Seen;

/// Minimum length of a measuring window, ns: in shorter windows the efficiency would be too noisy.
const WINDOW_NS: u64 = 80_000_000;

/// Time between two samples of a CPU while cox measures, ns: `LOOK_NS` if threads spin or might spin, `LOOK_SELDOM_NS`
/// if the samples so far show no spinning. In the second case efficiency is calculated without samples, and they are
/// only needed to notice when a thread begins to spin. A sample takes up to 26 us on a virtual machine. If threads
/// often wait for each other, a sample delays all of them.
const LOOK_NS: u64 = 1_000_000;
const LOOK_SELDOM_NS: u64 = 4_000_000;

/// Time that the kernel needs to spread the threads over the CPUs again after rotation ends, ns: several of its ticks.
const SETTLE_NS: u64 = 80_000_000;

/// If spinning takes more than `1 - NO_DOUBT` (25 %) of the CPUs' time, cox begins to rotate before the end of the
/// settling time ([`SETTLE_NS`]). The gain is then beyond doubt. A longer measurement would only make its figure more
/// exact, and meanwhile the program's barriers could be up to 13 times slower.
const NO_DOUBT: f64 = 0.75;

/// Used instead of [`NO_DOUBT`] in the first half of the settling time ([`SETTLE_NS`]): rotation then begins early only
/// if spinning takes more than 40 % of the CPUs' time.
const NO_DOUBT_SOON: f64 = 0.6;

/// How long efficiency is measured after the settling time, ns: 160 samples per CPU if threads spin, which gives a
/// standard error of 3 % with two CPUs.
const MEASURE_NS: u64 = 160_000_000;

/// Minimum length of a measuring window while threads are rotated, in scheduling periods.
const WINDOW_PERIODS: u64 = 40;

/// How long a program is observed before its first rotation, unless the gain is beyond doubt.
pub const FIRST_LOOK_NS: u64 = SETTLE_NS + MEASURE_NS;

/// If the efficiency without rotation is above this, rotation cannot gain enough to be worth its cost.
pub const GOOD_ENOUGH: f64 = 0.97;

/// Rotation is kept if efficiency with it is at least this factor times efficiency without it. The margin is larger
/// than the measurement errors of these two efficiencies.
pub const WORTH: f64 = 1.05;

/// Number of measuring windows after which it is decided whether rotation helps.
const TRIAL: u32 = 4;

/// If the first window with rotation has at most this factor times the efficiency or the speed without it, rotation does
/// not help, and a second window would only cost more.
const HOPELESS: f64 = 0.9;

/// If efficiency with rotation is more than this factor times efficiency without it, rotation is certainly worth its
/// cost. Then efficiency without rotation is measured again later than usual.
const CLEARLY: f64 = 1.2;

/// The lowest cost of rotation, as a fraction of the CPUs' time: each period of 2 ms costs 30 to 40 us.
const LEAST_COST: f64 = 0.02;

/// The least error of an efficiency, relative to it: programs are not the same in each window.
const LEAST_ERROR: f64 = 0.03;

/// What the controller costs threads beyond its own CPU time, as a fraction of that time: a tick (cox's ticker thread
/// takes the CPU and decides) of 13 us cost the interrupted thread 20 us on a virtual machine.
const INTERRUPTS: f64 = 0.5;

/// If at most this fraction of the samples finds a thread spinning, the program's threads count as not spinning.
pub const SPINS: f64 = 0.02;

/// Threads that sleep or yield while they wait are only rotated if they run at least this long between two sleeps or
/// barriers, ns. Threads
/// that run for a shorter time lose more than they gain: while they are bound to single CPUs, idle CPUs cannot pull
/// them. 3 threads on 2 CPUs took 1.43 of the ideal time with rotation and 1.38 without it, if phases (times between
/// two barriers) lasted 0.2 ms. The times were equal with phases of 1 ms; with 10 ms they were 1.10 with rotation and
/// 1.25 without it.
pub const LONG_BURST_NS: u64 = 2_000_000;

/// A phase (the time from one barrier to the next) of at least this length counts as long, ns. In long phases, cox
/// prefers periods with which the controller takes little CPU time: with two CPUs, less than 5 % of one CPU.
const LONG_PHASE_NS: u64 = 5_000_000;

/// If threads block less often than this on average in a measuring window, they count as not waiting for each other.
const SELDOM: u64 = 3;

/// Length of the first and of the longest rest ([`Action::Rest`]: cox neither rotates threads nor takes samples), ns.
/// After a rest, cox measures again, because the first measurement may not be representative. That costs about 15 ms of
/// each CPU for loading BPF programs, and slows threads that often wait for each other by 3 to 10 % meanwhile. So each
/// further rest is twice as long.
const REST_NS: (u64, u64) = (1_000_000_000, 16_000_000_000);

/// The first and the longest time between two verifications, ns. A verification measures efficiency without rotation
/// again, because the program may behave differently now.
const VERIFY_NS: (u64, u64) = (10_000_000_000, 120_000_000_000);

/// What cox does now: nothing (rest), measure, or rotate threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel places the threads, and nothing is sampled.
    Rest,
    /// The kernel places the threads, and cox samples each CPU at this interval. cox's ticker threads, which end
    /// scheduling periods, do not run meanwhile: each time one runs, the kernel chooses a thread anew, so the measured
    /// efficiency would be better than it is without packing.
    Measure {
        /// Time between two samples of a CPU, ns.
        look_ns: u64,
    },
    /// Threads are rotated: cox may change their CPUs at the end of each scheduling period.
    Rotate {
        /// Length of the scheduling periods, ns.
        period_ns: u64,
    },
}

/// What was observed in a measuring window: the time between two decisions on what cox does (rest, measure or rotate).
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Sums of the observations on the pack's CPUs.
    pub seen: Seen,
    /// CPU time of the program's threads, ns.
    pub run_ns: u64,
    /// How often these threads blocked.
    pub blocks: u64,
    /// How many barriers the threads passed; 0 if no preload library counts them.
    pub meets: u64,
    /// Time of all CPUs of the pack: number of CPUs × length of the window, ns.
    pub slots_ns: u64,
    /// CPU time of the controller, ns.
    pub own_ns: u64,
    /// Number of threads that ran for more than 1/50 of the window; the others count as not runnable.
    pub active: usize,
    /// Length of a phase, ns; `None` unless the last phases were about equally long.
    pub phase_ns: Option<u64>,
}

/// How a program's threads wait for each other, judged from one measuring window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The threads spin.
    Spinning,
    /// The threads spin, but call sched_yield(2) in their loops, so they take little time from other threads. They pass
    /// a barrier after this time on average, ns.
    Yielding(u64),
    /// The threads sleep, after running for this long on average, ns.
    Blocking(u64),
    /// The threads hardly ever wait for each other, or there are no more threads than CPUs.
    Free,
}

impl Kind {
    /// Returns how the program's threads waited in `window`, on `slots` CPUs.
    #[must_use]
    pub fn of(window: &Window, slots: usize) -> Kind {
        if window.active <= slots {
            Kind::Free
        } else if window.seen.spinning as f64 > window.seen.samples as f64 * SPINS {
            let yields = window.seen.yielding * 2 > window.seen.spinning;
            match (window.slots_ns / slots.max(1) as u64).checked_div(window.meets) {
                Some(phase_ns) if yields => Kind::Yielding(phase_ns),
                _ => Kind::Spinning,
            }
        } else if efficiency(window) > GOOD_ENOUGH || window.blocks < window.active as u64 * SELDOM {
            // Either the threads used nearly all CPU time of the pack, or they hardly blocked, and other programs used
            // the rest. In both cases, the threads did not wait for each other.
            Kind::Free
        } else {
            Kind::Blocking(window.run_ns / window.blocks.max(1))
        }
    }

    /// Returns whether the threads wait in loops.
    #[must_use]
    pub fn spins(self) -> bool {
        matches!(self, Kind::Spinning | Kind::Yielding(_))
    }

    /// Returns whether rotation might help threads that wait in this way.
    #[must_use]
    pub fn may_gain(self) -> bool {
        match self {
            Kind::Spinning => true,
            Kind::Blocking(burst_ns) | Kind::Yielding(burst_ns) => burst_ns >= LONG_BURST_NS,
            Kind::Free => false,
        }
    }
}

/// Efficiency without rotation, in all settled measuring windows of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The lowest that a window allows, by its sampling error.
    pub low: f64,
    /// The highest that a window allows.
    pub high: f64,
    /// Length of all these windows together, ns.
    pub ns: u64,
}

impl Measured {
    /// Returns what `window` says of efficiency, on `slots` CPUs: within two standard errors of the sampling, and at
    /// least [`LEAST_ERROR`].
    fn of(window: &Window, slots: usize) -> Measured {
        let (efficiency, spins) = (efficiency(window), spinning(window));
        let deviation = (spins * (1.0 - spins) / window.seen.samples.max(1) as f64).sqrt();
        let error =
            (2.0 * deviation * window.run_ns as f64 / window.slots_ns.max(1) as f64).max(efficiency * LEAST_ERROR);
        Measured {
            low: (efficiency - error).max(0.0),
            high: (efficiency + error).min(1.0),
            ns: window.slots_ns / slots.max(1) as u64,
        }
    }

    /// Adds other windows.
    #[must_use]
    pub fn and(self, other: Measured) -> Measured {
        Measured { low: self.low.min(other.low), high: self.high.max(other.high), ns: self.ns + other.ns }
    }
}

/// The state of the decision whether to rotate.
#[derive(Clone, Debug)]
pub struct Mode {
    action: Action,
    search: Search,
    progress: Progress,
    /// True: always rotate, even if nothing is gained (for experiments).
    always: bool,
    until_ns: u64,
    /// True once the kernel has had time to spread the threads, so that the present measurement counts.
    settled: bool,
    /// True during the first half of the settling time ([`SETTLE_NS`]), in which the kernel spreads the threads.
    soon: bool,
    /// True until it is judged for the first time whether rotation helps. Until then, the program may only be starting.
    starting: bool,
    /// Efficiency without rotation at the last measurement.
    without: Option<f64>,
    /// Efficiency without rotation in all settled windows.
    measured: Option<Measured>,
    /// True while threads are rotated for one measuring window only to spread them evenly over the CPUs.
    spreading: bool,
    /// True if cox has already rotated the threads for one measuring window, only to spread them evenly over the CPUs.
    /// Reset when cox rests ([`Action::Rest`]), so that this happens once between two rests.
    spread: bool,
    rotated_windows: u32,
    verify_at_ns: u64,
    verify_after_ns: u64,
    rest_ns: u64,
}

impl Mode {
    /// Begins with measuring, or with rotating if `always`.
    #[must_use]
    pub fn new(now_ns: u64, periods: Periods, always: bool) -> Mode {
        let mut mode = Mode {
            action: Action::Rest,
            search: Search::new(periods),
            progress: Progress::default(),
            always,
            until_ns: now_ns,
            settled: false,
            soon: true,
            starting: true,
            without: None,
            measured: None,
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

    /// Returns the action that the mode has chosen: rest, measure, or rotate threads.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns when the present measuring window ends, ns.
    #[must_use]
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Returns the efficiencies without and with rotation. The first is `None` if it was measured before the kernel had
    /// time to spread the threads; the second is that of the period in use.
    #[must_use]
    pub fn efficiencies(&self) -> (Option<f64>, Option<f64>) {
        (self.without.filter(|_| self.settled), self.search.efficiency())
    }

    /// Ends a rest.
    pub fn resume(&mut self, now_ns: u64) {
        self.measure(now_ns);
    }

    /// Returns the efficiency without rotation in all settled windows of the session; `None` if there was none.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        self.measured
    }

    /// Called at the end of a measuring window. Chooses the next action (rest, measure or rotate) from what was
    /// observed in `window` on `slots` CPUs.
    pub fn decide(&mut self, now_ns: u64, slots: usize, window: &Window) {
        let efficiency = efficiency(window);
        match self.action {
            Action::Rest => self.measure(now_ns),
            Action::Measure { .. } if !self.settled => {
                // During the settling time, rotation begins only if threads spin much. Low efficiency is not enough,
                // because a program that is only starting leaves CPUs idle. Threads that yield (spin with
                // sched_yield(2)) do not count: they take no time from other threads, so cox can measure for the full
                // time first.
                let no_doubt = if self.soon { NO_DOUBT_SOON } else { NO_DOUBT };
                let kept = 1.0 - window.seen.yielding as f64 / window.seen.spinning.max(1) as f64;
                let kind = Kind::of(window, slots);
                let in_the_way = kind == Kind::Spinning && spun(window) * kept > 1.0 - no_doubt;
                if in_the_way && self.may_win(efficiency) {
                    self.without = Some(efficiency);
                    self.progress.note_without(counted(window));
                    return self.rotate(now_ns);
                }
                self.action = Action::Measure { look_ns: look_ns(window, slots) };
                if std::mem::take(&mut self.soon) {
                    self.until_ns = now_ns + SETTLE_NS / 2;
                    return;
                }
                if matches!(kind, Kind::Yielding(_)) && !kind.may_gain() {
                    // Measuring on would only cost more: such threads switch hundreds of thousands of times a second,
                    // and cox observes each switch.
                    return self.rest(now_ns);
                }
                self.settled = true;
                self.until_ns = now_ns + MEASURE_NS;
            }
            Action::Measure { look_ns: LOOK_SELDOM_NS } if Kind::of(window, slots).spins() => {
                // Threads have begun to spin: take more samples, and measure again.
                self.action = Action::Measure { look_ns: LOOK_NS };
                self.until_ns = now_ns + MEASURE_NS;
            }
            Action::Measure { .. } => {
                let without = self.without.map_or(efficiency, |before| mixed(before, efficiency));
                self.without = Some(without);
                self.progress.note_without(counted(window));
                if window.active > slots {
                    let measured = Measured::of(window, slots);
                    self.measured = Some(self.measured.map_or(measured, |before| before.and(measured)));
                }
                if !Kind::of(window, slots).may_gain() || !self.may_win(without) {
                    return self.rest(now_ns);
                }
                let evenly = window.active.is_multiple_of(slots);
                self.spreading = evenly && !std::mem::replace(&mut self.spread, true);
                self.rotate(now_ns);
            }
            Action::Rotate { .. } => self.rotated(now_ns, slots, window, efficiency),
        }
    }

    /// Returns whether rotation can be worth it: `e ≥ without × WORTH`. Here `without` is the efficiency without
    /// rotation, and `e` the best recent efficiency with rotation; if `e` is unknown, `1 - LEAST_COST` is assumed.
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
            // Before deciding whether rotation is worth it, try shorter periods: their effect is not known yet.
            self.search.next(needed);
            return self.rotate(now_ns);
        }
        let best = self.search.best_lately().unwrap_or(0.0);
        // Later the program may do something else than when it was measured without rotation, and only a verification
        // tells.
        self.progress.note_with(counted(window));
        let speedup = self.progress.speedup(!Kind::of(window, slots).spins());
        let is_below = |limit: f64| speedup.is_some_and(|speedup| speedup.ratio + speedup.error < limit);
        let slower = self.rotated_windows <= TRIAL && is_below(1.0);
        let helps_not = match self.rotated_windows {
            0..2 => best < without * HOPELESS || is_below(HOPELESS),
            2..TRIAL => best < without || slower,
            _ => best < needed || slower,
        };
        if helps_not {
            if !self.settled && std::mem::take(&mut self.starting) {
                // Rotation did not help. cox began it before the settling time was over, because so much spinning
                // seemed to make a gain certain. But the program may only have been starting, so measure again for the
                // full time.
                self.without = None;
                return self.measure(now_ns);
            }
            return self.rest(now_ns);
        }
        if self.rotated_windows == TRIAL {
            // Each rest (a pause in which cox neither rotates nor measures) is twice as long as the one before.
            // Rotation has proved to be worth it here, so the next rest has the shortest length again.
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
            self.progress.rotation_begins();
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

/// Returns the time between two samples of a CPU, ns: long if `window` shows more runnable threads than CPUs (`slots`)
/// and hardly any spinning, else short. If few threads were runnable, the program may only be starting, so samples stay
/// frequent.
fn look_ns(window: &Window, slots: usize) -> u64 {
    let asleep = window.active > slots && !Kind::of(window, slots).spins();
    if asleep { LOOK_SELDOM_NS } else { LOOK_NS }
}

fn efficiency(window: &Window) -> f64 {
    if window.slots_ns == 0 {
        return 0.0;
    }
    let useful_ns = window.run_ns as f64 * (1.0 - spinning(window)) - window.own_ns as f64 * INTERRUPTS;
    (useful_ns / window.slots_ns as f64).max(0.0)
}

/// Returns what tells how far the program advanced in `window`.
fn counted(window: &Window) -> Counted {
    Counted { meets: window.meets as f64, blocks: window.blocks as f64, ns: window.slots_ns as f64 }
}

/// Returns the fraction of the CPUs' time (of the whole pack) that was spent spinning.
fn spun(window: &Window) -> f64 {
    window.run_ns as f64 * spinning(window) / window.slots_ns.max(1) as f64
}

/// Returns the fraction of the threads' CPU time that was spent spinning.
fn spinning(window: &Window) -> f64 {
    window.seen.spinning_part(window.run_ns / window.blocks.max(1))
}

#[cfg(test)]
mod tests;
