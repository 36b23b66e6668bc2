//! Divides the runnable threads of two CPUs between these CPUs.
//!
//! The kernel shares a CPU evenly among its `n` runnable threads, so on a CPU of capacity `c` each gets `c / n`. The
//! only choice is which threads are co-runners. Each division of the threads between the two CPUs is rated by its
//! *worth*, the weighted CPU time of one scheduling period less the cost of moves, in ns. The division with the largest
//! worth is chosen:
//!
//! - CPU time of a working thread has the weight `1 + b ÷ period`, where `b` is how far the thread's progress is behind
//!   that of the most advanced thread. A thread that is behind counts more, because the last thread at a barrier delays
//!   all others.
//! - CPU time of a spinning thread has the weight 0.
//! - Each move of a thread to the other CPU costs a fixed time, and more if the thread is running.
//!
//! As a result, the threads with the least progress get the CPU with fewer threads. Spinning threads are gathered on
//! one CPU and leave the other one to working threads. Threads take turns on slow CPUs. No thread moves for a gain
//! below the cost of a move.
//!
//! Exception: with two working threads and one spinning thread, both working threads have the weight 1. The working
//! thread that shares a CPU with the spinning thread is owed time by the kernel, which therefore runs it first. If this
//! thread were moved to the other CPU, where it is alone, it could not get this time back. 3 threads on 2 simulated
//! CPUs with spinning phases of 1 ms take 1.18 of the ideal time with this exception and 1.21 without it. With more
//! co-runners, weighting by progress is better.
//!
//! Only some divisions are tried: one CPU gets the `k` least served working threads, for each `k`, and spinning
//! threads either stay where they are or all go to the other CPU. For `n` threads these are `4 (n + 1)` divisions.
//! Sums over the sorted working threads find the best one in `O(n log n)`.

/// One of the two CPUs between which threads are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The CPU whose scheduling period has just ended.
    Here,
    /// The CPU whose threads are divided anew together with those of [`Side::Here`].
    There,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Here, Side::There];

    fn other(self) -> Side {
        match self {
            Side::Here => Side::There,
            Side::There => Side::Here,
        }
    }
}

/// A runnable thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The CPU that the thread is on.
    pub side: Side,
    /// True if the thread spins.
    pub spins: bool,
    /// True if the thread is running now, so that its CPU must be interrupted to move it.
    pub runs: bool,
    /// Progress: useful CPU time so far (without spinning), in ns of a CPU of full capacity.
    pub progress_ns: u64,
    /// When the thread came to this CPU, ns.
    pub since_ns: u64,
}

/// Parameters of the assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Length of the scheduling period, ns: after threads have been divided between two CPUs, they stay there for this
    /// time, until the next decision.
    pub period_ns: u64,
    /// Time that a thread loses when it changes its CPU, ns.
    pub move_ns: u64,
    /// Additional loss if the thread is running when it is moved, because the kernel then interrupts the CPU that runs
    /// it, ns.
    pub stop_ns: u64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { period_ns: 500_000, move_ns: 20_000, stop_ns: 40_000 }
    }
}

/// Capacities of the two CPUs, and costs of moves.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Capacities of [`Side::Here`] and [`Side::There`].
    pub capacity: [u64; 2],
    /// Length of the scheduling period, and costs of moves.
    pub rules: Rules,
}

/// Returns the better of the two CPUs for each thread, in the order of `threads`; `None` if no other division is better
/// than the present one.
#[must_use]
pub fn split(terms: Terms, threads: &[Candidate]) -> Option<Vec<Side>> {
    let scene = Scene::new(terms, threads);
    let plans = Side::BOTH.into_iter().flat_map(|first| {
        let order = scene.order(first);
        [false, true].map(|gathered| scene.best(first, gathered, &order))
    });
    let best = plans.reduce(|best, plan| if plan.worth > best.worth { plan } else { best })?;
    let now = scene.worth_now();
    // The worths of the two divisions (see the module header) are summed in different orders, so the gain must exceed
    // the rounding error.
    (best.worth > now + now.abs() * 1e-9).then(|| scene.sides(&best))
}

