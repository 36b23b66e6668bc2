//! Assigns threads to CPU slots (each slot is one CPU of the pack): decides at the end of a slot's scheduling period
//! which threads should share its CPU.
//!
//! The kernel shares a CPU evenly among its runnable threads. So the policy does not choose which thread runs next.
//! It chooses which threads are co-runners, and changes that from period to period:
//!
//! 1. **Progress decides.** Progress is useful CPU time, times the CPU's capacity; time spent spinning does not count.
//!    The thread with the least progress is called the least served. The last thread at a barrier delays all others, so
//!    all threads should make equal progress.
//! 2. **Each slot decides for itself**, at the end of its own period, together with one other slot: that of the least
//!    served thread, among the threads that could be served better. [`split()`] divides the threads of both slots anew:
//!    the least served threads get the larger share, and each move has a cost.
//! 3. **A spinning thread has arrived at the barrier.** It has done all its work of this phase, so its progress is
//!    raised to that of the most advanced working thread. Only its own next run can show whether it still waits, and
//!    it runs often enough even if it shares a CPU with other waiting threads. If one spinning thread is observed
//!    working again, all others were most likely released at the same time.
//! 4. **A thread that waits with sched_yield(2) counts as working.** It takes no time from its co-runners, so it need
//!    not be moved away. It also hardly runs while it has co-runners, so if it counted as waiting it would never be
//!    observed working again. If it is alone on a CPU, its yielding counts as progress, and later the other threads are
//!    served first.
//! 5. **A blocked thread does not count** among the threads of a slot.
//! 6. **Periods become short towards the end of a phase**, where they matter most ([`phases`]).
//!
//! *Alternatives that were tried and rejected:*
//!
//! - Run waiting threads in SCHED_IDLE. This needs a privilege. The kernel still owes some time to a thread that
//!   becomes SCHED_IDLE and runs it for a whole further tick. 3 threads on 2 CPUs with spinning phases of 10 ms took
//!   1.10 of the ideal time instead of 1.07; with phases of 1 ms, 1.31 instead of 1.26.
//! - Count CPU time as progress. A spinning thread then looks as well served as the thread it waits for, so the order
//!   of threads never changes.
//! - Decide for all slots at the same time, on one CPU. Each exchange of threads then interrupts another CPU, which
//!   costs 10 to 20 us on a virtual machine. At a slot's own tick (the end of its period), its thread has just been
//!   switched out: CPU time is exact, and the code position is known.
//! - Only pull the least served thread to the slot whose period ends. With two or more threads per CPU, the threads
//!   that are ahead then never get more co-runners than the others. 5 threads on 2 simulated CPUs with spinning phases
//!   of 10 ms took 1.11 of the ideal time instead of 1.09; 16 threads on 7 fast and 8 slow CPUs, 1.44 instead of 1.11.
//! - Compare how many barriers threads have passed, as counted by the preload library. This is exact for one team.
//!   With two teams, all threads of the team with fewer barriers count as released for ever.
//! - Send working threads to CPUs whose threads yield. If such a CPU has a thread that was released from a barrier but
//!   has not run since, this thread still looks as if it waited. 3 threads on 2 simulated CPUs with phases of 1 ms took
//!   1.32 of the ideal time instead of 1.13.
//! - Observe a thread only when the period of its own slot ends. If a thread is moved to another slot before each such
//!   time, the policy never observes that the thread runs or works again, and moves it for ever.

pub mod phases;
pub mod split;

use self::phases::Phases;
pub use self::split::Rules;
use self::split::{Candidate, Side, Terms, split};
use super::capacity::counts;
use super::seen::Seen;
use super::{Arrange, Doing, Member, Observation, Order, Sense, Slot, Why};

/// Full capacity, as the kernel counts it (SCHED_CAPACITY_SCALE).
pub const FULL_CAPACITY: u64 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    At { slot: Slot, since_ns: u64 },
    Gone,
}

