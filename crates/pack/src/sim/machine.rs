//! The simulated machine: its CPUs and events. It also carries out the policy's orders (changes of affinity masks).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use random::Random;

use super::program::{Act, Program, Wait};
use super::queue::{Entity, Queue};
use crate::policy::assignment::FULL_CAPACITY;
use crate::policy::controller::{Controller, Settings, Totals};
use crate::policy::{Doing, Member, Observation, Order, Sense, Slot};
use crate::trial::{Look, Seen, Trial, look_ns};

/// Time between two ticks of the kernel, ns: 250 Hz.
const KERNEL_TICK_NS: u64 = 4_000_000;
/// Time of one sched_yield(2) that finds no other thread, with the loop around it, ns.
const YIELD_NS: u64 = 700;
/// Time between two calls of the controller, which then checks whether its measuring window is over, ns.
const LOOK_NS: u64 = 10_000_000;
/// CPU time that actions cost, ns. The defaults were measured on a virtual machine with 2 CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Cost of a switch from one thread to another.
    pub switch_ns: u64,
    /// Cost of a tick of the controller, which ends a scheduling period on a CPU: the timer, two switches and the
    /// decision.
    pub tick_ns: u64,
    /// Cost of the system calls of one order (a new affinity mask for a thread).
    pub order_ns: u64,
    /// Cost of refilling the cache after a thread has moved to another CPU.
    pub move_ns: u64,
    /// Cost of waking a thread, for the thread that wakes it.
    pub wake_ns: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { switch_ns: 1_500, tick_ns: 15_000, order_ns: 5_000, move_ns: 3_000, wake_ns: 2_500 }
    }
}

impl Costs {
    /// All actions cost nothing, to check results against closed forms.
    pub const NONE: Costs = Costs { switch_ns: 0, tick_ns: 0, order_ns: 0, move_ns: 0, wake_ns: 0 };
}

/// How the threads are placed on CPUs.
#[derive(Clone, Copy, Debug)]
pub enum Packing {
    /// The kernel places the threads anywhere in the pack, as with taskset.
    Kernel,
    /// Each thread is bound to one CPU all the time; threads are spread evenly.
    Pinned,
    /// cox's policy: it may bind threads to CPUs and rotate them.
    Policy(Settings),
    /// The kernel and the policy place the threads in turn, to compare the two.
    Trial(Settings),
}

/// The result of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Time until the last thread has ended, ns.
    pub elapsed_ns: u64,
    /// CPU time of each thread, ns.
    pub run_ns: Vec<u64>,
    /// CPU time of the controller, ns.
    pub own_ns: u64,
    /// Sums that the policy kept: its observations, the threads' CPU time, and how long they were rotated.
    pub totals: Totals,
    /// The longest time for which a runnable thread did not run, ns.
    pub longest_wait_ns: u64,
    /// Switches from one thread to another, or from idle to a thread.
    pub switches: u64,
    /// The result of the trial, if there was one.
    pub trial: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The action of the running thread ends.
    Act { cpu: usize, version: u64 },
    /// A tick of the kernel.
    Tick { cpu: usize },
    /// A tick of the controller: a scheduling period ends on the CPU of `slot`.
    Slot { slot: Slot, version: u64 },
    /// The controller checks whether its measuring window is over.
    Look,
    /// All CPUs are sampled.
    Sample { version: u64 },
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    capacity: u64,
    queue: Queue,
    current: Option<usize>,
    /// The running thread's time is counted up to this time, ns. While the controller or a switch uses the CPU, this
    /// time is in the future.
    since_ns: u64,
    version: u64,
    slice_over: bool,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    act: Act,
    cpu: usize,
    /// `Some`: the thread may run on this CPU only.
    pinned: Option<usize>,
    run_ns: u64,
    blocks: u32,
    refill_ns: u64,
    seen_spinning: bool,
    rounds: u64,
    queued_since_ns: u64,
}

struct Machine<'p> {
    program: &'p Program,
    costs: Costs,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    serial: u64,
    cpus: Vec<Cpu>,
    threads: Vec<Thread>,
    entities: Vec<Entity>,
    random: Random,
    arrived: usize,
    rounds: u64,
    ended: usize,
    slot_version: u64,
    trial: Option<Trial>,
    /// The result so far.
    outcome: Outcome,
}

