//! The rules of the PALM paper (Park et al. 2021), for comparison: once per period, all threads are assigned to CPUs again, at the same time.
//!
//! 1. Counts: one thread for each group of CPUs, then each remaining thread to the group with the largest *current* capacity per thread
//!    ([`palm_counts`]). A group is one CPU here.
//! 2. Assignment: threads are sorted by what they have received so far (CPU time times capacity). The threads that received least go to the groups
//!    with the largest capacity per thread.
//! 3. Locality: among groups with equal capacity per thread, threads with neighbouring numbers share a group.
//!
//! As in the paper's ablation, [`Parts`] can leave out parts of these rules, one at a time. Without *progress*, threads take turns in the order of
//! their numbers. Without *locality*, threads that are neighbours in the order of progress share a group. Without *period control*, the period is the
//! paper's 0.25 ms (see [`Periods`]).

use pack::policy::assignment::FULL_CAPACITY;
use pack::policy::capacity::larger_share;
use pack::policy::controller::Settings;
use pack::policy::mode::Periods;
use pack::policy::seen::Seen;
use pack::policy::{Arrange, Member, Observation, Order, Sense, Slot, Why};

/// The fixed period of the paper's ablation.
const ABLATION_PERIOD_NS: u64 = 250_000;

/// The parts of the PALM paper's rules that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// True: the threads that have received the least CPU time are placed first. False: all threads take turns.
    pub progress: bool,
    /// True: threads with neighbouring numbers share a CPU.
    pub locality: bool,
    /// True: the scheduling period is adapted by doubling and halving it. False: the period is fixed.
    pub period: bool,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { progress: true, locality: true, period: true }
    }
}

impl Parts {
    /// Returns settings with which cox rotates the threads all the time (`always`). The scheduling period is adapted by doubling and halving it, as
    /// in the paper; if period control is left out, the period is fixed.
    pub fn settings(self) -> Settings {
        let arrange: fn(Vec<u64>) -> Box<dyn Arrange> = match (self.progress, self.locality) {
            (true, true) => |capacities| Palm::boxed(true, true, capacities),
            (true, false) => |capacities| Palm::boxed(true, false, capacities),
            (false, true) => |capacities| Palm::boxed(false, true, capacities),
            (false, false) => |capacities| Palm::boxed(false, false, capacities),
        };
        let periods = if self.period { Periods::Doubled } else { Periods::Fixed(ABLATION_PERIOD_NS) };
        Settings { arrange, periods, always: true }
    }
}

#[derive(Debug)]
struct Thread {
    gone: bool,
    slot: Option<Slot>,
    run_ns: u64,
    /// CPU time received so far, in ns of a CPU of full capacity.
    received_ns: u64,
}

/// Assigns threads to CPUs by the rules of the PALM paper (see the module's header).
#[derive(Debug)]
pub struct Palm {
    parts: Parts,
    capacities: Vec<u64>,
    threads: Vec<Thread>,
    /// Used if progress is left out: the threads then take turns at being assigned to a CPU first. Index (among the living threads) of the thread
    /// that was first most recently.
    first: usize,
    seen: Seen,
}

impl Palm {
    /// Makes one CPU group for each of `capacities` (relative to [`FULL_CAPACITY`]). No threads are assigned yet.
    #[must_use]
    pub fn new(parts: Parts, capacities: Vec<u64>) -> Palm {
        Palm { parts, capacities, threads: Vec::new(), first: 0, seen: Seen::default() }
    }

    fn boxed(progress: bool, locality: bool, capacities: Vec<u64>) -> Box<dyn Arrange> {
        Box::new(Palm::new(Parts { progress, locality, ..Parts::default() }, capacities))
    }

    fn living(&self) -> Vec<Member> {
        (0..self.threads.len()).filter(|&member| !self.threads[member].gone).collect()
    }

    fn journals(&mut self, sense: &dyn Sense) {
        for member in self.living() {
            let (observation, thread) = (sense.observation(member), &mut self.threads[member]);
            let ran_ns = observation.run_ns.saturating_sub(thread.run_ns);
            thread.run_ns = thread.run_ns.max(observation.run_ns);
            let capacity = thread.slot.map_or(FULL_CAPACITY, |slot| self.capacities[slot]);
            thread.received_ns += ran_ns * capacity / FULL_CAPACITY;
        }
    }

    /// Returns the threads in the order in which they are assigned to CPUs.
    fn order(&mut self) -> Vec<Member> {
        let mut order = self.living();
        if self.parts.progress {
            order.sort_by_key(|&member| (self.threads[member].received_ns, member));
        } else if !order.is_empty() {
            self.first = (self.first + 1) % order.len();
            order.rotate_left(self.first);
        }
        order
    }

