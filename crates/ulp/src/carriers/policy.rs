//! When a coupled ULP that yields leaves its home task.
//!
//! A yield costs 1 when coupled (sched_yield(2)), and nearly nothing on a carrier. Leaving, and coming home by a trapped system call, costs
//! [`TRIP`]. *Never* leaving costs 1 for each yield; *always* leaving at the first yield costs a trip for each stay on a carrier. While a ULP is coupled,
//! nobody sees its system calls, so that what a stay would bring is known only by trying.
//!
//! - The *balance* is what recent stays have saved, minus what their trips cost. While it is not negative, a ULP leaves at its first yield.
//! - After a loss, it yields coupled for a while first: `TRIP` times at least, up to twice as often after each further loss (at most [`LONGEST`]), plus a
//!   random part.
//!
//! **Never more than twice the cost of never leaving**, for every program: a stay that loses is paid for by the balance, or is preceded by at least `TRIP`
//! coupled yields, which cost at least as much as the trip.
//!
//! **Against always leaving**, no rule that cannot see system calls has such a bound for every program: one that calls the kernel only during stays would
//! fool it. A program does not know when a stay begins, because all but the first one begin at random. Then stays are a fair sample of what always leaving would bring,
//! and as soon as they pay, the ULP leaves at once; the search costs at most `2 * LONGEST` yields each time that the program changes its ways.

#![forbid(unsafe_code)]

/// Cost of a stay's beginning and end, in yields between two processes. Measured by `cox-bench ulp`.
pub const TRIP: i64 = 4;
/// Maximum number of coupled yields before the next stay, without the random part. A trip then costs at most 7 % of the yields.
pub const LONGEST: i64 = 64;
/// Limits of the balance: how long a change of the program's ways goes unnoticed.
const MOST: i64 = 8 * TRIP;
const LEAST: i64 = -TRIP;

/// What a coupled ULP that yields does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It calls sched_yield(2).
    Stay,
    /// It leaves for a carrier.
    Leave,
}

/// Decides for one ULP.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Savings of recent stays on carriers, minus their cost, in coupled yields.
    balance: i64,
    /// Coupled yields after a loss before the next stay, without the random part.
    pause: i64,
    /// Coupled yields that are left before the next stay.
    left: i64,
    /// State of the random numbers; never 0.
    random: u64,
}

