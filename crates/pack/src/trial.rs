//! A trial compares the kernel's placement with packing within one run of a program. The run is divided into measuring
//! windows. In some windows the kernel places the threads, and in others cox packs them, so both are observed on the
//! same work, one right after the other. The code is pure, like the policy that it tests.
//!
//! 1. The kernel places the threads until it has had time to spread them. This window does not count.
//! 2. The kernel still places the threads, for some windows. If threads wait so much that hardly any work is sampled,
//!    more windows follow.
//! 3. If packing might help, the threads are packed for as many windows, and the period is searched for as in normal
//!    packing. Otherwise step 2 is repeated.
//! 4. Back to step 1. Steps 2 and 3 then have twice as many windows as before, up to eight each.
//!
//! All windows are sampled at the same rate, so the cost and the errors of sampling are the same for both.

use std::collections::BTreeMap;

use advise::forecast::measured::{self, Placing};

use crate::policy::controller::Controller;
use crate::policy::mode::{Action, Kind, Mode, Periods, Window};
use crate::policy::{Order, Sense};

/// Minimum length of one measuring window of a trial, ns.
pub const WINDOW_NS: u64 = 80_000_000;
/// Minimum length of a measuring window in which the threads are packed, in scheduling periods of the policy.
const WINDOW_PERIODS: u64 = 40;
/// Time that the kernel needs to spread the threads over the CPUs again after cox stops rotating them, ns: several of
/// the kernel's ticks.
const SETTLE_NS: u64 = 80_000_000;
/// Number of consecutive windows in which the kernel places the threads. As many windows follow in which they are
/// packed. First value: in the first round. Second value: the maximum in later rounds.
const WINDOWS: (u32, u32) = (2, 8);
/// The threads are packed only after at least this many samples have found a thread working while the kernel placed the
/// threads, or after [`MOST_WINDOWS`] windows. With this number of samples, the standard error is 16 %.
const LEAST_WORK: u64 = 40;
/// Maximum number of windows (6 s) in which the kernel places the threads until [`LEAST_WORK`] samples are collected.
const MOST_WINDOWS: u32 = 75;
/// Time between two samples of a CPU in a trial, ns; the same in all windows. A sample takes up to 26 us on a virtual
/// machine.
const LOOK_NS: u64 = 2_000_000;

/// Returns the time between two samples of each CPU while cox does `action`, ns; `None` if no samples are taken. In a
/// trial (`on_trial`), samples are taken during every action.
#[must_use]
pub fn look_ns(action: Action, on_trial: bool) -> Option<u64> {
    match action {
        Action::Measure { look_ns } => Some(look_ns),
        Action::Rest | Action::Rotate { .. } => on_trial.then_some(LOOK_NS),
    }
}

/// A sample of a running thread.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The thread's id.
    pub tid: u32,
    /// True if the thread waited in a loop or with sched_yield(2), or was in a futex call: going to sleep, or waking
    /// another thread. Otherwise it worked.
    pub waited: bool,
}

/// The result of a trial: its measuring windows, and how much each thread worked.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The measuring windows, in order. If the threads were packed in a window, its number of waiting samples is the
    /// larger of two estimates: from the samples alone, and from what cox also observed at the ends of scheduling
    /// periods.
    pub windows: Vec<measured::Window>,
    /// Largest number of threads that were runnable in one window.
    pub threads: u64,
    /// For each thread id, the number of samples in which the thread worked. Only windows with more runnable threads
    /// than CPUs count.
    pub worked: BTreeMap<u32, u64>,
}

/// Counts of the samples in the present measuring window.
#[derive(Clone, Debug, Default)]
struct Counts {
    samples: u64,
    waiting: u64,
    /// Samples in which a thread worked, by thread id.
    worked: BTreeMap<u32, u64>,
}

/// A comparison of the kernel's placement with packing, while it goes on.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Chooses the length of the scheduling periods while the threads are packed.
    mode: Mode,
    /// How the threads are placed now (by the kernel or by the packer), and for how many windows more, the present one
    /// included; `None` before the first [`Trial::look`].
    now: Option<(Placing, u32)>,
    rounds: u32,
    until_ns: u64,
    counts: Counts,
    may_gain: bool,
    /// Since the kernel last began to place the threads: the number of samples in which a thread worked, and the number
    /// of measuring windows.
    placed: (u64, u32),
    seen: Seen,
}

impl Trial {
    /// Makes a trial; it begins with the first call of [`Trial::look`].
    #[must_use]
    pub fn new(periods: Periods) -> Trial {
        Trial {
            mode: Mode::new(0, periods, true),
            now: None,
            rounds: 0,
            until_ns: 0,
            counts: Counts::default(),
            may_gain: false,
            placed: (0, 0),
            seen: Seen::default(),
        }
    }

    /// Counts `looks`, the samples that were taken since the last call, in the present window.
    pub fn sampled(&mut self, looks: impl Iterator<Item = Look>) {
        let counts = &mut self.counts;
        for look in looks {
            counts.samples += 1;
            counts.waiting += u64::from(look.waited);
            if !look.waited {
                *counts.worked.entry(look.tid).or_default() += 1;
            }
        }
    }