    fn place_all(&mut self, why: Why, orders: &mut Vec<Order>) -> u64 {
        let order = self.order();
        let counts = palm_counts(&self.capacities, order.len());
        let mut moved = 0;
        for (member, slot) in assign(&self.capacities, &counts, &order, self.parts.locality) {
            if self.threads[member].slot != Some(slot) {
                self.threads[member].slot = Some(slot);
                orders.push(Order { member, to: Some((slot, why)) });
                moved += 1;
            }
        }
        moved
    }
}

/// Returns the number of threads of each group of CPUs by the rule of the PALM paper (slides 13-17). Each group gets one thread. Then each remaining
/// thread goes to the group with the largest *current* share, `capacity / count`. This is not optimal: in a third of all cases with three groups, the
/// smallest share is below the best possible one. If there are more groups than threads, the surplus groups get none.
fn palm_counts(capacities: &[u64], threads: usize) -> Vec<usize> {
    let mut counts = vec![0; capacities.len()];
    for place in 0..threads {
        if place < capacities.len() {
            counts[place] = 1;
            continue;
        }
        let best = (0..capacities.len())
            .reduce(|a, b| if larger_share(capacities[b], counts[b], capacities[a], counts[a]) { b } else { a });
        let Some(best) = best else { break };
        counts[best] += 1;
    }
    counts
}

/// Assigns threads to CPUs: the first threads of `order` go to the CPUs with the largest capacity per thread. CPUs with equal capacity per thread are
/// filled one after the other: with `locality` in the order of thread numbers, otherwise in the order of `order`.
fn assign(capacities: &[u64], counts: &[usize], order: &[Member], locality: bool) -> Vec<(Member, Slot)> {
    let mut slots: Vec<Slot> = (0..counts.len()).filter(|&slot| counts[slot] > 0).collect();
    // Compares capacity / count by cross-multiplication, without rounding.
    let larger = |a: Slot, b: Slot| (capacities[b] * counts[a] as u64).cmp(&(capacities[a] * counts[b] as u64));
    slots.sort_by(|&a, &b| larger(a, b).then(a.cmp(&b)));
    let mut places = Vec::with_capacity(order.len());
    let mut next = order;
    for equal in slots.chunk_by(|&a, &b| larger(a, b).is_eq()) {
        let count = equal.iter().map(|&slot| counts[slot]).sum::<usize>().min(next.len());
        let (mut here, rest) = (next[..count].to_vec(), &next[count..]);
        next = rest;
        if locality {
            here.sort_unstable();
        }
        let chairs = equal.iter().flat_map(|&slot| std::iter::repeat_n(slot, counts[slot]));
        places.extend(here.into_iter().zip(chairs));
    }
    places
}

impl Arrange for Palm {
    fn join(&mut self, observation: &Observation) -> Member {
        self.threads.push(Thread { gone: false, slot: None, run_ns: observation.run_ns, received_ns: 0 });
        self.threads.len() - 1
    }

    fn leave(&mut self, member: Member) {
        let thread = &mut self.threads[member];
        (thread.gone, thread.slot) = (true, None);
    }

    /// Does nothing: a new thread gets its CPU at the end of the period, together with all others.
    fn admit(&mut self, _: Member, _: u64, _: &mut Vec<Order>) {}

    fn begin(&mut self, _: u64, sense: &dyn Sense, orders: &mut Vec<Order>) {
        self.journals(sense);
        for thread in &mut self.threads {
            thread.received_ns = 0;
        }
        self.place_all(Why::Start, orders);
    }

    /// Places all threads again. All CPUs have the same period, so this is done only when the period of the first CPU ends.
    fn end_period(&mut self, slot: Slot, now_ns: u64, sense: &dyn Sense, orders: &mut Vec<Order>) {
        let here = self.living().into_iter().filter(|&member| self.threads[member].slot == Some(slot));
        self.seen.tick(slot, now_ns, 1, here.map(|member| sense.observation(member)));
        if slot != 0 {
            return;
        }
        self.journals(sense);
        let moved = self.place_all(Why::Rules, orders);
        self.seen.exchanges += u64::from(moved > 0);
        self.seen.moves += moved;
    }

    fn end(&mut self, _: u64, orders: &mut Vec<Order>) {
        for (member, thread) in self.threads.iter_mut().enumerate() {
            if thread.slot.take().is_some() {
                orders.push(Order { member, to: None });
            }
        }
    }

    /// Does nothing: the caller controls the period.
    fn set_period(&mut self, _: u64) {}

