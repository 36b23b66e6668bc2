//! The controller combines two decisions of the policy: which threads share a CPU (`assignment`), and whether to rotate
//! threads at all (`mode`). The live packer and the simulator call it.

use super::assignment::{Assignment, Rules};
use super::mode::{Action, Measured, Mode, Periods, Window};
use super::seen::Seen;
use super::{Arrange, Member, Observation, Order, Sense, Slot};

/// A thread that ran for at most 1/50 of a measuring window counts as not runnable in it.
pub const IDLE_PART: u64 = 50;

/// Settings of the controller.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Makes the rule that assigns threads to slots (the CPUs of the pack), from the capacities of the slots:
    /// [`Assignment`], or another rule that is compared with it.
    pub arrange: fn(Vec<u64>) -> Box<dyn Arrange>,
    /// How the length of the scheduling periods is chosen.
    pub periods: Periods,
    /// True: always rotate the threads, even if the program gains nothing from it.
    pub always: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let arrange = |capacities| -> Box<dyn Arrange> { Box::new(Assignment::new(Rules::default(), capacities)) };
        Settings { arrange, periods: Periods::Adapted, always: false }
    }
}

/// Sums over a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What was observed on the pack's CPUs.
    pub seen: Seen,
    /// CPU time of the threads, ns.
    pub run_ns: u64,
    /// How long threads were rotated, ns.
    pub rotating_ns: u64,
    /// Length of the scheduling periods when threads were last rotated, ns.
    pub period_ns: u64,
}

impl Totals {
    /// Adds the sums of a later session.
    pub fn add(&mut self, later: &Totals) {
        self.seen.add(&later.seen);
        self.run_ns += later.run_ns;
        self.rotating_ns += later.rotating_ns;
        if later.period_ns > 0 {
            self.period_ns = later.period_ns;
        }
    }
}

/// Decides which thread runs where, and whether to rotate threads at all.
#[derive(Debug)]
pub struct Controller {
    slots: usize,
    arrange: Box<dyn Arrange>,
    mode: Mode,
    /// True: a scheduling period on a CPU may last longer than its chosen length, if the policy predicts that no
    /// decision is needed earlier. False if the user has fixed the length of periods.
    follows: bool,
    action: Action,
    window_ns: u64,
    window_own_ns: u64,
    /// CPU time of each thread at the start of the measuring window, by member number, ns.
    run_ns: Vec<u64>,
    blocks: Vec<u32>,
    meets: Vec<u64>,
    ended: Vec<bool>,
    /// CPU time in this measuring window of threads that have ended, and of threads before they were added, ns.
    ended_ns: u64,
    totals: Totals,
}

impl Controller {
    /// Makes a controller for CPUs of these capacities (relative to
    /// [`FULL_CAPACITY`](super::assignment::FULL_CAPACITY)), one slot each. `own_ns` is cox's own CPU time so far.
    #[must_use]
    pub fn new(settings: Settings, capacities: &[u64], now_ns: u64, own_ns: u64) -> Controller {
        Controller {
            slots: capacities.len(),
            arrange: (settings.arrange)(capacities.to_vec()),
            follows: !matches!(settings.periods, Periods::Fixed(_)),
            mode: Mode::new(now_ns, settings.periods, settings.always),
            action: Action::Rest,
            window_ns: now_ns,
            window_own_ns: own_ns,
            run_ns: Vec::new(),
            blocks: Vec::new(),
            meets: Vec::new(),
            ended: Vec::new(),
            ended_ns: 0,
            totals: Totals::default(),
        }
    }

    /// Continues with the mode of an earlier controller, which has decided to rest: measures now.
    pub fn resume(&mut self, mode: Mode, now_ns: u64) {
        self.mode = mode;
        self.mode.resume(now_ns);
    }

    /// Returns the mode, for [`Controller::resume`].
    #[must_use]
    pub fn into_mode(self) -> Mode {
        self.mode
    }

    /// Notes that the program starts: time before this call does not count.
    pub fn start(&mut self, now_ns: u64, own_ns: u64) {
        (self.window_ns, self.window_own_ns) = (now_ns, own_ns);
    }

    /// Returns what cox does now: rest, measure or rotate (see [`Action`]). It rests until the first
    /// [`Controller::look`].
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns the shortest time between two ticks of a CPU (ends of its scheduling periods), ns; `None` while threads
    /// are not rotated, because no ticks are needed then.
    #[must_use]
    pub fn tick_ns(&self) -> Option<u64> {
        match self.action {
            Action::Rest | Action::Measure { .. } => None,
            Action::Rotate { period_ns } => Some(period_ns),
        }
    }

    /// Returns the time from one tick of a CPU (the end of its scheduling period) to the next one, ns. It is longer
    /// than [`Controller::tick_ns`] if the policy predicts that no decision is needed earlier. `None` while threads are
    /// not rotated.
    #[must_use]
    pub fn next_tick_ns(&self, now_ns: u64) -> Option<u64> {
        let calm_ns = if self.follows { self.arrange.calm_ns(now_ns) } else { 0 };
        self.tick_ns().map(|period_ns| period_ns.max(calm_ns))
    }

    /// Adds a thread and returns its number. Threads are numbered in the order in which they are added.
    pub fn join(&mut self, observation: &Observation, now_ns: u64, orders: &mut Vec<Order>) -> Member {
        let member = self.arrange.join(observation);
        self.run_ns.push(observation.run_ns);
        self.blocks.push(observation.blocks);
        self.meets.push(observation.meets);
        self.ended.push(false);
        if self.is_rotating() {
            self.arrange.admit(member, now_ns, orders);
        }
        member
    }