/// Runs a program to its end on CPUs of these capacities (relative to [`FULL_CAPACITY`]).
#[must_use]
pub fn run(program: &Program, capacities: &[u64], packing: Packing, costs: Costs, seed: u64) -> Outcome {
    let mut machine = Machine::new(program, capacities, costs, seed);
    let mut controller = match packing {
        Packing::Policy(settings) | Packing::Trial(settings) => Some(Controller::new(settings, capacities, 0, 0)),
        Packing::Kernel | Packing::Pinned => None,
    };
    if let Packing::Trial(settings) = packing {
        machine.trial = Some(Trial::new(settings.periods));
    }
    let mut orders = Vec::new();
    machine.start(matches!(packing, Packing::Pinned));
    if let Some(controller) = &mut controller {
        for member in 0..program.threads {
            controller.join(&machine.observation(member), 0, &mut orders);
        }
        machine.push(0, Event::Look);
    }
    while machine.ended < program.threads {
        let Some(Reverse((at_ns, _, event))) = machine.events.pop() else { break };
        machine.now_ns = at_ns;
        match (event, &mut controller) {
            (Event::Act { cpu, version }, _) => machine.act_ends(cpu, version),
            (Event::Tick { cpu }, _) => machine.kernel_tick(cpu),
            (Event::Look, Some(controller)) => machine.look(controller, &mut orders),
            (Event::Sample { version }, Some(controller)) if version == machine.slot_version => {
                machine.sample(version, controller);
            }
            (Event::Slot { slot, version }, Some(controller)) if version == machine.slot_version => {
                machine.slot_tick(slot, controller, &mut orders);
            }
            _ => {}
        }
    }
    let (now_ns, own_ns) = (machine.now_ns, machine.outcome.own_ns);
    if let Some(mut controller) = controller {
        if let Some(mut trial) = machine.trial.take() {
            machine.outcome.trial = Some(trial.end(&mut controller, now_ns, own_ns, &machine));
        }
        controller.end(now_ns, own_ns, &machine, &mut orders);
        machine.outcome.totals = controller.totals();
    }
    let run_ns = machine.threads.iter().map(|thread| thread.run_ns).collect();
    Outcome { elapsed_ns: now_ns, run_ns, ..machine.outcome }
}

impl Sense for Machine<'_> {
    fn observation(&self, member: Member) -> Observation {
        let thread = &self.threads[member];
        let cpu = &self.cpus[thread.cpu];
        let runs = cpu.current == Some(member);
        let stretch_ns = if runs { self.now_ns.saturating_sub(cpu.since_ns) } else { 0 };
        let doing = match thread.act {
            Act::End => Doing::Ended,
            Act::Sleep => Doing::Blocked,
            _ if runs => Doing::Runs,
            _ => Doing::Queued,
        };
        Observation {
            run_ns: thread.run_ns + stretch_ns,
            blocks: thread.blocks,
            meets: 0,
            doing,
            spins: thread.seen_spinning,
            yields: thread.seen_spinning && self.program.wait == Wait::Yield,
            at: Some(thread.cpu),
            out_ns: thread.queued_since_ns,
        }
    }
}

