//! Each CPU of the pack is a slot; when a slot's period ends, who should be there?
//!
//! Every thread has a CPU, and the kernel shares a CPU evenly among the threads that are there. So the policy
//! does not choose which thread runs, but which threads share a CPU, and changes that all the time:
//!
//! 1. **Served is progress**: CPU time, times the CPU's capacity, less what was spent waiting for other threads
//!    in a loop. The last thread at a barrier holds up all others, so it is progress that has to be equal.
//! 2. **Each slot decides for itself**, at the end of its own period, together with one other: the slot of the
//!    least served thread that could be served better. How the threads of both are split again says
//!    [`split()`]: the least served to where most is to be had, moves counted.
//! 3. **Who spins has arrived.** It has done all its work up to the next meeting, so it is lifted to the
//!    progress of the furthest worker: its CPU time tells nothing. Whether it is still waiting only itself can
//!    show, when it runs; sharing a CPU with others that wait it does so often enough. When one is seen working
//!    again, the others that waited were most likely let go with it.
//! 4. **Who waits by sched_yield(2) counts as working.** It takes nothing from its co-runners, so it need not be
//!    sent away; nor does it run there, so it would never be seen to work again. Alone it has its CPU, and what
//!    it has had comes after all others the next time.
//! 5. **A blocked thread is nowhere.**
//! 6. **Periods are short where it counts**, towards the end of a phase ([`phases`]).
//!
//! *Turned down:*
//!
//! - Letting threads that wait run in SCHED_IDLE. The kernel still owes a thread that becomes SCHED_IDLE a
//!   little, and runs it for a whole tick more; with spinning phases of 10 ms on 2 CPUs, 3 threads took 1.10 of
//!   the ideal time instead of 1.07, of 1 ms 1.31 instead of 1.26; and it takes a privilege.
//! - Counting CPU time as progress: a spinner looks served, and whoever it waits for looks equally served:
//!   rankings freeze.
//! - Choosing all slots at one place and time: each exchange then interrupts another CPU, 10 to 20 us on a
//!   virtual machine, where a slot's own tick finds its thread just switched out, its clock exact and its place
//!   in the code known.
//! - Pulling the least served thread to whichever slot's period ends, and nothing else: with two threads and more
//!   for each CPU those that are ahead keep as few co-runners as the others. 5 threads on 2 simulated CPUs
//!   with spinning phases of 10 ms took 1.11 of the ideal time instead of 1.09, 16 on 7 fast and 8 slow ones
//!   1.44 instead of 1.11.
//! - Comparing how many barriers threads have passed, where the preload library counts them: it is exact for one
//!   team, and calls everybody let go for ever whose team meets less often than another.
//! - Sending work to CPUs where threads yield: a thread that was let go on a worker's CPU still looks as if
//!   it waited. 3 threads on 2 simulated CPUs with phases of 1 ms took 1.32 of the ideal time instead of 1.13.
//! - Looking at a thread only when its own CPU's tick has come: one that is moved before that is never seen to
//!   run, or to work again, and is moved for ever.

pub mod phases;
pub mod split;

use self::phases::Phases;
use self::split::{Candidate, Side, Terms, split};
use super::bound::Shape;
use super::capacity::counts;
use super::seen::Seen;
use super::{Arrange, Doing, Member, Observation, Order, Sense, Slot, Why};

/// Full capacity, as the kernel counts it (SCHED_CAPACITY_SCALE).
pub const FULL_CAPACITY: u64 = 1024;

/// What the rules can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a slot's period is.
    pub period_ns: u64,
    /// What a thread loses that changes its CPU, ns.
    pub move_ns: u64,
    /// What is lost besides when it is moved while it runs: the kernel stops its CPU for that.
    pub stop_ns: u64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { period_ns: 500_000, move_ns: 20_000, stop_ns: 40_000 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    At { slot: Slot, since_ns: u64 },
    Gone,
}

#[derive(Clone, Debug)]
struct Thread {
    place: Place,
    /// Served so far, ns of a CPU of full capacity.
    progress_ns: u64,
    run_ns: u64,
    /// As seen last; see [`Observation`].
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

/// The slots and the threads of a pack.
#[derive(Debug)]
pub struct Assignment {
    rules: Rules,
    capacities: Vec<u64>,
    /// Who is where.
    slots: Vec<Vec<Member>>,
    threads: Vec<Thread>,
    /// When each slot's period ended last.
    ticked_ns: Vec<u64>,
    /// When the present period of the pack began, and how many have moved in it to become equal.
    period_began_ns: u64,
    moved: usize,
    phases: Phases,
    /// Threads had been let go by then: who was seen waiting before that waits no more.
    let_go_ns: u64,
    seen: Seen,
    /// Of the slot that was looked at last; kept so that a period allocates nothing for it.
    observations: Vec<Observation>,
}

impl Assignment {
    /// A slot for each of `capacities` (of [`FULL_CAPACITY`]), and no threads.
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

    /// Threads that have a place on a slot.
    fn assigned(&self) -> usize {
        self.slots.iter().map(Vec::len).sum()
    }