    /// If the present measuring window is over, stores its result and starts the next window, with the action (measure
    /// or rotate) that the trial wants in it. Called instead of [`Controller::look`] during a trial. `own_ns` is cox's
    /// own CPU time so far. Changes of affinity masks are added to `orders`. Returns true if the action changed.
    pub fn look(
        &mut self,
        controller: &mut Controller,
        now_ns: u64,
        own_ns: u64,
        sense: &impl Sense,
        orders: &mut Vec<Order>,
    ) -> bool {
        if now_ns < self.until_ns {
            return false;
        }
        let slots = controller.slots();
        let window = controller.close_window(now_ns, own_ns, sense);
        self.note(slots, &window);
        let action = self.next(now_ns, slots, &window);
        controller.take_up(action, now_ns, sense, orders)
    }

    /// Ends the trial when the program has ended. Returns the result.
    pub fn end(&mut self, controller: &mut Controller, now_ns: u64, own_ns: u64, sense: &impl Sense) -> Seen {
        let window = controller.close_window(now_ns, own_ns, sense);
        self.note(controller.slots(), &window);
        std::mem::take(&mut self.seen)
    }

    fn note(&mut self, slots: usize, window: &Window) {
        let Counts { samples, waiting, worked } = std::mem::take(&mut self.counts);
        let Some((placing, _)) = self.now else { return };
        let oversubscribed = window.active > slots;
        self.may_gain |= placing == Placing::Kernel && Kind::of(window, slots).may_gain();
        if oversubscribed {
            for (tid, samples) in worked {
                *self.seen.worked.entry(tid).or_default() += samples;
            }
        }
        if placing == Placing::Kernel {
            self.placed.0 += samples - waiting;
            self.placed.1 += 1;
        }
        // While the threads are packed, the number of waiting samples is the larger of two estimates: from the samples
        // alone, and from the ticks too. A tick is the end of a scheduling period: cox observes the thread that leaves
        // the CPU, hundreds of times per window. With very short phases (times between two barriers), the samples alone
        // would show twice the true useful time.
        let waiting = if placing == Placing::Packer { waiting.max(by_ticks(window, samples)) } else { waiting };
        let (length_ns, run_ns) = (window.slots_ns / slots.max(1) as u64, window.run_ns);
        self.seen.threads = self.seen.threads.max(window.active as u64);
        let seen = measured::Window { placing, length_ns, run_ns, samples, waiting, oversubscribed };
        self.seen.windows.push(seen);
    }

    fn next(&mut self, now_ns: u64, slots: usize, window: &Window) -> Action {
        use Placing::{Kernel, Packer, Settling};
        let windows = (WINDOWS.0 << self.rounds.min(8)).min(WINDOWS.1);
        let now = match self.now {
            None => (Settling, 1),
            Some((Settling, _)) => (Kernel, windows),
            Some((Kernel, 1)) if self.placed.0 < LEAST_WORK && self.placed.1 < MOST_WINDOWS => (Kernel, 1),
            Some((Kernel, 1)) if std::mem::take(&mut self.may_gain) => (Packer, windows),
            Some((Kernel, 1)) => (Kernel, windows),
            Some((Packer, left)) => {
                self.mode.decide(now_ns, slots, window);
                if left > 1 {
                    (Packer, left - 1)
                } else {
                    self.rounds += 1;
                    self.placed = (0, 0);
                    (Settling, 1)
                }
            }
            Some((Kernel, left)) => (Kernel, left.saturating_sub(1)),
        };
        self.now = Some(now);
        let (action, length_ns) = match now.0 {
            Settling => (Action::Measure { look_ns: LOOK_NS }, SETTLE_NS),
            Kernel => (Action::Measure { look_ns: LOOK_NS }, WINDOW_NS),
            Packer => {
                let action = self.mode.action();
                let period_ns = if let Action::Rotate { period_ns } = action { period_ns } else { 0 };
                (action, WINDOW_NS.max(period_ns * WINDOW_PERIODS))
            }
        };
        self.until_ns = now_ns + length_ns;
        action
    }
}

