//! Each CPU of the pack is a seat, and each seat is taken for a turn at a time.
//!
//! When a seat's turn ends, whoever sits there is looked at, and the least served of those who wait takes
//! the seat if it is far enough behind. *Served* is progress: CPU time, times the CPU's capacity, less what
//! was spent waiting for other threads in a loop. The rules, and the reason for each:
//!
//! 1. **Least served first**, from all that wait: the last thread at a barrier holds up all others.
//! 2. **Ties go round**: of equally served threads the one that has waited longest. Threads that meet at
//!    barriers are always equally served there, and without this rule the same ones would wait every time.
//! 3. **A margin before an exchange**: an exchange costs two switches and a cache. With 16 threads on 15
//!    CPUs one exchange per turn of the whole pack is enough, not one per seat.
//! 4. **Neighbours stay**: who waits behind another seat has to be further behind by what a move costs.
//! 5. **Who spins has arrived.** It has done all its work up to the next meeting, so it is lifted to the
//!    progress of the furthest worker: its CPU time tells nothing. A spinner is tried again when the others
//!    have gone on by half a turn, then a turn, two, four: it may have been let go meanwhile, which only
//!    itself can show.
//! 6. **A blocked thread needs no seat.** Whoever can run takes it.
//! 7. **Who leaves a seat waits right there**, in the queue of the same CPU, and the kernel shares that CPU
//!    between the two, choosing anew at each tick: an exchange of neighbours costs no system call at all, and
//!    a seat means *no thread is pulled away from this CPU's queue before its turn*.
//!
//! When one of several threads that waited together is seen working again, the others are tried as well:
//! they were most likely let go with it.
//!
//! *Turned down:* letting those who wait run in SCHED_IDLE, so that a seat is taken alone. The kernel still
//! owes a thread that becomes SCHED_IDLE a little, and runs it for a whole tick more; with spinning phases of
//! 10 ms on 2 CPUs, 3 threads took 1.10 of the ideal time instead of 1.07, of 1 ms 1.31 instead of 1.26; and
//! it takes a privilege. Counting CPU time as progress (a spinner looks served, and whoever it waits for looks
//! equally served: rankings freeze); choosing all seats at one place and time (each exchange then interrupts
//! another CPU, 10 to 20 us on a virtual machine, where a seat's own tick finds its thread just switched
//! out, its clock exact and its place in the code known).

use super::{Doing, Glance, Member, Order, Seat, Sense, Why};

/// Full capacity, as the kernel counts it (SCHED_CAPACITY_SCALE).
pub const FULL_CAPACITY: u64 = 1024;

/// A spinner's tries are spaced by at most this many half turns.
const MAX_TRIES: u32 = 4;

/// Who was switched out so shortly before a tick was switched out by it.
const JUST_NOW_NS: u64 = 100_000;

/// What the rules can be told; the switches are for finding out what each part gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a seat is taken at a time.
    pub turn_ns: u64,
    /// How far behind a thread must be to take the seat of one that works, in percent of a turn.
    pub margin_percent: u64,
    /// What moving to another seat's CPU costs.
    pub move_ns: u64,
    /// Progress counts; else CPU time does.
    pub progress_aware: bool,
    /// Neighbours stay; else a move is free.
    pub locality_aware: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { turn_ns: 500_000, margin_percent: 0, move_ns: 20_000, progress_aware: true, locality_aware: true }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    Sits(Seat),
    Waits { behind: Seat, since_ns: u64 },
    Gone,
}

#[derive(Clone, Debug)]
struct Thread {
    place: Place,
    /// Served so far, ns of a CPU of full capacity.
    progress_ns: u64,
    run_ns: u64,
    spins: bool,
    tries: u32,
}