impl<'p> Machine<'p> {
    fn new(program: &'p Program, capacities: &[u64], costs: Costs, seed: u64) -> Machine<'p> {
        let cpus = capacities.iter().map(|&capacity| Cpu { capacity, ..Cpu::default() }).collect();
        Machine {
            program,
            costs,
            now_ns: 0,
            events: BinaryHeap::new(),
            serial: 0,
            cpus,
            threads: vec![Thread::default(); program.threads],
            entities: vec![Entity::default(); program.threads],
            random: Random::new(seed),
            arrived: 0,
            rounds: 0,
            ended: 0,
            slot_version: 0,
            trial: None,
            outcome: Outcome::default(),
        }
    }

    fn start(&mut self, pinned: bool) {
        let capacities: Vec<u64> = self.cpus.iter().map(|cpu| cpu.capacity).collect();
        let counts = crate::policy::capacity::counts(&capacities, self.threads.len());
        let places = counts.into_iter().enumerate().flat_map(|(cpu, count)| std::iter::repeat_n(cpu, count));
        for (thread, cpu) in places.enumerate() {
            self.threads[thread].act = Act::Work(self.next_work());
            self.threads[thread].cpu = cpu;
            self.threads[thread].pinned = pinned.then_some(cpu);
            self.cpus[cpu].queue.enter(thread, &mut self.entities);
        }
        for cpu in 0..self.cpus.len() {
            self.choose(cpu);
            // As on real machines, the CPUs do not tick at the same time.
            let offset_ns = KERNEL_TICK_NS * (cpu as u64 + 1) / self.cpus.len() as u64;
            self.push(offset_ns, Event::Tick { cpu });
        }
    }

    fn next_work(&mut self) -> u64 {
        let vary = 1.0 + self.program.jitter * (2.0 * self.random.unit() - 1.0);
        (self.program.work_ns as f64 * vary) as u64
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at_ns, self.serial, event)));
    }

    /// Charges the running thread for its run time up to now, and subtracts that time from its remaining work.
    fn charge(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        let Some(current) = cpu.current else { return };
        let ran_ns = self.now_ns.saturating_sub(cpu.since_ns);
        if ran_ns == 0 {
            return;
        }
        cpu.since_ns = self.now_ns;
        cpu.slice_over |= Queue::ran(current, i128::from(ran_ns), &mut self.entities);
        let thread = &mut self.threads[current];
        thread.run_ns += ran_ns;
        let refilled_ns = thread.refill_ns.min(ran_ns);
        thread.refill_ns -= refilled_ns;
        match &mut thread.act {
            // The work done is rounded down, and `arm` rounds the time up that it schedules for the work. So no work is
            // left when the event that `arm` has scheduled comes.
            Act::Work(left) => *left = left.saturating_sub((ran_ns - refilled_ns) * cpu.capacity / FULL_CAPACITY),
            Act::Spin(Some(left)) => *left = left.saturating_sub(ran_ns),
            _ => {}
        }
    }

    /// Schedules the event at which the running thread's action ends.
    fn arm(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        cpu.version += 1;
        let version = cpu.version;
        let Some(current) = cpu.current else { return };
        let thread = &self.threads[current];
        let in_ns = match thread.act {
            Act::Work(left) => Some(thread.refill_ns + (left * FULL_CAPACITY).div_ceil(cpu.capacity)),
            Act::Spin(Some(left)) => Some(left),
            Act::Yield if cpu.queue.members().len() > 1 => Some(YIELD_NS),
            _ => None,
        };
        let from_ns = cpu.since_ns.max(self.now_ns);
        if let Some(in_ns) = in_ns {
            self.push(from_ns + in_ns, Event::Act { cpu: number, version });
        }
    }

    /// Lets the kernel choose the thread that the CPU runs. If the queue is empty, the CPU pulls a thread from
    /// another one.
    fn choose(&mut self, number: usize) {
        self.charge(number);
        let before = self.cpus[number].current;
        let next = self.cpus[number].queue.pick(&self.entities).or_else(|| self.pull(number));
        if next != before {
            if let Some(before) = before {
                self.switch_out(before);
            }
            if let Some(next) = next {
                let waited_ns = self.now_ns.saturating_sub(self.threads[next].queued_since_ns);
                self.outcome.longest_wait_ns = self.outcome.longest_wait_ns.max(waited_ns);
                self.outcome.switches += 1;
            }
            let cpu = &mut self.cpus[number];
            cpu.current = next;
            cpu.since_ns = cpu.since_ns.max(self.now_ns) + self.costs.switch_ns;
        }
        self.cpus[number].slice_over = false;
        self.arm(number);
    }

    /// Stores what cox observes of a thread when it is switched out: whether it was spinning, and the time.
    fn switch_out(&mut self, thread: usize) {
        let thread = &mut self.threads[thread];
        thread.seen_spinning = thread.act.is_spinning();
        thread.queued_since_ns = self.now_ns;
    }

    /// Takes a waiting thread that is not pinned from the longest queue of another CPU, and moves it to this one.
    /// Returns the thread.
    fn pull(&mut self, number: usize) -> Option<usize> {
        let from = (0..self.cpus.len())
            .filter(|&other| other != number)
            .max_by_key(|&other| (self.cpus[other].queue.members().len(), Reverse(other)))?;
        let mut queued = self.cpus[from].queue.members().iter().copied();
        let taken =
            queued.find(|&thread| self.cpus[from].current != Some(thread) && self.threads[thread].pinned.is_none())?;
        self.charge(from);
        self.cpus[from].queue.leave(taken, &mut self.entities);
        self.arrive_at(taken, number);
        Some(taken)
    }

    /// Adds a thread to a CPU's queue.
    fn arrive_at(&mut self, thread: usize, number: usize) {
        self.charge(number);
        if self.threads[thread].cpu != number {
            self.threads[thread].cpu = number;
            self.threads[thread].refill_ns = self.costs.move_ns;
        }
        self.cpus[number].queue.enter(thread, &mut self.entities);
        // A yielding thread is no longer alone on its CPU, so its next sched_yield(2) switches to the new thread.
        if self.cpus[number].current.is_some_and(|current| self.threads[current].act == Act::Yield) {
            self.arm(number);
        }
    }

    /// Removes a thread from its queue, and from its CPU if it runs.
    fn depart(&mut self, thread: usize) {
        let number = self.threads[thread].cpu;
        self.charge(number);
        self.cpus[number].queue.leave(thread, &mut self.entities);
        if self.cpus[number].current == Some(thread) {
            self.switch_out(thread);
            self.cpus[number].current = None;
        }
    }

    fn wake(&mut self, thread: usize, waker: usize) {
        self.cpus[waker].since_ns = self.cpus[waker].since_ns.max(self.now_ns) + self.costs.wake_ns;
        let own = self.threads[thread].cpu;
        let may = |cpu: usize| self.threads[thread].pinned.is_none_or(|pinned| pinned == cpu);
        let idle = |cpu: &usize| may(*cpu) && self.cpus[*cpu].current.is_none();
        let all = || std::iter::once(own).chain(0..self.cpus.len());
        let target = all().find(idle).or_else(|| all().find(|cpu| may(*cpu)));
        let target = target.unwrap_or(own);
        self.threads[thread].queued_since_ns = self.now_ns;
        self.arrive_at(thread, target);
        if self.cpus[target].current.is_none() {
            self.choose(target);
        }
    }

    fn act_ends(&mut self, number: usize, version: u64) {
        if self.cpus[number].version != version {
            return;
        }
        self.charge(number);
        let Some(current) = self.cpus[number].current else { return };
        match self.threads[current].act {
            Act::Work(0) => self.work_is_done(current, number),
            Act::Spin(Some(0)) => self.sleeps(current, number),
            Act::Yield => {
                Queue::yields(current, &mut self.entities);
                self.choose(number);
            }
            // A tick or a wake-up came in between, so a part of the action remains.
            _ => self.arm(number),
        }
    }

    fn work_is_done(&mut self, thread: usize, number: usize) {
        self.threads[thread].rounds += 1;
        if self.program.wait == Wait::Never {
            if self.threads[thread].rounds == self.program.rounds {
                self.ends(thread);
            } else {
                self.threads[thread].act = Act::Work(self.next_work());
                self.arm(number);
            }
            return;
        }
        self.arrived += 1;
        if self.arrived == self.threads.len() {
            self.release(thread, number);
            return;
        }
        match self.program.wait {
            Wait::Spin | Wait::Never => self.threads[thread].act = Act::Spin(None),
            Wait::SpinThenBlock(limit_ns) => self.threads[thread].act = Act::Spin(Some(limit_ns)),
            Wait::Yield => self.threads[thread].act = Act::Yield,
            Wait::Block => return self.sleeps(thread, number),
        }
        self.arm(number);
    }

    fn sleeps(&mut self, thread: usize, number: usize) {
        self.threads[thread].act = Act::Sleep;
        self.threads[thread].blocks += 1;
        self.depart(thread);
        self.choose(number);
    }

    /// Releases the barrier after the last thread has arrived: all threads continue, or end.
    fn release(&mut self, last: usize, number: usize) {
        self.arrived = 0;
        self.rounds += 1;
        let over = self.rounds == self.program.rounds;
        for thread in 0..self.threads.len() {
            let cpu = self.threads[thread].cpu;
            if over {
                self.ends(thread);
                continue;
            }
            self.charge(cpu);
            let slept = self.threads[thread].act == Act::Sleep;
            self.threads[thread].act = Act::Work(self.next_work());
            if slept {
                self.wake(thread, number);
            } else if self.cpus[cpu].current == Some(thread) && thread != last {
                self.arm(cpu);
            }
        }
        self.arm(number);
    }

    fn ends(&mut self, thread: usize) {
        let number = self.threads[thread].cpu;
        if self.threads[thread].act.is_runnable() {
            self.depart(thread);
        }
        self.threads[thread].act = Act::End;
        self.ended += 1;
        if self.cpus[number].current.is_none() {
            self.choose(number);
        }
    }

    fn kernel_tick(&mut self, number: usize) {
        self.push(self.now_ns + KERNEL_TICK_NS, Event::Tick { cpu: number });
        self.charge(number);
        if self.cpus[number].slice_over || self.cpus[number].current.is_none() {
            self.choose(number);
        }
    }

    fn look(&mut self, controller: &mut Controller, orders: &mut Vec<Order>) {
        self.push(self.now_ns + LOOK_NS, Event::Look);
        let mut trial = self.trial.take();
        let changed = match &mut trial {
            Some(trial) => trial.look(controller, self.now_ns, self.outcome.own_ns, self, orders),
            None => controller.look(self.now_ns, self.outcome.own_ns, self, orders),
        };
        self.trial = trial;
        if changed {
            self.slot_version += 1;
            if look_ns(controller.action(), self.trial.is_some()).is_some() {
                self.push(self.now_ns, Event::Sample { version: self.slot_version });
            }
            if let Some(tick_ns) = controller.tick_ns() {
                let slots = self.cpus.len() as u64;
                for slot in 0..self.cpus.len() {
                    let at_ns = self.now_ns + tick_ns + tick_ns * slot as u64 / slots;
                    let version = self.slot_version;
                    self.push(at_ns, Event::Slot { slot, version });
                }
            }
        }
        self.carry_out(0, orders);
    }

    fn sample(&mut self, version: u64, controller: &mut Controller) {
        let Some(look_ns) = look_ns(controller.action(), self.trial.is_some()) else { return };
        let look = |thread: usize| Look { tid: thread as u32, waited: self.threads[thread].act.is_spinning() };
        let looks: Vec<Look> = self.cpus.iter().filter_map(|cpu| cpu.current).map(look).collect();
        let spinning = looks.iter().filter(|look| look.waited).count() as u64;
        let yielding = if self.program.wait == Wait::Yield { spinning } else { 0 };
        controller.sampled(looks.len() as u64, spinning, yielding);
        if let Some(trial) = &mut self.trial {
            trial.sampled(looks.into_iter());
        }
        let vary = (look_ns as f64 * (0.75 + 0.5 * self.random.unit())) as u64;
        self.push(self.now_ns + vary, Event::Sample { version });
    }

    fn slot_tick(&mut self, slot: Slot, controller: &mut Controller, orders: &mut Vec<Order>) {
        let version = self.slot_version;
        self.charge(slot);
        // cox's ticker thread, which ends the scheduling period, takes the CPU. So the thread that ran is switched out.
        if let Some(current) = self.cpus[slot].current.take() {
            self.switch_out(current);
        }
        self.spend(slot, self.costs.tick_ns);
        controller.tick(slot, self.now_ns, self, orders);
        if let Some(tick_ns) = controller.next_tick_ns(self.now_ns) {
            let vary = (tick_ns as f64 * (0.75 + 0.5 * self.random.unit())) as u64;
            self.push(self.now_ns + vary, Event::Slot { slot, version });
        }
        self.carry_out(slot, orders);
        self.choose(slot);
    }

    /// Lets the controller use a CPU for `ns`: no thread runs there meanwhile, and the time counts as the controller's.
    fn spend(&mut self, number: usize, ns: u64) {
        self.charge(number);
        self.outcome.own_ns += ns;
        let cpu = &mut self.cpus[number];
        cpu.since_ns = cpu.since_ns.max(self.now_ns) + ns;
    }

    fn carry_out(&mut self, by: usize, orders: &mut Vec<Order>) {
        for order in orders.drain(..) {
            let (member, pinned) = (order.member, order.place());
            // As in `live::managed`: an order that changes nothing costs nothing.
            if self.threads[member].pinned == pinned {
                continue;
            }
            self.spend(by, self.costs.order_ns);
            self.threads[member].pinned = pinned;
            let at = self.threads[member].cpu;
            let Some(to) = pinned.filter(|&to| to != at) else { continue };
            if !self.threads[member].act.is_runnable() {
                self.threads[member].cpu = to;
                continue;
            }
            self.depart(member);
            self.arrive_at(member, to);
            for cpu in [at, to] {
                if self.cpus[cpu].current.is_none() && cpu != by {
                    self.choose(cpu);
                }
            }
        }
    }
}