/// Estimates how many of `samples` found a thread waiting: `samples × s ÷ n`. In `window`, cox observed a running
/// thread `n` times, mostly at ticks (ends of scheduling periods), and `s` of these times the thread was spinning.
fn by_ticks(window: &Window, samples: u64) -> u64 {
    (samples * window.seen.spinning).checked_div(window.seen.samples).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::controller::Settings;
    use crate::policy::{Member, Observation};

    /// Three threads on two CPUs that all ran for two thirds of the time.
    struct Three {
        now_ns: u64,
        blocks: u32,
    }

    impl Sense for Three {
        fn observation(&self, _: Member) -> Observation {
            let (run_ns, out_ns) = (self.now_ns * 2 / 3, self.now_ns);
            Observation { run_ns, blocks: self.blocks, at: Some(0), out_ns, ..Observation::default() }
        }
    }

    #[test]
    fn what_ticks_saw_waiting_counts_in_packed_windows() {
        let window = |way, spinning| {
            let mut trial = Trial::new(Periods::Adapted);
            trial.now = Some((way, 1));
            trial.counts = Counts { samples: 100, waiting: 40, ..Counts::default() };
            let seen = crate::policy::seen::Seen { samples: 1_000, spinning, ..Default::default() };
            let (run_ns, slots_ns) = (160_000_000, 160_000_000);
            trial
                .note(2, &Window { seen, run_ns, blocks: 0, meets: 0, slots_ns, own_ns: 0, active: 3, phase_ns: None });
            trial.seen.windows[0].waiting
        };
        assert_eq!(
            (window(Placing::Packer, 900), window(Placing::Packer, 100), window(Placing::Kernel, 900)),
            (90, 40, 40)
        );
    }

    /// Looks every 5 ms; half of all samples wait in loops if `spins`.
    fn tried(threads: usize, spins: bool, length_ms: u64) -> (Seen, Vec<Action>) {
        let mut controller = Controller::new(Settings::default(), &[1024, 1024], 0, 0);
        let mut trial = Trial::new(Periods::Adapted);
        let (mut orders, mut actions) = (Vec::new(), Vec::new());
        for _ in 0..threads {
            controller.join(&Three { now_ns: 0, blocks: 0 }.observation(0), 0, &mut orders);
        }
        for now_ns in (0..=length_ms).step_by(5).map(|ms| ms * 1_000_000) {
            let looks = (0..4).map(|tid| Look { tid, waited: spins && tid < 2 });
            trial.sampled(looks);
            controller.sampled(4, if spins { 2 } else { 0 }, 0);
            let three = Three { now_ns, blocks: 0 };
            trial.look(&mut controller, now_ns, 0, &three, &mut orders);
            actions.push(controller.action());
        }
        let three = Three { now_ns: length_ms * 1_000_000, blocks: 0 };
        (trial.end(&mut controller, length_ms * 1_000_000, 0, &three), actions)
    }

    #[test]
    fn both_ways_have_their_turns_and_all_time_is_seen() {
        let (seen, actions) = tried(3, true, 2_000);
        let ways: Vec<Placing> = seen.windows.iter().map(|window| window.placing).collect();
        use Placing::{Kernel, Packer, Settling};
        assert_eq!(ways[..10], [Settling, Kernel, Kernel, Packer, Packer, Settling, Kernel, Kernel, Kernel, Kernel]);
        assert_eq!(seen.windows.iter().map(|window| window.length_ns).sum::<u64>(), 2_000_000_000);
        let run_ns: u64 = seen.windows.iter().map(|window| window.run_ns).sum();
        assert!(run_ns.abs_diff(4_000_000_000) < 100, "{run_ns}");
        assert!(actions.iter().any(|action| matches!(action, Action::Rotate { .. })));
        for window in &seen.windows {
            assert_eq!(window.waiting * 2, window.samples, "{window:?}");
        }
        // Threads 0 and 1 only waited.
        assert_eq!(seen.worked.keys().copied().collect::<Vec<_>>(), [2, 3]);
    }

    /// Only spinning is seen: the kernel has its windows for 6 s before the packer has any.
    #[test]
    fn where_no_work_is_seen_the_kernel_has_more_windows() {
        let mut trial = Trial::new(Periods::Adapted);
        let mut controller = Controller::new(Settings::default(), &[1024, 1024], 0, 0);
        let mut orders = Vec::new();
        for _ in 0..3 {
            controller.join(&Three { now_ns: 0, blocks: 0 }.observation(0), 0, &mut orders);
        }
        for now_ns in (0..=7_000).step_by(20).map(|ms| ms * 1_000_000) {
            trial.sampled((0..4).map(|tid| Look { tid, waited: true }));
            controller.sampled(4, 4, 0);
            trial.look(&mut controller, now_ns, 0, &Three { now_ns, blocks: 0 }, &mut orders);
        }
        let seen = trial.end(&mut controller, 7_000_000_000, 0, &Three { now_ns: 7_000_000_000, blocks: 0 });
        let first = seen.windows.iter().position(|window| window.placing == Placing::Packer).unwrap();
        assert_eq!(first, 1 + MOST_WINDOWS as usize, "settling, and all windows that may be");
    }

    #[test]
    fn what_packing_cannot_help_is_left_to_the_kernel() {
        for (threads, spins) in [(3, false), (2, true)] {
            let (seen, actions) = tried(threads, spins, 1_000);
            assert!(seen.windows.iter().all(|window| window.placing != Placing::Packer), "{seen:?}");
            assert!(actions.iter().all(|action| !matches!(action, Action::Rotate { .. })));
            // Nobody's work counts while there is a CPU for everybody.
            assert_eq!(seen.worked.is_empty(), threads == 2);
        }
    }
}
