//! Compares the clock's rules in Rust with the C version that BPF runs: a million random event sequences, possible and impossible, must give equal
//! clocks after every single event.

use ledger::latency::Closed;
use ledger::transition::{born, enrolled, moved, switch_in, switch_out, waking};
use testkit::native;
use wire::latency::INTERVALS;
use wire::layout::CAUSE_BY_FD;
use wire::{CAUSES, Clock, Interval, Migration, State};

const SEQUENCES: u64 = 1_000_000;

/// Numbers up to those of times.
struct Random(testkit::Random);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.number() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Waking { t: u64 },
    In { t: u64, cpu: u16, steal: u64, irq: u64 },
    Out { t: u64, state: State, cause: u8, yielded: bool, steal: u64, irq: u64 },
    Migrate { cpu: u16, old_cpu_allowed: bool },
}

impl Step {
    const KINDS: usize = 4;

    fn kind(self) -> usize {
        match self {
            Step::Waking { .. } => 0,
            Step::In { .. } => 1,
            Step::Out { .. } => 2,
            Step::Migrate { .. } => 3,
        }
    }

    /// Applies the event by the Rust rules. Returns the lengths of the intervals that it ended, by kind; `u64::MAX` if it ended none of that kind.
    fn play_rust(self, c: &mut Clock) -> [u64; INTERVALS] {
        let mut closed = Closed::default();
        match self {
            Step::Waking { t } => waking(c, t),
            Step::In { t, cpu, steal, irq } => closed = switch_in(c, t, cpu, steal, irq),
            Step::Out { t, state, cause, yielded, steal, irq } => {
                closed = switch_out(c, t, state, cause, yielded, steal, irq);
            }
            Step::Migrate { cpu, old_cpu_allowed } => moved(c, cpu, migration(c, old_cpu_allowed)),
        }
        let length =
            |interval| closed.into_iter().flatten().find(|(of, _)| *of == interval).map_or(u64::MAX, |(_, ns)| ns);
        Interval::ALL.map(length)
    }

    fn play_native(self, c: &mut Clock) {
        match self {
            Step::Waking { t } => native::waking(c, t),
            Step::In { t, cpu, steal, irq } => native::switch_in(c, t, cpu, steal, irq),
            Step::Out { t, state, cause, yielded, steal, irq } => {
                native::switch_out(c, t, state as u8, cause, yielded, steal, irq);
            }
            Step::Migrate { cpu, old_cpu_allowed } => native::migrate(c, cpu, old_cpu_allowed),
        }
    }
}

/// The kind of a migration: the old CPU is no longer allowed, the CPU was chosen at a wake-up, or the load balancer moved the thread.
fn migration(c: &Clock, old_cpu_allowed: bool) -> Migration {
    let woken = c.wake_ns >= c.since_ns || c.wake_ns != 0 && c.wake_ns >= c.in_ns;
    if !old_cpu_allowed {
        Migration::ByAffinity
    } else if c.state == State::Blocked as u8 && woken {
        Migration::AtWakeup
    } else {
        Migration::WhileQueued
    }
}

/// The world a sequence plays in: a clock that mostly goes forward, and per-CPU steal and interrupt
/// clocks that sometimes gain more than the time that passed, or go back.
struct World {
    random: Random,
    t: u64,
    steal: u64,
    irq: u64,
    cpus: u64,
}

impl World {
    fn time(&mut self) -> u64 {
        let step = match self.random.below(8) {
            0 => 0,
            1 => self.random.below(4),
            2 => self.random.below(10_000_000_000),
            _ => self.random.below(100_000),
        };
        if self.random.one_in(8) {
            self.t -= step.min(self.t / 2);
        } else {
            self.t += step;
        }
        self.t
    }

    fn interruptions(&mut self) -> (u64, u64) {
        for meter in [&mut self.steal, &mut self.irq] {
            let by = match self.random.below(8) {
                0..4 => 0,
                4 => self.random.below(10_000_000_000),
                _ => self.random.below(60_000),
            };
            *meter = if self.random.one_in(16) { meter.saturating_sub(by) } else { *meter + by };
        }
        (self.steal, self.irq)
    }

    fn cpu(&mut self) -> u16 {
        self.random.below(self.cpus) as u16
    }

    /// Any event in any state, or (`plausible`) mostly one that can follow.
    fn step(&mut self, state: State, plausible: bool) -> Step {
        let kind = match state {
            _ if !plausible || self.random.one_in(16) => self.random.below(4),
            State::Run => [0, 2, 2, 2][self.random.below(4) as usize],
            State::Blocked => [0, 0, 1, 3][self.random.below(4) as usize],
            _ => [1, 1, 1, 3][self.random.below(4) as usize],
        };
        match kind {
            0 => Step::Waking { t: self.time() },
            1 => {
                let (steal, irq) = self.interruptions();
                Step::In { t: self.time(), cpu: self.cpu(), steal, irq }
            }
            2 => {
                let (steal, irq) = self.interruptions();
                let state = match self.random.below(32) {
                    0 => State::Unseen,
                    1 => State::Born,
                    2 => State::Run,
                    3 | 4 => State::Dead,
                    5..14 => State::Preempt,
                    _ => State::Blocked,
                };
                let cause = if self.random.one_in(12) { CAUSE_BY_FD } else { self.random.below(14) as u8 };
                Step::Out { t: self.time(), state, cause, yielded: self.random.one_in(2), steal, irq }
            }
            _ => Step::Migrate { cpu: self.cpu(), old_cpu_allowed: !self.random.one_in(4) },
        }
    }
}