#[derive(Clone, Debug)]
struct Thread {
    place: Place,
    /// Progress so far: useful CPU time (without spinning), in ns of a CPU of full capacity.
    progress_ns: u64,
    run_ns: u64,
    /// `spins`, `yields`, `blocks`, `runs` and `runnable`: the thread's state at its last observation (see
    /// [`Observation`]).
    spins: bool,
    yields: bool,
    blocks: u32,
    runs: bool,
    runnable: bool,
}

impl Thread {
    fn slot(&self) -> Option<Slot> {
        match self.place {
            Place::At { slot, .. } => Some(slot),
            Place::Free | Place::Gone => None,
        }
    }
}

/// The assignment of a pack's threads to its CPU slots.
#[derive(Debug)]
pub struct Assignment {
    rules: Rules,
    capacities: Vec<u64>,
    /// The threads of each slot, which is one CPU of the pack.
    slots: Vec<Vec<Member>>,
    threads: Vec<Thread>,
    /// When the scheduling period of each slot ended last, ns.
    ticked_ns: Vec<u64>,
    /// Start of the interval, one scheduling period long, in which the moves of the whole pack are counted, ns.
    /// `moved`: how many moves in this interval served only to equalise progress.
    period_began_ns: u64,
    moved: usize,
    phases: Phases,
    /// Time of the last known release of threads from a barrier, ns: a thread that was observed spinning before this
    /// time no longer waits.
    let_go_ns: u64,
    seen: Seen,
    /// Observations of the threads of one slot; kept so that the end of a scheduling period allocates no memory.
    observations: Vec<Observation>,
}

impl Assignment {
    /// Makes an assignment for CPUs of these capacities (relative to [`FULL_CAPACITY`]), one slot each, without
    /// threads.
    #[must_use]
    pub fn new(rules: Rules, capacities: Vec<u64>) -> Assignment {
        let slots = vec![Vec::new(); capacities.len()];
        let ticked_ns = vec![0; capacities.len()];
        Assignment {
            rules,
            capacities,
            slots,
            threads: Vec::new(),
            ticked_ns,
            period_began_ns: 0,
            moved: 0,
            phases: Phases::default(),
            let_go_ns: 0,
            seen: Seen::default(),
            observations: Vec::new(),
        }
    }