/// A division of the threads between the two CPUs: the CPU `first` gets the first `count` working threads, in the order
/// of [`Scene::order`], and the other CPU gets the rest.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The CPU that gets the first `count` working threads.
    first: Side,
    /// How many working threads the CPU `first` gets.
    count: usize,
    /// True: all spinning threads go to the other CPU. False: they stay where they are.
    gathered: bool,
    worth: f64,
}

struct Scene<'t> {
    terms: Terms,
    threads: &'t [Candidate],
    /// Weight of each thread's CPU time in the worth of a division: 0 for a spinning thread, at least 1 for a working
    /// one.
    weights: Vec<f64>,
}

impl<'t> Scene<'t> {
    fn new(terms: Terms, threads: &'t [Candidate]) -> Scene<'t> {
        let furthest_ns = threads.iter().map(|thread| thread.progress_ns).max().unwrap_or(0);
        let periods_behind =
            |thread: &Candidate| (furthest_ns - thread.progress_ns) as f64 / terms.rules.period_ns.max(1) as f64;
        let spinners = threads.iter().filter(|thread| thread.spins).count();
        let alike = spinners == 1 && threads.len() == 3;
        let weight = |thread: &Candidate| match thread.spins {
            true => 0.0,
            false if alike => 1.0,
            false => 1.0 + periods_behind(thread),
        };
        Scene { terms, threads, weights: threads.iter().map(weight).collect() }
    }

    /// Returns the cost of moving thread number `place` to the other CPU, ns.
    fn cost(&self, place: usize) -> u64 {
        self.terms.rules.move_ns + if self.threads[place].runs { self.terms.rules.stop_ns } else { 0 }
    }

    /// Returns the working threads in the order in which they should get the CPU `first`: those with the least progress
    /// first. If a thread would have to move there, the cost of the move is added to its progress. Of equals, the
    /// thread that has been on its CPU longest comes first.
    fn order(&self, first: Side) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.threads.len()).filter(|&place| !self.threads[place].spins).collect();
        order.sort_by_key(|&place| {
            let thread = &self.threads[place];
            (thread.progress_ns + if thread.side == first { 0 } else { self.cost(place) }, thread.since_ns)
        });
        order
    }

    /// Compares all divisions that give the first `count` working threads of `order` to the CPU `first`, for each
    /// `count`. Returns the one with the largest worth. `gathered`: all spinning threads go to the other CPU.
    fn best(&self, first: Side, gathered: bool, order: &[usize]) -> Plan {
        let spinners = |side: Side| self.threads.iter().filter(|t| t.spins && t.side == side).count();
        let (here, there) = (spinners(first), spinners(first.other()));
        let (with_first, with_others) = if gathered { (0, here + there) } else { (here, there) };
        let moves_if_none = |&place: &usize| {
            let Candidate { side, spins, .. } = self.threads[place];
            side == first && (!spins || gathered)
        };
        let mut cost_ns: u64 = (0..self.threads.len()).filter(moves_if_none).map(|place| self.cost(place)).sum();
        let mut best = Plan { first, count: 0, gathered, worth: f64::NEG_INFINITY };
        let (mut useful, mut left) = (0.0, order.iter().map(|&place| self.weights[place]).sum::<f64>());
        for count in 0..=order.len() {
            let worth = self.time(first, count + with_first, useful)
                + self.time(first.other(), order.len() - count + with_others, left)
                - cost_ns as f64;
            if worth > best.worth {
                best = Plan { count, worth, ..best };
            }
            let Some(&next) = order.get(count) else { break };
            useful += self.weights[next];
            left -= self.weights[next];
            if self.threads[next].side == first {
                cost_ns -= self.cost(next);
            } else {
                cost_ns += self.cost(next);
            }
        }
        best
    }

    fn worth_now(&self) -> f64 {
        let worth = |side: Side| {
            let here = || (0..self.threads.len()).filter(move |&place| self.threads[place].side == side);
            self.time(side, here().count(), here().map(|place| self.weights[place]).sum())
        };
        worth(Side::Here) + worth(Side::There)
    }

    /// Returns the weighted CPU time of one scheduling period on the CPU `side`, ns: `period × c × useful ÷ sharing`.
    /// `c` is this CPU's capacity relative to the faster of the two CPUs, `sharing` the number of its threads, and
    /// `useful` the sum of their weights.
    fn time(&self, side: Side, sharing: usize, useful: f64) -> f64 {
        let [here, there] = self.terms.capacity;
        let capacity = self.terms.capacity[side as usize] as f64 / here.max(there).max(1) as f64;
        if sharing == 0 { 0.0 } else { self.terms.rules.period_ns as f64 * capacity * useful / sharing as f64 }
    }

    fn sides(&self, plan: &Plan) -> Vec<Side> {
        let stays = |thread: &Candidate| thread.spins && !plan.gathered;
        let place = |thread: &Candidate| if stays(thread) { thread.side } else { plan.first.other() };
        let mut sides: Vec<Side> = self.threads.iter().map(place).collect();
        for &least in self.order(plan.first).iter().take(plan.count) {
            sides[least] = plan.first;
        }
        sides
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD_NS: u64 = 500_000;
    const RULES: Rules = Rules { period_ns: PERIOD_NS, move_ns: 20_000, stop_ns: 50_000 };
    const TERMS: Terms = Terms { capacity: [1024; 2], rules: RULES };

    fn works(side: Side, progress_ns: u64) -> Candidate {
        Candidate { side, spins: false, runs: false, progress_ns, since_ns: 0 }
    }

    fn spins(side: Side, progress_ns: u64) -> Candidate {
        Candidate { spins: true, ..works(side, progress_ns) }
    }

    use Side::{Here, There};

    #[test]
    fn equals_stay() {
        for threads in [vec![], vec![works(Here, 5)], vec![works(Here, 5), works(There, 5), works(There, 5)]] {
            assert_eq!(split(TERMS, &threads), None, "{threads:?}");
        }
    }

    #[test]
    fn a_cpu_without_threads_gets_one() {
        let threads = [works(There, 900), works(There, 100)];
        assert_eq!(split(TERMS, &threads), Some(vec![There, Here]));
    }

    #[test]
    fn the_least_served_gets_a_cpu_to_itself_with_the_fewest_moves() {
        // One move: the more served of the two comes here and shares.
        let threads = [works(Here, PERIOD_NS), works(There, 0), works(There, PERIOD_NS / 2)];
        assert_eq!(split(TERMS, &threads), Some(vec![Here, There, Here]));
    }

    #[test]
    fn small_differences_are_not_worth_a_move() {
        let behind = |ns: u64| split(TERMS, &[works(Here, ns), works(There, 0), works(There, ns)]);
        // Alone it gets half a period more, of a worth of 1 + behind/period: against one move of 20 us.
        assert_eq!(behind(39_000), None);
        assert!(behind(41_000).is_some());
    }

    #[test]
    fn who_spins_leaves_a_cpu_to_those_that_work() {
        let threads = [spins(Here, 0), works(There, 0), spins(There, 0)];
        assert_eq!(split(TERMS, &threads), Some(vec![Here, There, Here]));
        let threads = [spins(Here, PERIOD_NS), works(Here, 0), works(There, PERIOD_NS)];
        assert_eq!(split(TERMS, &threads), None, "the kernel lets the least served run before the spinner");
        let threads = [spins(Here, 0), works(Here, 0), spins(There, 0), spins(There, 0)];
        assert_eq!(split(TERMS, &threads), Some(vec![There, Here, There, There]), "all spinners on one side");
        let threads = [spins(Here, 0), spins(There, 0), spins(There, 0)];
        assert_eq!(split(TERMS, &threads), None, "nobody works");
    }

    #[test]
    fn who_runs_is_moved_only_when_it_pays() {
        let runs = |thread: Candidate| Candidate { runs: true, ..thread };
        let threads = [spins(Here, 0), runs(works(There, 0)), works(There, 0)];
        assert_eq!(split(TERMS, &threads), Some(vec![Here, There, Here]));
        let threads = [spins(Here, 0), works(There, 0), runs(works(There, 0))];
        assert_eq!(split(TERMS, &threads), Some(vec![Here, Here, There]));
    }

    #[test]
    fn slow_cpus_go_round() {
        let terms = Terms { capacity: [1024, 512], ..TERMS };
        let swapped = Some(vec![There, Here]);
        assert_eq!(split(terms, &[works(Here, PERIOD_NS), works(There, 0)]), swapped);
        assert_eq!(split(terms, &[works(Here, 0), works(There, PERIOD_NS)]), None);
    }

    /// What an arrangement is worth, by the definition.
    fn worth(terms: Terms, threads: &[Candidate], sides: &[Side]) -> f64 {
        let furthest = threads.iter().map(|t| t.progress_ns).max().unwrap_or(0);
        let share = |side: Side| {
            let capacity = terms.capacity[side as usize] as f64 / terms.capacity.into_iter().max().unwrap() as f64;
            capacity / sides.iter().filter(|other| **other == side).count() as f64
        };
        let worth = |(thread, &side): (&Candidate, &Side)| {
            let three = threads.len() == 3 && threads.iter().filter(|t| t.spins).count() == 1;
            let weight =
                if three { 1.0 } else { 1.0 + (furthest - thread.progress_ns) as f64 / terms.rules.period_ns as f64 };
            let time = if thread.spins { 0.0 } else { terms.rules.period_ns as f64 * share(side) * weight };
            let cost = terms.rules.move_ns + if thread.runs { terms.rules.stop_ns } else { 0 };
            time - if side == thread.side { 0.0 } else { cost as f64 }
        };
        threads.iter().zip(sides).map(worth).sum()
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let candidate = (any::<bool>(), prop::bool::weighted(0.3), any::<bool>(), 0..3 * PERIOD_NS, 0..100u64);
        let made = |(here, spins, runs, progress_ns, since_ns)| Candidate {
            side: if here { Here } else { There },
            spins,
            runs,
            progress_ns,
            since_ns,
        };
        prop::collection::vec(candidate.prop_map(made), 0..8)
    }

    proptest! {
        /// Of all arrangements none is worth more, as long as moves cost nothing and nobody spins: then
        /// sorting by progress is optimal. With them it is a rule of thumb, never worse than staying.
        #[test]
        fn no_arrangement_is_worth_more(threads in candidates(), slow in 256..1024u64, free in any::<bool>()) {
            let rules = if free { Rules { move_ns: 0, stop_ns: 0, ..RULES } } else { RULES };
            let terms = Terms { capacity: [1024, slow], rules };
            let stay: Vec<Side> = threads.iter().map(|t| t.side).collect();
            let chosen = split(terms, &threads).unwrap_or_else(|| stay.clone());
            let found = worth(terms, &threads, &chosen);
            prop_assert!(found >= worth(terms, &threads, &stay) * (1.0 - 1e-9));
            if free && threads.iter().all(|t| !t.spins) {
                for code in 0..1u32 << threads.len() {
                    let sides: Vec<Side> =
                        (0..threads.len()).map(|place| if code >> place & 1 == 0 { Here } else { There }).collect();
                    prop_assert!(worth(terms, &threads, &sides) <= found * (1.0 + 1e-9), "{:?}", sides);
                }
            }
        }
    }
}