/// That the sequences reached what they are for.
#[derive(Default)]
struct Reached {
    steps: u64,
    events: [[u64; Step::KINDS]; 6],
    causes: [u64; CAUSES],
    migrations: [u64; 3],
    closed: [u64; INTERVALS],
    /// Blocks that began before the thread was enrolled.
    begun_before: u64,
    no_slot: u64,
    backwards: u64,
    divided: u64,
    early: u64,
    stolen: u64,
    interrupted: u64,
    yielded: u64,
    impossible: u64,
}

impl Reached {
    fn step(&mut self, before: &Clock, step: Step, after: &Clock) {
        self.steps += 1;
        self.events[usize::from(before.state)][step.kind()] += 1;
        if let Step::In { t, .. } | Step::Out { t, .. } = step {
            self.backwards += u64::from(t < before.since_ns);
        }
        if let Step::In { .. } = step {
            let blocked = after.blocked_total_ns() > before.blocked_total_ns();
            let delayed = after.wake_delay_ns > before.wake_delay_ns;
            self.divided += u64::from(blocked && delayed);
            self.early += u64::from(before.state == State::Blocked as u8 && delayed && !blocked);
        }
    }

    fn sequence(&mut self, c: &Clock) {
        for (reached, ns) in self.causes.iter_mut().zip(c.blocked_ns) {
            *reached += u64::from(ns > 0);
        }
        for (reached, n) in self.migrations.iter_mut().zip(c.migrations) {
            *reached += u64::from(n);
        }
        self.no_slot += u64::from(c.elsewhere_run_ns > 0);
        self.stolen += u64::from(c.steal_ns > 0);
        self.interrupted += u64::from(c.irq_ns > 0);
        self.yielded += u64::from(c.yield_wait_ns > 0);
        self.impossible += u64::from(c.impossible);
    }

    fn everything(&self) {
        for (state, events) in self.events.iter().enumerate() {
            for (event, times) in events.iter().enumerate() {
                assert!(*times > 100, "state {state} met event {event} only {times} times");
            }
        }
        let others = [
            self.begun_before,
            self.no_slot,
            self.backwards,
            self.divided,
            self.early,
            self.stolen,
            self.interrupted,
            self.yielded,
            self.impossible,
        ];
        for (what, times) in others.iter().chain(&self.causes).chain(&self.migrations).chain(&self.closed).enumerate() {
            assert!(*times > 100, "situation {what} met only {times} times");
        }
        assert!(self.steps >= 10 * SEQUENCES, "{} events", self.steps);
    }
}

#[test]
fn both_spellings_of_the_clock_agree_on_a_million_sequences() {
    let mut reached = Reached::default();
    for sequence in 0..SEQUENCES {
        let mut random = Random(testkit::Random::new(sequence));
        let many_cpus = random.one_in(64);
        let cpus = if many_cpus { 40 } else { [1, 2, 4, 1024][random.below(4) as usize] };
        let events = if many_cpus { 80 } else { 8 + random.below(13) };
        let plausible = random.one_in(2);
        let t = random.below(1 << 51);
        let mut world = World { steal: random.below(1 << 40), irq: random.below(1 << 40), random, t, cpus };

        let mut rust = Clock::default();
        let mut c = Clock::default();
        if world.random.one_in(4) {
            enrolled(&mut rust, t);
            if world.random.one_in(2) {
                rust.state = State::Blocked as u8;
            }
            c = rust;
        } else {
            born(&mut rust, t);
            native::born(&mut c, t);
        }
        assert_eq!(rust, c, "sequence {sequence}: start");
        for event in 0..events {
            let before = rust;
            let step = world.step(State::from_wire(before.state), plausible);
            native::take_ended();
            let closed = step.play_rust(&mut rust);
            step.play_native(&mut c);
            assert_eq!(native::take_ended(), closed, "sequence {sequence}, event {event} {step:?}");
            assert!(
                rust == c,
                "sequence {sequence}, event {event} {step:?}\nfrom {before:?}\nRust {rust:?}\nC    {c:?}"
            );
            assert!(rust.is_whole(), "sequence {sequence}, event {event} {step:?}: not whole\n{rust:?}");
            reached.step(&before, step, &rust);
            reached.closed.iter_mut().zip(closed).for_each(|(reached, ns)| *reached += u64::from(ns != u64::MAX));
            let [wake_delay, _, blocked, _] = closed.map(|ns| ns != u64::MAX);
            if before.state == State::Blocked as u8 && wake_delay {
                assert_eq!(blocked, before.switches_voluntary > 0, "sequence {sequence}, event {event} {step:?}");
                reached.begun_before += u64::from(!blocked);
            }
        }
        assert!(rust.yield_wait_ns <= rust.preempt_wait_ns, "sequence {sequence}");
        assert!(rust.steal_ns + rust.irq_ns <= rust.run_ns, "sequence {sequence}");
        assert_eq!(rust.cpu_run_ns.iter().sum::<u64>() + rust.elsewhere_run_ns, rust.run_ns, "sequence {sequence}");
        reached.sequence(&rust);
    }
    reached.everything();
}