    fn members(&self) -> impl Iterator<Item = Member> + '_ {
        (0..self.threads.len()).filter(|&member| self.threads[member].place != Place::Gone)
    }

    /// Returns how many threads are assigned to a slot.
    fn assigned(&self) -> usize {
        self.slots.iter().map(Vec::len).sum()
    }

    /// Adds `moving` to the number of moves in this scheduling period that only equalise progress. Returns true if
    /// these moves may be made: if the number is at most [`moves_per_slice`], which is what equal progress needs, or if
    /// that limit is 0.
    fn may_move(&mut self, moving: usize, now_ns: u64) -> bool {
        if now_ns >= self.period_began_ns + self.rules.period_ns {
            (self.period_began_ns, self.moved) = (now_ns, 0);
        }
        let most = moves_per_slice(self.assigned(), self.slots.len());
        self.moved += moving;
        most == 0 || self.moved <= most
    }

    fn candidate(&self, member: Member, here: Slot) -> Candidate {
        let Thread { place, spins, runs, progress_ns, .. } = self.threads[member];
        let (side, since_ns) = match place {
            Place::At { slot, since_ns } if slot == here => (Side::Here, since_ns),
            Place::At { since_ns, .. } => (Side::There, since_ns),
            Place::Free | Place::Gone => (Side::There, 0),
        };
        Candidate { side, spins, runs, progress_ns, since_ns }
    }

    /// Returns the slot that `here` should exchange threads with: that of the thread with the least progress, among the
    /// working threads of other slots that could be served better. These are threads that share their CPU with another
    /// runnable thread, or whose CPU is slower than that of `here`. `None` if there are none.
    fn partner(&self, here: Slot) -> Option<Slot> {
        let shares = |slot: Slot| self.slots[slot].iter().filter(|&&m| self.threads[m].runnable).nth(1).is_some();
        let mut least: Option<(u64, Slot)> = None;
        for thread in self.threads.iter().filter(|thread| thread.runnable && !thread.spins) {
            let Some(slot) = thread.slot().filter(|&slot| slot != here) else { continue };
            let less = least.is_none_or(|(progress_ns, _)| thread.progress_ns < progress_ns);
            if less && (self.capacities[slot] < self.capacities[here] || shares(slot)) {
                least = Some((thread.progress_ns, slot));
            }
        }
        least.map(|(_, slot)| slot)
    }

    /// Updates the progress and the state of all threads of a slot.
    fn look_at(&mut self, slot: Slot, now_ns: u64, sense: &dyn Sense) {
        self.observations.clear();
        for place in 0..self.slots[slot].len() {
            let member = self.slots[slot][place];
            let observation = sense.observation(member);
            self.look(member, slot, &observation, now_ns);
            self.observations.push(observation);
        }
    }

    /// Updates a thread's progress and state: adds the useful part of the time that it has run on `slot` since its last
    /// observation.
    fn look(&mut self, member: Member, slot: Slot, observation: &Observation, now_ns: u64) {
        let thread = &mut self.threads[member];
        (thread.runs, thread.runnable) = (observation.doing == Doing::Runs, is_runnable(observation));
        let ran_ns = observation.run_ns.saturating_sub(thread.run_ns);
        // A snapshot that cannot be read shows a run time of 0. The stored run time must not decrease then, or the
        // thread's whole run time would be counted again at the next observation.
        thread.run_ns = thread.run_ns.max(observation.run_ns);
        if ran_ns == 0 {
            return;
        }
        let spun = observation.spins && !observation.yields;
        let spins = spun && observation.out_ns >= self.let_go_ns;
        // If the thread arrived at a barrier or was released since its last observation, the exact time is unknown:
        // count half of the run time as useful.
        let useful_ns = match (thread.spins, spun) {
            (false, false) => ran_ns,
            (true, true) => 0,
            _ => ran_ns / 2,
        };
        self.seen.stretches_ns += ran_ns;
        self.seen.spun_ns += ran_ns - useful_ns;
        let yielded = std::mem::replace(&mut thread.yields, observation.yields);
        let mut slept = false;
        // A thread that still sleeps has not passed the barrier yet. So only a runnable thread is checked for a sleep
        // since its last observation.
        if thread.runnable {
            slept = std::mem::replace(&mut thread.blocks, observation.blocks) != observation.blocks;
        }
        let was_let_go = thread.spins && !spins;
        if was_let_go {
            // The thread works again, so it had left the barrier when it was switched out. By then, the threads that
            // waited at the same barrier had been released too.
            self.let_go_ns = self.let_go_ns.max(observation.out_ns);
            self.let_go();
        }
        if was_let_go || !spins && (yielded && !observation.yields || slept) {
            self.phases.goes_on(now_ns);
        }
        let thread = &mut self.threads[member];
        thread.progress_ns += useful_ns * self.capacities[slot] / FULL_CAPACITY;
        thread.spins = spins;
        if spins {
            self.lift(member);
        }
    }

    /// Raises a waiting thread's progress to that of the most advanced working thread.
    fn lift(&mut self, member: Member) {
        let furthest_ns = self.present().filter(|thread| !thread.spins).map(|thread| thread.progress_ns).max();
        let thread = &mut self.threads[member];
        thread.progress_ns = thread.progress_ns.max(furthest_ns.unwrap_or(0));
    }

    /// Notes that no thread waits any more: one waiting thread was released, and most likely all others with it.
    fn let_go(&mut self) {
        let waiting: Vec<Member> = self.members().filter(|&member| self.threads[member].spins).collect();
        for &member in &waiting {
            self.lift(member);
        }
        for member in waiting {
            self.threads[member].spins = false;
        }
    }

    fn present(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().filter(|thread| thread.place != Place::Gone)
    }

    fn send(&mut self, member: Member, slot: Slot, now_ns: u64, why: Why, orders: &mut Vec<Order>) {
        self.put(member, Place::At { slot, since_ns: now_ns });
        orders.push(Order { member, to: Some((slot, why)) });
    }

    fn put(&mut self, member: Member, place: Place) {
        if let Some(slot) = self.threads[member].slot() {
            self.slots[slot].retain(|&other| other != member);
        }
        self.threads[member].place = place;
        if let Some(slot) = self.threads[member].slot() {
            self.slots[slot].push(member);
        }
    }
}