/// What was seen at the seats since this was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Ticks that found a thread on the seat's CPU.
    pub samples: u64,
    /// Of these, threads that waited for others in a loop.
    pub spinning: u64,
    /// CPU time that ticks found between them, ns.
    pub stretches_ns: u64,
    /// Of this, what was spent waiting in loops, by what the thread did at both ends of each stretch.
    pub spun_ns: u64,
    /// Threads that got a seat.
    pub exchanges: u64,
    /// Of these, threads that came from another seat's queue.
    pub moves: u64,
}

/// Threads that run at least this long at a time are switched out by ticks, and seldom by themselves.
const SELDOM_BLOCKS_NS: u64 = 20_000_000;

impl Seen {
    /// The part of CPU time, of 1, that was spent waiting in loops; `burst_ns` is how long threads run before
    /// they block.
    ///
    /// Stretches tell it with a fourth of the noise of samples. But a thread that spins and then sleeps ends
    /// its stretch asleep, and its spinning is not seen: then samples tell.
    #[must_use]
    pub fn spinning_part(&self, burst_ns: u64) -> f64 {
        let (part, whole) = if self.stretches_ns > 0 && burst_ns > SELDOM_BLOCKS_NS {
            (self.spun_ns, self.stretches_ns)
        } else {
            (self.spinning, self.samples)
        };
        if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
    }
}

/// The seats and the threads of a pack.
#[derive(Clone, Debug)]
pub struct Seating {
    /// The rules now; the turn's length may be changed at any time.
    pub rules: Rules,
    capacities: Vec<u64>,
    taken: Vec<Option<Member>>,
    threads: Vec<Thread>,
    seen: Seen,
}

impl Seating {
    /// A seat for each of `capacities` (of [`FULL_CAPACITY`]), and no threads.
    #[must_use]
    pub fn new(rules: Rules, capacities: Vec<u64>) -> Seating {
        let taken = vec![None; capacities.len()];
        Seating { rules, capacities, taken, threads: Vec::new(), seen: Seen::default() }
    }

