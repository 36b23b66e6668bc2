//! A program on a simulated machine, and the alternative ways to run it there.

use pack::policy::assignment::FULL_CAPACITY;
use pack::policy::capacity::counts;
use pack::policy::controller::Settings;
use pack::policy::mode::{PERIODS_NS, Periods};
use pack::sim::{Costs, Outcome, Packing, Program, run};

/// A program, its CPUs and how they behave.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The program, with all its threads.
    pub program: Program,
    /// Capacity of each CPU, relative to [`FULL_CAPACITY`].
    pub capacities: Vec<u64>,
    /// Costs of context switches, moves and wake-ups.
    pub costs: Costs,
    /// Settings of the packer.
    pub settings: Settings,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Scenario {
    /// Returns the ideal time in ns, which no schedule can beat. It is the larger of two times: all work ÷ the speed of all CPUs; and, because a
    /// thread runs on one CPU at a time, the work of one thread ÷ the speed of the fastest CPU.
    pub fn ideal_ns(&self) -> f64 {
        let work_ns = self.program.work_ns as f64 * self.program.rounds as f64;
        let full = FULL_CAPACITY as f64;
        let all = self.capacities.iter().sum::<u64>() as f64 / full;
        let fastest = self.capacities.iter().copied().max().unwrap_or(0) as f64 / full;
        (work_ns * self.program.threads as f64 / all).max(work_ns / fastest)
    }

    /// Returns the least possible run time if no thread ever changes its CPU, divided by the ideal time. For N threads on C equal CPUs it is
    /// `ceil(N/C) * C/N`.
    pub fn static_slowdown(&self) -> f64 {
        let work_ns = self.program.work_ns as f64 * self.program.rounds as f64;
        let counts = counts(&self.capacities, self.program.threads);
        let own_ns =
            |(capacity, count): (&u64, usize)| work_ns * count as f64 * FULL_CAPACITY as f64 / *capacity as f64;
        self.capacities.iter().zip(counts).map(own_ns).fold(0.0, f64::max) / self.ideal_ns()
    }

    /// Simulates taskset(1): the kernel places all threads.
    pub fn taskset(&self) -> Outcome {
        self.run(&self.program, Packing::Kernel)
    }

    /// Simulates `cox pack`.
    pub fn packed(&self) -> Outcome {
        self.run(&self.program, Packing::Policy(self.settings))
    }

    /// Simulates one run for each scheduling period that `cox pack` can choose, with the period fixed for the whole run. Returns the period of the
    /// fastest run, in ns, and its outcome.
    pub fn best_fixed(&self) -> Option<(u64, Outcome)> {
        let fixed = |period_ns| {
            let settings = Settings { periods: Periods::Fixed(period_ns), always: true, ..self.settings };
            (period_ns, self.run(&self.program, Packing::Policy(settings)))
        };
        PERIODS_NS.into_iter().map(fixed).min_by_key(|(_, outcome)| outcome.elapsed_ns)
    }

    /// Simulates the same work in as many threads as there are CPUs; returns that number and the outcome. `None` if the program does not have more
    /// threads than CPUs.
    pub fn fewer_threads(&self) -> Option<(usize, Outcome)> {
        let threads = self.capacities.len();
        if threads >= self.program.threads {
            return None;
        }
        let work_ns = self.program.work_ns * self.program.threads as u64 / threads as u64;
        let program = Program { threads, work_ns, ..self.program.clone() };
        Some((threads, self.run(&program, Packing::Kernel)))
    }

    /// Simulates a run in which the kernel and `cox pack` place the threads alternately.
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
    fn the_best_of_all_fixed_periods_is_chosen() {
        let mut spins = scenario(3, &[1024, 1024]);
        spins.program = Program { rounds: 300, work_ns: 1_000_000, wait: Wait::Spin, ..spins.program };
        spins.costs = Costs::default();
        let (period_ns, best) = spins.best_fixed().unwrap();
        assert!(PERIODS_NS.contains(&period_ns) && best.elapsed_ns < spins.taskset().elapsed_ns);
        for other in PERIODS_NS {
            let settings = Settings { periods: Periods::Fixed(other), always: true, ..spins.settings };
            assert!(spins.run(&spins.program, Packing::Policy(settings)).elapsed_ns >= best.elapsed_ns, "{other}");
        }
    }
}