impl Arrange for Assignment {
    /// Adds a thread and returns its number. The thread starts with the progress of the least served thread, so that
    /// it is neither far behind the others nor ahead of them.
    fn join(&mut self, observation: &Observation) -> Member {
        let progress_ns = self.present().map(|thread| thread.progress_ns).min().unwrap_or(0);
        let (run_ns, runnable) = (observation.run_ns, is_runnable(observation));
        self.threads.push(Thread {
            place: Place::Free,
            progress_ns,
            run_ns,
            spins: false,
            yields: false,
            blocks: observation.blocks,
            runs: false,
            runnable,
        });
        self.threads.len() - 1
    }

    /// Removes a thread that has ended.
    fn leave(&mut self, member: Member) {
        self.put(member, Place::Gone);
    }

    /// Begins rotation: spreads the threads over the slots (the CPUs of the pack) according to their capacities.
    /// Threads with adjacent numbers stay together.
    fn begin(&mut self, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>) {
        self.ticked_ns.fill(now_ns);
        self.phases = Phases::default();
        let living: Vec<Member> = self.members().filter(|&m| sense.observation(m).doing != Doing::Ended).collect();
        let counts = counts(&self.capacities, living.len());
        let mut next = living.into_iter();
        for (slot, count) in counts.into_iter().enumerate() {
            for member in next.by_ref().take(count) {
                let (thread, observation) = (&mut self.threads[member], sense.observation(member));
                // CPU time from before rotation does not count as progress.
                thread.run_ns = observation.run_ns.max(thread.run_ns);
                (thread.spins, thread.yields, thread.blocks) = (false, false, observation.blocks);
                thread.runnable = is_runnable(&observation);
                self.send(member, slot, now_ns, Why::Start, orders);
            }
        }
    }

    /// Ends rotation; from now on, the kernel places the threads. They are spread evenly first, because the kernel may
    /// take long to move threads if all CPUs are busy.
    fn end(&mut self, now_ns: u64, orders: &mut Vec<Order>) {
        let counts = counts(&self.capacities, self.assigned());
        let surplus = |slots: &[Vec<Member>], slot: Slot| slots[slot].len() > counts[slot];
        while let Some(from) = (0..self.slots.len()).find(|&slot| surplus(&self.slots, slot)) {
            let Some(to) = (0..self.slots.len()).find(|&slot| self.slots[slot].len() < counts[slot]) else { break };
            let Some(&member) = self.slots[from].last() else { break };
            self.send(member, to, now_ns, Why::End, orders);
        }
        for member in 0..self.threads.len() {
            if self.threads[member].slot().is_some() {
                self.put(member, Place::Free);
                orders.push(Order { member, to: None });
            }
        }
    }

    /// Assigns a thread that joined while threads are rotated to the slot where it gets the largest share of a CPU:
    /// `capacity ÷ (threads there + 1)`.
    fn admit(&mut self, member: Member, now_ns: u64, orders: &mut Vec<Order>) {
        let share = |slot: Slot| self.capacities[slot] as f64 / (self.slots[slot].len() + 1) as f64;
        // If several slots offer the same share, the first of them is taken.
        let best = (0..self.slots.len()).reduce(|best, slot| if share(slot) > share(best) { slot } else { best });
        if let Some(slot) = best {
            self.send(member, slot, now_ns, Why::Joined, orders);
        }
    }

