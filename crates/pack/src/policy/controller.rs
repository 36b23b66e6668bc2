//! The controller combines the assignment of threads with the mode. The live packer and the simulator call it.

use super::assignment::{Assignment, Rules};
use super::mode::{Action, Mode, Periods, Window};
use super::seen::Seen;
use super::{Arrange, Member, Observation, Order, Sense, Slot};

/// A thread that ran for less than 1/50 of a window counts as not runnable in it.
const IDLE_PART: u64 = 50;

/// Settings of the controller.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Makes the rule that assigns threads to slots, from the capacities of the slots: [`Assignment`], or another rule
    /// that is compared with it.
    pub arrange: fn(Vec<u64>) -> Box<dyn Arrange>,
    /// How the length of periods is chosen.
    pub periods: Periods,
    /// True: always rotate, even if nothing is gained.
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
    /// What was observed on the slots.
    pub seen: Seen,
    /// CPU time of the threads, ns.
    pub run_ns: u64,
    /// How long threads were rotated, ns.
    pub rotating_ns: u64,
    /// Length of the last period, ns.
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
    /// True: a slot's period is longer than configured if the policy predicts that no decision is needed earlier. False
    /// if the user has fixed the length of periods.
    follows: bool,
    action: Action,
    window_ns: u64,
    window_own_ns: u64,
    /// CPU time of each member at the start of the window, ns.
    run_ns: Vec<u64>,
    blocks: Vec<u32>,
    ended: Vec<bool>,
    /// CPU time that threads used in this window although they are not members now, because they have ended or have not
    /// joined yet, ns.
    ended_ns: u64,
    totals: Totals,
}

impl Controller {
    /// Makes a controller for slots of these capacities (relative to
    /// [`FULL_CAPACITY`](super::assignment::FULL_CAPACITY)). `own_ns` is cox's own CPU time so far.
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
            ended: Vec::new(),
            ended_ns: 0,
            totals: Totals::default(),
        }
    }

    /// Notes that the program starts: time before this call does not count.
    pub fn start(&mut self, now_ns: u64, own_ns: u64) {
        (self.window_ns, self.window_own_ns) = (now_ns, own_ns);
    }

    /// Returns what the slots do now: rest, measure or rotate. They rest until the first [`Controller::look`].
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns the shortest time between two ticks of a slot, ns; `None` if no ticks are wanted.
    #[must_use]
    pub fn tick_ns(&self) -> Option<u64> {
        match self.action {
            Action::Rest | Action::Measure { .. } => None,
            Action::Rotate { period_ns } => Some(period_ns),
        }
    }

    /// Returns the time until the next tick of a slot that has just had one, ns; `None` if no ticks are wanted.
    #[must_use]
    pub fn next_tick_ns(&self, now_ns: u64) -> Option<u64> {
        let calm_ns = if self.follows { self.arrange.calm_ns(now_ns) } else { 0 };
        self.tick_ns().map(|period_ns| period_ns.max(calm_ns))
    }

    /// Adds a thread and returns its number. Members are numbered in the order in which they join.
    pub fn join(&mut self, observation: &Observation, now_ns: u64, orders: &mut Vec<Order>) -> Member {
        let member = self.arrange.join(observation);
        self.run_ns.push(observation.run_ns);
        self.blocks.push(observation.blocks);
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

    /// Handles a slot's tick: the end of its period.
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

    /// If a window is over, chooses the next action (rest, measure or rotate). Must be called every 10 to 20 ms.
    /// Returns true if the action changed.
    pub fn look(&mut self, now_ns: u64, own_ns: u64, sense: &impl Sense, orders: &mut Vec<Order>) -> bool {
        if now_ns >= self.mode.until_ns() {
            let window = self.close_window(now_ns, own_ns, sense);
            self.mode.decide(now_ns, self.slots, &window);
        }
        self.take_up(self.mode.action(), now_ns, sense, orders)
    }

    /// Starts the action `is` on all slots. It need not be the action that the mode has chosen. Returns true if the
    /// action changed.
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

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the sums over all windows (intervals of observation) that have ended in this session.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the efficiency without rotation, and with it.
    #[must_use]
    pub fn efficiencies(&self) -> (Option<f64>, Option<f64>) {
        self.mode.efficiencies()
    }

    fn is_rotating(&self) -> bool {
        matches!(self.action, Action::Rotate { .. })
    }

    /// Returns what was observed since the last window was closed, and begins a new window.
    pub fn close_window(&mut self, now_ns: u64, own_ns: u64, sense: &impl Sense) -> Window {
        let length_ns = now_ns - self.window_ns;
        let (mut active, mut blocks, mut run_sum_ns) = (0, 0, std::mem::take(&mut self.ended_ns));
        for member in (0..self.ended.len()).filter(|&member| !self.ended[member]) {
            let observation = sense.observation(member);
            let run_ns = observation.run_ns;
            blocks += u64::from(observation.blocks.saturating_sub(self.blocks[member]));
            self.blocks[member] = self.blocks[member].max(observation.blocks);
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
        Window { seen, run_ns: run_sum_ns, blocks, slots_ns, own_ns: own_in_window_ns, active, phase_ns }
    }
}