    /// Returns for how long from now no decision is needed: always 0, because by the paper's rules every period ends with a decision for all CPUs.
    fn calm_ns(&self, _: u64) -> u64 {
        0
    }

    fn phase_ns(&self) -> Option<u64> {
        None
    }

    fn seen(&mut self) -> &mut Seen {
        &mut self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World(Vec<Observation>);

    impl Sense for World {
        fn observation(&self, member: Member) -> Observation {
            self.0[member]
        }
    }

    fn queued(run_ns: u64) -> Observation {
        Observation { run_ns, at: Some(0), ..Observation::default() }
    }

    fn palm(parts: Parts, capacities: &[u64], threads: usize) -> (Palm, World) {
        let world = World(vec![queued(0); threads]);
        let mut palm = Palm::new(parts, capacities.to_vec());
        for observation in &world.0 {
            palm.join(observation);
        }
        palm.begin(0, &world, &mut Vec::new());
        (palm, world)
    }

    fn slots(palm: &Palm) -> Vec<Slot> {
        palm.threads.iter().map(|thread| thread.slot.unwrap()).collect()
    }

    #[test]
    fn the_papers_example() {
        let (palm, _) = palm(Parts::default(), &[360, 220, 100], 6);
        let count = |slot: Slot| slots(&palm).into_iter().filter(|&other| other == slot).count();
        assert_eq!([count(0), count(1), count(2)], [3, 2, 1]);
        assert_eq!(palm_counts(&[360, 220, 100], 6), [3, 2, 1]);
        // Where it is not optimal: 1, 1 and 9 would be.
        assert_eq!(palm_counts(&[100, 100, 793], 11), [2, 1, 8]);
    }

    #[test]
    fn the_least_served_gets_the_largest_share_and_neighbours_stay_together() {
        // One CPU of 1024 for one thread, two of 1024 for two each: counts 2, 2, 1 by largest current share.
        let (mut palm, mut world) = palm(Parts::default(), &[1024, 1024, 1024], 5);
        for (member, run_ns) in [500, 100, 400, 200, 300].into_iter().enumerate() {
            world.0[member].run_ns = run_ns;
        }
        let mut orders = Vec::new();
        palm.end_period(0, 0, &world, &mut orders);
        // 1 is least served and alone; of 3, 4, 2, 0 the neighbours by number share.
        assert_eq!(slots(&palm), [0, 2, 0, 1, 1]);
        assert_eq!(palm.seen.moves, orders.len() as u64);
        orders.clear();
        palm.end_period(1, 0, &world, &mut orders);
        assert_eq!(orders, [], "one decision for all");
    }

    #[test]
    fn without_locality_they_share_in_the_order_of_progress() {
        let capacities = [1024; 3];
        let places = |locality| assign(&capacities, &[2, 2, 1], &[1, 3, 0, 4, 2], locality);
        assert_eq!(places(false), [(1, 2), (3, 0), (0, 0), (4, 1), (2, 1)]);
        assert_eq!(places(true), [(1, 2), (0, 0), (2, 0), (3, 1), (4, 1)]);
    }

    #[test]
    fn without_progress_all_take_turns() {
        let parts = Parts { progress: false, ..Parts::default() };
        let (mut palm, world) = palm(parts, &[1024; 2], 3);
        let mut alone = Vec::new();
        for _ in 0..6 {
            palm.end_period(0, 0, &world, &mut Vec::new());
            let places = slots(&palm);
            alone.push((0..3).find(|&m| places.iter().filter(|&&slot| slot == places[m]).count() == 1).unwrap());
        }
        let mut sorted = alone[..3].to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2], "{alone:?}");
        assert_eq!(alone[..3], alone[3..]);
    }

    #[test]
    fn time_on_a_slow_cpu_counts_less() {
        let (mut palm, mut world) = palm(Parts::default(), &[1024, 512], 2);
        let slow = palm.threads.iter().position(|thread| thread.slot == Some(1)).unwrap();
        for observation in &mut world.0 {
            observation.run_ns = 1000;
        }
        palm.end_period(0, 0, &world, &mut Vec::new());
        assert_eq!(palm.threads[slow].received_ns, 500);
        assert_eq!(palm.threads[slow].slot, Some(0), "it is least served");
    }

    #[test]
    fn who_ends_frees_its_place() {
        let (mut palm, world) = palm(Parts::default(), &[1024; 2], 3);
        palm.leave(1);
        let mut orders = Vec::new();
        palm.end_period(0, 0, &world, &mut orders);
        assert_ne!(palm.threads[0].slot, palm.threads[2].slot);
        orders.clear();
        palm.end(0, &mut orders);
        assert_eq!(orders, [0, 2].map(|member| Order { member, to: None }));
    }
}