    /// Ends the scheduling period of a slot: takes the threads of this slot and of the slot with the least served
    /// thread (see `partner`), and divides them anew between the two slots.
    fn end_period(&mut self, slot: Slot, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>) {
        self.look_at(slot, now_ns, sense);
        let since_ns = now_ns.saturating_sub(std::mem::replace(&mut self.ticked_ns[slot], now_ns));
        let periods = ((since_ns + self.rules.period_ns / 2) / self.rules.period_ns.max(1)).max(1);
        self.seen.tick(slot, now_ns, periods, self.observations.iter().copied());
        let Some(other) = self.partner(slot) else { return };
        self.look_at(other, now_ns, sense);
        let both = self.slots[slot].iter().chain(&self.slots[other]).copied();
        let members: Vec<Member> = both.filter(|&member| self.threads[member].runnable).collect();
        let threads: Vec<Candidate> = members.iter().map(|&member| self.candidate(member, slot)).collect();
        let terms = Terms { capacity: [self.capacities[slot], self.capacities[other]], rules: self.rules };
        let Some(sides) = split(terms, &threads) else { return };
        let why = why(&threads);
        let moving = threads.iter().zip(&sides).filter(|(thread, side)| thread.side != **side).count();
        if matches!(why, Why::Behind(_)) && !self.may_move(moving, now_ns) {
            return;
        }
        self.seen.exchanges += 1;
        for ((&member, thread), side) in members.iter().zip(&threads).zip(sides) {
            if side != thread.side {
                self.seen.moves += 1;
                self.send(member, if side == Side::Here { slot } else { other }, now_ns, why, orders);
            }
        }
    }

    fn set_period(&mut self, period_ns: u64) {
        self.rules.period_ns = period_ns;
    }

    fn calm_ns(&self, now_ns: u64) -> u64 {
        let fullest = self.slots.iter().map(Vec::len).max().unwrap_or(0);
        let full = self.slots.iter().filter(|slot| slot.len() == fullest).count();
        // The most loaded CPUs are those with the most threads. All threads take turns on them, and each of these CPUs
        // runs one thread at a time. So until each thread has run for one period on such a CPU, this many periods pass:
        // the number of threads divided by the number of these CPUs.
        self.phases.calm_ns(now_ns, self.assigned() as f64 / full.max(1) as f64)
    }

    fn phase_ns(&self) -> Option<u64> {
        self.phases.length_ns()
    }

    fn seen(&mut self) -> &mut Seen {
        &mut self.seen
    }
}

/// Returns the largest number of moves between CPUs that equal progress needs in one period, in the whole pack. With N
/// threads and C CPUs, `q = N div C` and `r = N mod C`, it is `2 * min((C-r)*q, N-(C-r)*q)`.
#[must_use]
pub fn moves_per_slice(threads: usize, cpus: usize) -> usize {
    let (q, r) = (threads / cpus, threads % cpus);
    let light = (cpus - r) * q;
    2 * light.min(threads - light)
}

fn is_runnable(observation: &Observation) -> bool {
    matches!(observation.doing, Doing::Runs | Doing::Queued)
}

/// Returns the reason for which two slots exchange some of `threads`.
fn why(threads: &[Candidate]) -> Why {
    let mut here = threads.iter().filter(|thread| thread.side == Side::Here).peekable();
    if here.peek().is_none() {
        return Why::SlotFree;
    }
    if here.any(|thread| thread.spins) {
        return Why::Spins;
    }
    let progress = || threads.iter().map(|thread| thread.progress_ns);
    Why::Behind(progress().max().unwrap_or(0) - progress().min().unwrap_or(0))
}

#[cfg(test)]
mod tests;
