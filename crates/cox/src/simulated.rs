//! A program on a simulated machine, and the ways to run it there that people choose between.

use pack::policy::capacity::counts;
use pack::policy::controller::Settings;
use pack::policy::mode::{TURNS_NS, Turns};
use pack::policy::assignment::FULL_CAPACITY;
use pack::sim::{Costs, Outcome, Packing, Program, run};

/// A program, and where it runs.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// With all its threads.
    pub program: Program,
    /// Of each CPU, of [`FULL_CAPACITY`].
    pub capacities: Vec<u64>,
    /// What things cost on a CPU.
    pub costs: Costs,
    /// How `cox pack` packs.
    pub settings: Settings,
    /// For all that is left to chance.
    pub seed: u64,
}

impl Scenario {
    /// All work on all CPUs, but no thread on two at a time, ns: no schedule is faster.
    pub fn ideal_ns(&self) -> f64 {
        let work_ns = self.program.work_ns as f64 * self.program.rounds as f64;
        let full = FULL_CAPACITY as f64;
        let all = self.capacities.iter().sum::<u64>() as f64 / full;
        let fastest = self.capacities.iter().copied().max().unwrap_or(0) as f64 / full;
        (work_ns * self.program.threads as f64 / all).max(work_ns / fastest)
    }

    /// How many times the ideal it takes at least when each CPU keeps its threads: of equal CPUs
    /// `ceil(N/C) * C/N`.
    pub fn static_slowdown(&self) -> f64 {
        let work_ns = self.program.work_ns as f64 * self.program.rounds as f64;
        let counts = counts(&self.capacities, self.program.threads);
        let own_ns =
            |(capacity, count): (&u64, usize)| work_ns * count as f64 * FULL_CAPACITY as f64 / *capacity as f64;
        self.capacities.iter().zip(counts).map(own_ns).fold(0.0, f64::max) / self.ideal_ns()
    }

    /// The kernel places all threads, as with taskset(1).
    pub fn taskset(&self) -> Outcome {
        self.run(&self.program, Packing::Kernel)
    }

    /// `cox pack`.
    pub fn packed(&self) -> Outcome {
        self.run(&self.program, Packing::Policy(self.settings))
    }

    /// Turns of one length from beginning to end, the best of those that `cox pack` searches through, ns.
    pub fn best_fixed(&self) -> Option<(u64, Outcome)> {
        let fixed = |turn_ns| {
            let settings = Settings { turns: Turns::Fixed(turn_ns), always: true, ..self.settings };
            (turn_ns, self.run(&self.program, Packing::Policy(settings)))
        };
        TURNS_NS.into_iter().map(fixed).min_by_key(|(_, outcome)| outcome.elapsed_ns)
    }

    /// The same work in as many threads as there are CPUs, and how many these are. `None` when there are no
    /// more than that.
    pub fn fewer_threads(&self) -> Option<(usize, Outcome)> {
        let threads = self.capacities.len();
        if threads >= self.program.threads {
            return None;
        }
        let work_ns = self.program.work_ns * self.program.threads as u64 / threads as u64;
        let program = Program { threads, work_ns, ..self.program.clone() };
        Some((threads, self.run(&program, Packing::Kernel)))
    }

    /// One run with the kernel's way and `cox pack` in turn.
    #[cfg(test)]
    pub fn trial(&self) -> Outcome {
        self.run(&self.program, Packing::Trial(self.settings))
    }

    fn run(&self, program: &Program, packing: Packing) -> Outcome {
        run(program, &self.capacities, packing, self.costs, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use pack::sim::Wait;

    use super::*;

    fn scenario(threads: usize, capacities: &[u64]) -> Scenario {
        Scenario {
            program: Program { threads, rounds: 10, work_ns: 20_000_000, jitter: 0.0, wait: Wait::Block },
            capacities: capacities.to_vec(),
            costs: Costs::NONE,
            settings: Settings::default(),
            seed: 1,
        }
    }

    #[test]
    fn ideal_and_static() {
        let equal = scenario(3, &[1024, 1024]);
        assert_eq!((equal.ideal_ns(), equal.static_slowdown()), (300e6, 4.0 / 3.0));
        // One thread has no use for the slow CPU.
        assert_eq!(scenario(1, &[512, 1024]).ideal_ns(), 200e6);
        // Three threads on 1 + 1/2: ideal 3 * 200 / 1.5 ms; counts 2 and 1 take 400 ms each.
        let hybrid = scenario(3, &[1024, 512]);
        assert_eq!((hybrid.ideal_ns(), hybrid.static_slowdown()), (400e6, 1.0));
    }

    #[test]
    fn fewer_threads_do_the_same_work() {
        let equal = scenario(3, &[1024, 1024]);
        let (threads, outcome) = equal.fewer_threads().unwrap();
        assert_eq!((threads, outcome.elapsed_ns), (2, 300_000_000));
        assert!(scenario(2, &[1024, 1024]).fewer_threads().is_none());
    }

    #[test]
    fn the_best_of_all_fixed_turns_is_chosen() {
        let mut spins = scenario(3, &[1024, 1024]);
        spins.program = Program { rounds: 300, work_ns: 1_000_000, wait: Wait::Spin, ..spins.program };
        spins.costs = Costs::default();
        let (turn_ns, best) = spins.best_fixed().unwrap();
        assert!(TURNS_NS.contains(&turn_ns) && best.elapsed_ns < spins.taskset().elapsed_ns);
        for other in TURNS_NS {
            let settings = Settings { turns: Turns::Fixed(other), always: true, ..spins.settings };
            assert!(spins.run(&spins.program, Packing::Policy(settings)).elapsed_ns >= best.elapsed_ns, "{other}");
        }
    }
}