    /// Adds CPU time that was used by threads that are not members, or by members before they joined.
    pub fn passed(&mut self, run_ns: u64) {
        self.ended_ns += run_ns;
    }

    /// Removes a thread that has ended; `run_ns` is all of its CPU time.
    pub fn leave(&mut self, member: Member, run_ns: u64) {
        self.ended_ns += run_ns.saturating_sub(self.run_ns[member]);
        self.ended[member] = true;
        self.arrange.leave(member);
    }

    /// Called at a tick of a CPU, the end of its scheduling period. While threads are rotated, lets the policy decide
    /// which threads `slot` and other slots have next, and adds the changes to `orders`.
    pub fn tick(&mut self, slot: Slot, now_ns: u64, sense: &impl Sense, orders: &mut Vec<Order>) {
        if self.is_rotating() {
            self.arrange.end_period(slot, now_ns, sense, orders);
        }
    }

    /// Adds samples of running threads, which [`Action::Measure`] requests: `spinning` of them were spinning, and
    /// `yielding` of these call sched_yield(2) in their loop.
    pub fn sampled(&mut self, samples: u64, spinning: u64, yielding: u64) {
        let seen = self.arrange.seen();
        seen.samples += samples;
        seen.spinning += spinning;
        seen.yielding += yielding;
    }

    /// If the present measuring window is over, chooses the next action (rest, measure or rotate). Must be called every
    /// 10 to 20 ms. Returns true if the action changed.
    pub fn look(&mut self, now_ns: u64, own_ns: u64, sense: &impl Sense, orders: &mut Vec<Order>) -> bool {
        if now_ns >= self.mode.until_ns() {
            let window = self.close_window(now_ns, own_ns, sense);
            self.mode.decide(now_ns, self.slots, &window);
        }
        self.take_up(self.mode.action(), now_ns, sense, orders)
    }

    /// Starts the action `is` (rest, measure or rotate) on all CPUs of the pack, whatever action the mode has chosen:
    /// in a trial, the trial chooses it. Returns true if the action changed.
    pub fn take_up(&mut self, is: Action, now_ns: u64, sense: &impl Sense, orders: &mut Vec<Order>) -> bool {
        let was = self.action;
        if was == is {
            return false;
        }
        let was_rotating = self.is_rotating();
        self.action = is;
        if let Action::Rotate { period_ns } = is {
            self.arrange.set_period(period_ns);
            self.totals.period_ns = period_ns;
            if !was_rotating {
                self.arrange.begin(now_ns, sense, orders);
            }
        } else if was_rotating {
            self.arrange.end(now_ns, orders);
        }
        true
    }

    /// Ends the session: the kernel places all threads.
    pub fn end(&mut self, now_ns: u64, own_ns: u64, sense: &impl Sense, orders: &mut Vec<Order>) {
        self.close_window(now_ns, own_ns, sense);
        self.arrange.end(now_ns, orders);
        self.action = Action::Rest;
    }

    /// Returns the number of slots, which is the number of CPUs in the pack.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the sums over all measuring windows that have ended in this session.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the program's efficiency without rotation, and with it; `None` if it is not known (see
    /// [`Mode::efficiencies`]).
    #[must_use]
    pub fn efficiencies(&self) -> (Option<f64>, Option<f64>) {
        self.mode.efficiencies()
    }

    /// Returns the efficiency without rotation in all settled windows; see [`Mode::measured`].
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        self.mode.measured()
    }

    fn is_rotating(&self) -> bool {
        matches!(self.action, Action::Rotate { .. })
    }

    /// Ends the present measuring window and begins a new one. Returns what was observed in the window that has ended.
    pub fn close_window(&mut self, now_ns: u64, own_ns: u64, sense: &impl Sense) -> Window {
        let length_ns = now_ns - self.window_ns;
        let (mut active, mut blocks, mut run_sum_ns) = (0, 0, std::mem::take(&mut self.ended_ns));
        // The most barriers that one thread has passed: all threads of a team pass the same ones.
        let mut meets = 0;
        for member in (0..self.ended.len()).filter(|&member| !self.ended[member]) {
            let observation = sense.observation(member);
            let run_ns = observation.run_ns;
            blocks += u64::from(observation.blocks.saturating_sub(self.blocks[member]));
            self.blocks[member] = self.blocks[member].max(observation.blocks);
            // The preload library's page may be found only after the thread has joined: then nothing is known yet.
            let before = std::mem::replace(&mut self.meets[member], observation.meets);
            if before != 0 {
                meets = meets.max(observation.meets.saturating_sub(before));
            }
            let ran_ns = run_ns.saturating_sub(self.run_ns[member]);
            active += usize::from(ran_ns > length_ns / IDLE_PART);
            run_sum_ns += ran_ns;
            self.run_ns[member] = self.run_ns[member].max(run_ns);
        }
        let seen = std::mem::take(self.arrange.seen());
        self.totals.seen.add(&seen);
        self.totals.run_ns += run_sum_ns;
        if self.is_rotating() {
            self.totals.rotating_ns += length_ns;
        }
        let own_in_window_ns = own_ns - self.window_own_ns;
        (self.window_ns, self.window_own_ns) = (now_ns, own_ns);
        // Not weighted by the CPUs' capacities, because the threads' CPU time is not weighted either.
        let slots_ns = length_ns * self.slots as u64;
        let phase_ns = self.arrange.phase_ns();
        Window { seen, run_ns: run_sum_ns, blocks, meets, slots_ns, own_ns: own_in_window_ns, active, phase_ns }
    }
}