    /// How many seats there are.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.taken.len()
    }

    /// A thread joins; members are numbered in the order in which they join. It begins as served as the
    /// least served: neither behind everybody for ever nor ahead of anybody.
    pub fn join(&mut self, glance: &Glance) -> Member {
        let progress_ns = self.present().map(|t| t.progress_ns).min().unwrap_or(0);
        let (run_ns, place) = (glance.run_ns, Place::Free);
        self.threads.push(Thread { place, progress_ns, run_ns, spins: false, tries: 0 });
        self.threads.len() - 1
    }

    /// A thread has ended.
    pub fn leave(&mut self, member: Member) {
        if let Some(seat) = self.seat_of(member) {
            self.taken[seat] = None;
        }
        self.threads[member].place = Place::Gone;
    }

    /// Members that have not ended.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        (0..self.threads.len()).filter(|&member| self.threads[member].place != Place::Gone)
    }

    /// Who sits where.
    #[must_use]
    pub fn sitting(&self, seat: Seat) -> Option<Member> {
        self.taken[seat]
    }

    /// Rotation begins: the first threads sit, the others wait, spread over the seats' queues as their
    /// capacities allow; neighbours by number stay neighbours.
    pub fn begin(&mut self, now_ns: u64, sense: &impl Sense, orders: &mut Vec<Order>) {
        for (member, thread) in self.threads.iter_mut().enumerate() {
            // What ran while the kernel placed the threads is nobody's progress here.
            thread.run_ns = sense.glance(member).run_ns.max(thread.run_ns);
        }
        let runnable: Vec<Member> = self.members().filter(|&m| sense.glance(m).doing != Doing::Ended).collect();
        let counts = super::capacity::counts(&self.capacities, runnable.len());
        let mut next = runnable.into_iter();
        for (seat, count) in counts.into_iter().enumerate() {
            for (place, member) in next.by_ref().take(count).enumerate() {
                if place == 0 {
                    self.sit(member, seat, Why::Start, orders);
                } else {
                    self.wait(member, seat, now_ns, orders);
                }
            }
        }
    }

    /// Rotation ends: the kernel places all threads.
    pub fn end(&mut self, orders: &mut Vec<Order>) {
        self.taken.fill(None);
        for member in 0..self.threads.len() {
            if !matches!(self.threads[member].place, Place::Gone | Place::Free) {
                self.threads[member].place = Place::Free;
                orders.push(Order::Free { member });
            }
        }
    }

    /// A thread that joined while seats are taken waits behind the seat with the shortest queue.
    pub fn admit(&mut self, member: Member, now_ns: u64, orders: &mut Vec<Order>) {
        let queue = |seat: Seat| {
            self.threads.iter().filter(|t| matches!(t.place, Place::Waits { behind, .. } if behind == seat)).count()
        };
        if let Some(seat) = (0..self.seats()).find(|&seat| self.taken[seat].is_none()) {
            self.sit(member, seat, Why::SeatFree, orders);
        } else if let Some(seat) = (0..self.seats()).min_by_key(|&seat| queue(seat)) {
            self.wait(member, seat, now_ns, orders);
        }
    }

    /// A seat's turn is over: who sits there next?
    pub fn turn(&mut self, seat: Seat, now_ns: u64, sense: &impl Sense, orders: &mut Vec<Order>) {
        self.sample(seat, now_ns, sense);
        let sitting = self.taken[seat];
        let seen = sitting.map(|member| self.look(member, seat, &sense.glance(member)));
        self.look_at_others(seat, sense);
        let Some((next, score_ns, from)) = self.least_served(seat, sense) else { return };
        let why = match (sitting, seen) {
            (Some(member), Some(Doing::Runs | Doing::Queued)) => {
                let thread = &self.threads[member];
                let margin_ns = if thread.spins { 0 } else { self.rules.turn_ns * self.rules.margin_percent / 100 };
                if score_ns + margin_ns >= thread.progress_ns {
                    return;
                }
                if thread.spins { Why::OtherSpins } else { Why::Behind(thread.progress_ns - score_ns) }
            }
            _ => Why::SeatFree,
        };
        self.seen.exchanges += 1;
        self.seen.moves += u64::from(from != seat);
        self.sit(next, seat, why, orders);
        if let Some(member) = sitting {
            self.wait(member, seat, now_ns, orders);
        }
    }

    /// Samples that somebody else took.
    pub fn sampled(&mut self, samples: u64, spinning: u64) {
        self.seen.samples += samples;
        self.seen.spinning += spinning;
    }

    /// Notes what the thread did that the tick found on the seat's CPU. Ticks come at irregular times, so
    /// the part of samples that spin is the part of CPU time: also of time that ends asleep, where the end
    /// of a stretch tells nothing about its middle.
    fn sample(&mut self, seat: Seat, now_ns: u64, sense: &impl Sense) {
        let here = self.members().map(|member| sense.glance(member));
        let last = here.filter(|glance| glance.at == Some(seat)).max_by_key(|glance| glance.out_ns);
        let Some(last) = last.filter(|last| last.doing == Doing::Queued) else { return };
        if now_ns.saturating_sub(last.out_ns) < JUST_NOW_NS {
            self.seen.samples += 1;
            self.seen.spinning += u64::from(last.spins);
        }
    }

    /// Takes into account whoever has run on this seat's CPU without sitting there: threads that wait, and
    /// that the kernel let run.
    fn look_at_others(&mut self, seat: Seat, sense: &impl Sense) {
        for member in 0..self.threads.len() {
            if matches!(self.threads[member].place, Place::Waits { .. }) {
                let glance = sense.glance(member);
                if glance.at == Some(seat) {
                    self.look(member, seat, &glance);
                }
            }
        }
    }

    /// What was seen since this was asked last.
    pub fn take_seen(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    fn seat_of(&self, member: Member) -> Option<Seat> {
        match self.threads[member].place {
            Place::Sits(seat) => Some(seat),
            _ => None,
        }
    }

    fn present(&self) -> impl Iterator<Item = &Thread> {
        self.threads.iter().filter(|thread| thread.place != Place::Gone)
    }

    /// Books what a thread has run on a seat since it was looked at last (rules 1 and 5).
    fn look(&mut self, member: Member, seat: Seat, glance: &Glance) -> Doing {
        let ran_ns = glance.run_ns.saturating_sub(self.threads[member].run_ns);
        // Never back: a stand that could not be read shows nothing, and all would be booked again.
        self.threads[member].run_ns = self.threads[member].run_ns.max(glance.run_ns);
        if ran_ns == 0 {
            return glance.doing;
        }
        let spins = glance.spins && self.rules.progress_aware;
        let furthest_ns = self.furthest_ns();
        let turn_ns = self.rules.turn_ns;
        let thread = &mut self.threads[member];
        // It arrived, or was let go, somewhere in this stretch: half of it is the best guess.
        let useful_ns = match (thread.spins, spins) {
            (false, false) => ran_ns,
            (true, true) => 0,
            _ => ran_ns / 2,
        };
        self.seen.stretches_ns += ran_ns;
        self.seen.spun_ns += ran_ns - useful_ns;
        let scaled_ns = useful_ns * self.capacities[seat] / FULL_CAPACITY;
        let let_go = thread.spins && !spins;
        if spins {
            let again_ns = (turn_ns / 2) << thread.tries;
            thread.progress_ns = (thread.progress_ns + scaled_ns).max(furthest_ns + again_ns);
            thread.tries = (thread.tries + 1).min(MAX_TRIES);
        } else {
            if let_go {
                // The lift beyond the others was for waiting, not for work.
                thread.progress_ns = thread.progress_ns.min(furthest_ns);
            }
            thread.progress_ns += scaled_ns;
            thread.tries = 0;
        }
        thread.spins = spins;
        if let_go {
            self.let_go(furthest_ns);
        }
        glance.doing
    }

    /// Whoever waited with a thread that was let go was most likely let go with it.
    fn let_go(&mut self, furthest_ns: u64) {
        for thread in self.threads.iter_mut().filter(|thread| thread.spins) {
            thread.progress_ns = thread.progress_ns.min(furthest_ns);
            thread.tries = 0;
        }
    }

    /// The progress of the furthest worker; of the furthest thread when all are known to spin.
    fn furthest_ns(&self) -> u64 {
        let worker = self.present().filter(|t| !t.spins).map(|t| t.progress_ns).max();
        worker.or_else(|| self.present().map(|t| t.progress_ns).max()).unwrap_or(0)
    }

    /// Of those who wait and could run: the least served, its progress with what a move costs, and the seat
    /// behind which it waits.
    fn least_served(&self, seat: Seat, sense: &impl Sense) -> Option<(Member, u64, Seat)> {
        let move_ns = if self.rules.locality_aware { self.rules.move_ns } else { 0 };
        let waiting = self.threads.iter().enumerate().filter_map(|(member, thread)| match thread.place {
            Place::Waits { behind, since_ns } => {
                let score_ns = thread.progress_ns + if behind == seat { 0 } else { move_ns };
                Some((score_ns, since_ns, member, behind))
            }
            _ => None,
        });
        waiting
            .filter(|&(_, _, member, _)| matches!(sense.glance(member).doing, Doing::Runs | Doing::Queued))
            .min()
            .map(|(score_ns, _, member, behind)| (member, score_ns, behind))
    }

    fn sit(&mut self, member: Member, seat: Seat, why: Why, orders: &mut Vec<Order>) {
        self.taken[seat] = Some(member);
        self.threads[member].place = Place::Sits(seat);
        orders.push(Order::Sit { member, seat, why });
    }

    fn wait(&mut self, member: Member, behind: Seat, now_ns: u64, orders: &mut Vec<Order>) {
        self.threads[member].place = Place::Waits { behind, since_ns: now_ns };
        orders.push(Order::Wait { member, behind });
    }
}

#[cfg(test)]
mod tests;