impl Policy {
    /// Makes a policy. `seed` distinguishes ULPs, which must not leave in step.
    #[must_use]
    pub fn new(seed: u64) -> Policy {
        Policy { balance: LEAST, pause: TRIP, left: TRIP, random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Decides what a coupled ULP does that yields.
    pub fn on_yield(&mut self) -> Choice {
        if self.balance >= 0 {
            return Choice::Leave;
        }
        self.left -= 1;
        if self.left < 0 { Choice::Leave } else { Choice::Stay }
    }

    /// Learns that a stay has ended in which the ULP yielded `yields` times. The yield with which it left is not one of them.
    pub fn on_home(&mut self, yields: u64) {
        let saved = i64::try_from(yields).unwrap_or(i64::MAX).saturating_add(1).min(MOST + TRIP) - TRIP;
        self.balance = (self.balance + saved).clamp(LEAST, MOST);
        if saved >= 0 {
            self.pause = TRIP;
        } else if self.balance < 0 {
            self.left = self.pause + self.random(self.pause);
            self.pause = (2 * self.pause).min(LONGEST);
        }
    }

    /// Returns a random number below `end` (xorshift64, Marsaglia 2003).
    fn random(&mut self, end: i64) -> i64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as i64 % end.max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a program does: a yield, or a system call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Step {
        Yield,
        Call,
    }

    /// Costs of a program, in coupled yields: under the policy, if it never leaves, and if it leaves at each yield.
    #[derive(Clone, Copy, Debug, Default)]
    struct Costs {
        policy: i64,
        never: i64,
        always: i64,
    }

    /// Simulates one ULP. A system call costs nothing at home.
    fn costs(steps: impl Iterator<Item = Step>, seed: u64) -> Costs {
        let mut costs = Costs::default();
        let mut policy = Policy::new(seed);
        let (mut stay, mut always_away) = (None, false);
        for step in steps {
            match step {
                Step::Yield => {
                    costs.never += 1;
                    always_away = true;
                    match &mut stay {
                        Some(yields) => *yields += 1,
                        None if policy.on_yield() == Choice::Leave => stay = Some(0),
                        None => costs.policy += 1,
                    }
                }
                Step::Call => {
                    costs.always += TRIP * i64::from(std::mem::take(&mut always_away));
                    if let Some(yields) = stay.take() {
                        costs.policy += TRIP;
                        policy.on_home(yields);
                    }
                }
            }
        }
        // The stay with which the program ends costs both the same.
        costs.policy += TRIP * i64::from(stay.is_some());
        costs.always += TRIP * i64::from(always_away);
        costs
    }

    /// `yields` yields before each call, `times` times.
    fn regular(yields: usize, times: usize) -> impl Iterator<Item = Step> {
        (0..times).flat_map(move |_| std::iter::repeat_n(Step::Yield, yields).chain([Step::Call]))
    }

    #[test]
    fn a_regular_program_costs_about_the_better_of_both() {
        for yields in 1..=100 {
            let costs = costs(regular(yields, 20_000 / yields), 1);
            let better = costs.never.min(costs.always) as f64;
            // The first stay is tried after TRIP yields.
            assert!(costs.policy as f64 <= 1.10 * better + 2.0 * TRIP as f64, "{yields} yields: {costs:?}");
        }
        let never_calls = costs(std::iter::repeat_n(Step::Yield, 10_000), 1);
        assert_eq!(never_calls.policy, TRIP + TRIP);
    }

    #[test]
    fn a_change_of_ways_costs_a_search_only() {
        for (first, second) in [(1, 1000), (1000, 1), (2, 50), (50, 2)] {
            let phases =
                || (0..10).flat_map(|_| regular(first, 20_000 / first).chain(regular(second, 20_000 / second)));
            let alone = |yields| {
                let one = costs(regular(yields, 20_000 / yields), 1);
                one.never.min(one.always)
            };
            // The better of both in each phase: more than the bound, which lets one choice hold for the whole program.
            let better = 10 * (alone(first) + alone(second));
            let ours = costs(phases(), 7).policy;
            let searches = 20 * (2 * LONGEST + MOST);
            assert!(ours <= better + better / 10 + searches, "{first} and {second}: {ours}, better {better}");
        }
    }

    /// A program that knows the policy and calls the kernel whenever that is worst: just after the ULP has left.
    #[test]
    fn the_worst_program_costs_at_most_twice_as_much_as_never_leaving() {
        let mut policy = Policy::new(3);
        let (mut ours, mut never) = (0, 0);
        for _ in 0..100_000 {
            never += 1;
            if policy.on_yield() == Choice::Leave {
                ours += TRIP;
                policy.on_home(0);
            } else {
                ours += 1;
            }
            assert!(ours <= 2 * never + TRIP, "{ours} after {never} yields");
        }
    }

    proptest! {
        /// Whatever a program does, leaving costs at most twice as much as never leaving.
        #[test]
        fn never_more_than_twice_the_cost_of_never_leaving(
            steps in prop::collection::vec(prop_oneof![3 => Just(Step::Yield), 1 => Just(Step::Call)], 0..3000),
            seed in any::<u64>(),
        ) {
            let costs = costs(steps.into_iter(), seed);
            prop_assert!(costs.policy <= 2 * costs.never + TRIP, "{costs:?}");
        }

        /// A program whose calls come at random, with any mean number of yields between them, costs at most twice the better of both.
        #[test]
        fn at_most_twice_the_better_of_both_if_calls_come_at_random(
            lengths in prop::collection::vec(0.0f64..1.0, 2000), mean in 1.0f64..100.0, seed in any::<u64>(),
        ) {
            let yields = |uniform: &f64| (-mean * (1.0 - uniform).ln()).ceil().max(1.0) as usize;
            let steps = lengths.iter().flat_map(|uniform| regular(yields(uniform), 1)).collect::<Vec<_>>();
            let costs = costs(steps.into_iter(), seed);
            prop_assert!(costs.policy <= 2 * costs.never.min(costs.always) + 2 * LONGEST, "{costs:?}");
        }
    }
}