    /// Whether so many more threads may change their CPUs in this period of the pack because they are behind or
    /// ahead: equal progress needs no more.
    fn may_move(&mut self, moving: usize, now_ns: u64) -> bool {
        if now_ns >= self.period_began_ns + self.rules.period_ns {
            (self.period_began_ns, self.moved) = (now_ns, 0);
        }
        let most = Shape::new(self.assigned(), self.slots.len()).map_or(0, Shape::moves_per_slice);
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

    /// The slot of whoever is least served of those that could be served better: that work, and share their
    /// CPU or have a slower one.
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

    /// Notes what the threads of a slot have done.
    fn look_at(&mut self, slot: Slot, now_ns: u64, sense: &dyn Sense) {
        self.observations.clear();
        for place in 0..self.slots[slot].len() {
            let member = self.slots[slot][place];
            let observation = sense.observation(member);
            self.look(member, slot, &observation, now_ns);
            self.observations.push(observation);
        }
    }

    /// Books what a thread has run on a slot since it was looked at last.
    fn look(&mut self, member: Member, slot: Slot, observation: &Observation, now_ns: u64) {
        let thread = &mut self.threads[member];
        (thread.runs, thread.runnable) = (observation.doing == Doing::Runs, is_runnable(observation));
        let ran_ns = observation.run_ns.saturating_sub(thread.run_ns);
        // Never back: a stand that could not be read shows nothing, and all would be booked again.
        thread.run_ns = thread.run_ns.max(observation.run_ns);
        if ran_ns == 0 {
            return;
        }
        let spun = observation.spins && !observation.yields;
        let spins = spun && observation.out_ns >= self.let_go_ns;
        // It arrived, or was let go, somewhere in this stretch: half of it is the best guess.
        let useful_ns = match (thread.spins, spun) {
            (false, false) => ran_ns,
            (true, true) => 0,
            _ => ran_ns / 2,
        };
        self.seen.stretches_ns += ran_ns;
        self.seen.spun_ns += ran_ns - useful_ns;
        let yielded = std::mem::replace(&mut thread.yields, observation.yields);
        let mut slept = false;
        // Who sleeps has not gone on yet.
        if thread.runnable {
            slept = std::mem::replace(&mut thread.blocks, observation.blocks) != observation.blocks;
        }
        let was_let_go = thread.spins && !spins;
        if was_let_go {
            // When it was switched out it was at work: the others had been let go by then.
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

    /// Whoever waits has done as much as whoever works and is furthest.
    fn lift(&mut self, member: Member) {
        let furthest_ns = self.present().filter(|thread| !thread.spins).map(|thread| thread.progress_ns).max();
        let thread = &mut self.threads[member];
        thread.progress_ns = thread.progress_ns.max(furthest_ns.unwrap_or(0));
    }

    /// One thread was let go, and most likely all that waited with it.
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
        orders.push(Order::Move { member, slot, why });
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
    /// A thread joins; members are numbered in the order in which they join. It begins as served as the
    /// least served: neither behind everybody for ever nor ahead of anybody.
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

    /// A thread has ended.
    fn leave(&mut self, member: Member) {
        self.put(member, Place::Gone);
    }

    /// Rotation begins: the threads are spread over the slots as their capacities allow; neighbours by number
    /// stay neighbours.
    fn begin(&mut self, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>) {
        self.ticked_ns.fill(now_ns);
        self.phases = Phases::default();
        let living: Vec<Member> = self.members().filter(|&m| sense.observation(m).doing != Doing::Ended).collect();
        let counts = counts(&self.capacities, living.len());
        let mut next = living.into_iter();
        for (slot, count) in counts.into_iter().enumerate() {
            for member in next.by_ref().take(count) {
                let (thread, observation) = (&mut self.threads[member], sense.observation(member));
                // What ran while the kernel placed the threads is nobody's progress here.
                thread.run_ns = observation.run_ns.max(thread.run_ns);
                (thread.spins, thread.yields, thread.blocks) = (false, false, observation.blocks);
                thread.runnable = is_runnable(&observation);
                self.send(member, slot, now_ns, Why::Start, orders);
            }
        }
    }

    /// Rotation ends: the kernel places all threads. It finds them spread evenly, because it leaves threads
    /// that keep their CPUs busy where they are for long.
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
                orders.push(Order::Free { member });
            }
        }
    }

    /// A thread that joined while slots are taken goes where it gets most.
    fn admit(&mut self, member: Member, now_ns: u64, orders: &mut Vec<Order>) {
        let share = |slot: Slot| self.capacities[slot] as f64 / (self.slots[slot].len() + 1) as f64;
        // Of equal ones the first.
        let best = (0..self.slots.len()).reduce(|best, slot| if share(slot) > share(best) { slot } else { best });
        if let Some(slot) = best {
            self.send(member, slot, now_ns, Why::Joined, orders);
        }
    }

    /// A slot's period is over: who should be there, and who at the slot of the least served?
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
        let terms = Terms {
            capacity: [self.capacities[slot], self.capacities[other]],
            period_ns: self.rules.period_ns,
            move_ns: self.rules.move_ns,
            stop_ns: self.rules.stop_ns,
        };
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
        // Places on the fullest CPUs go round among all threads, and each of these CPUs runs one at a time.
        self.phases.calm_ns(now_ns, self.assigned() as f64 / full.max(1) as f64)
    }

    fn phase_ns(&self) -> Option<u64> {
        self.phases.length_ns()
    }

    fn seen(&mut self) -> &mut Seen {
        &mut self.seen
    }
}

fn is_runnable(observation: &Observation) -> bool {
    matches!(observation.doing, Doing::Runs | Doing::Queued)
}

/// The reason for which threads change their CPUs.
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
