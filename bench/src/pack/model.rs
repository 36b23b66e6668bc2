//! Models of programs for the simulator: of the workload `barriers`, and of the benchmark kernels.

use pack::policy::assignment::FULL_CAPACITY;
use pack::policy::controller::Settings;
use pack::policy::mode::Periods;
use pack::sim::{Costs, Outcome, Packing, Program, Wait as SimWait, run};

use super::barriers::{Line, SPIN_US, Wait};
use super::job::With;
use super::kernels::Table;
use super::palm::Parts;
use super::ratio::Ratio;

/// Relative random variation of a simulated thread's work. The benchmark kernels share the work equally, but caches and memory make the threads
/// slightly unequal.
const JITTER: f64 = 0.05;
/// If a benchmark kernel's threads synchronise only at the end, the model divides their work into this many pieces.
const PIECES: f64 = 100.0;
/// Upper limit for the number of simulated rounds. In a round, each thread works for one phase and then waits at a barrier. If phases take
/// microseconds, more rounds would not improve the figures, but simulating them would take minutes.
const MOST_ROUNDS: u64 = 100_000;
/// Fixed seed, so that a table is reproducible.
const SEED: u64 = 1;

/// The simulated CPUs.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// Printed name.
    pub name: &'static str,
    /// Number of threads of the program.
    pub threads: usize,
    /// Capacity of each CPU, relative to [`FULL_CAPACITY`].
    pub capacities: Vec<u64>,
}

impl Cpus {
    /// Makes CPUs of equal capacity.
    pub fn equal(name: &'static str, ratio: Ratio) -> Cpus {
        Cpus { name, threads: ratio.threads, capacities: vec![FULL_CAPACITY; ratio.cpus] }
    }

    /// Returns the configurations that this machine cannot run, as threads/CPUs: 4/3, 8/7, 16/15, and 16 threads on 7 fast and 8 slow CPUs. For the
    /// last one, the authors of the PALM paper reduced the frequency of the slow CPUs by a factor that their presentation does not name. Here, a
    /// slow CPU has half the capacity of a fast one.
    pub fn beyond_this_machine() -> Vec<Cpus> {
        let ratio = |threads, cpus| Ratio { threads, cpus };
        let mut hybrid = vec![FULL_CAPACITY; 7];
        hybrid.extend([FULL_CAPACITY / 2; 8]);
        vec![
            Cpus::equal("4/3", ratio(4, 3)),
            Cpus::equal("8/7", ratio(8, 7)),
            Cpus::equal("16/15", ratio(16, 15)),
            Cpus { name: "16/7 fast+8 slow", threads: 16, capacities: hybrid },
        ]
    }

    /// Returns the total capacity of these CPUs, as a number of CPUs of full capacity.
    fn worth(&self) -> f64 {
        self.capacities.iter().sum::<u64>() as f64 / FULL_CAPACITY as f64
    }
}

/// CPU work of the threads between two barriers, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// Work of each thread, if the program runs with all its threads. With fewer threads, the same total work is divided among these.
    PerThread(f64),
    /// Work of all threads together, per CPU of full capacity.
    PerCpu(f64),
}

/// A program model that is independent of the number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    work: Work,
    /// Number of barriers.
    pub rounds: u64,
    /// How threads wait.
    pub wait: SimWait,
    jitter: f64,
}

fn sim_wait(wait: Wait) -> SimWait {
    match wait {
        Wait::Spin => SimWait::Spin,
        Wait::SpinFutex => SimWait::SpinThenBlock(SPIN_US * 1000),
        Wait::Yield => SimWait::Yield,
        Wait::Futex => SimWait::Block,
    }
}

impl Model {
    /// Makes the model for a line of the table of the part `barriers`.
    pub fn of_line(line: &Line, scale: f64) -> Model {
        Model {
            work: Work::PerThread(line.phase_us as f64 * 1e3),
            rounds: line.rounds(scale),
            wait: sim_wait(line.wait),
            jitter: 0.0,
        }
    }

    /// Makes the model for a benchmark kernel from its measured figures: each phase is as long as the mean phase of the run with as many threads as
    /// CPUs. The work per CPU stays the same on larger machines, because users of larger machines have larger problems.
    pub fn of_kernel(table: &Table) -> Option<Model> {
        let elapsed_ns = table.row(With::FewerThreads)?.elapsed_s.estimate.median * 1e9;
        let (phases, wait) = match table.wait() {
            Some(wait) => (table.phases as f64, sim_wait(wait)),
            None => (PIECES, SimWait::Never),
        };
        let rounds = (phases.round() as u64).clamp(1, MOST_ROUNDS);
        Some(Model { work: Work::PerCpu(elapsed_ns / phases), rounds, wait, jitter: JITTER })
    }

    /// Returns the work of all threads in a phase (the time between two barriers), ns.
    fn phase_ns(&self, cpus: &Cpus) -> f64 {
        match self.work {
            Work::PerThread(work_ns) => work_ns * cpus.threads as f64,
            Work::PerCpu(work_ns) => work_ns * cpus.worth(),
        }
    }

    /// Returns the program to simulate on these CPUs. Each of the `threads` threads does the same work.
    fn program(&self, cpus: &Cpus, threads: usize) -> Program {
        let work_ns = (self.phase_ns(cpus) / threads as f64).round().max(1.0) as u64;
        Program { threads, rounds: self.rounds, work_ns, jitter: self.jitter, wait: self.wait }
    }

    /// Simulates one run of the program on `cpus`, with `costs` for switches, ticks and moves of threads. `how` is the way to run it, for example
    /// packed.
    pub fn run(&self, cpus: &Cpus, how: How, costs: Costs) -> Simulated {
        let threads = if how == How::FewerThreads { cpus.capacities.len() } else { cpus.threads };
        let program = self.program(cpus, threads);
        let outcome = run(&program, &cpus.capacities, how.packing(), costs, SEED);
        Simulated::of(&outcome, self.phase_ns(cpus) / cpus.worth() * self.rounds as f64)
    }
}

/// A way to run a simulated program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// All threads, confined to the CPUs by taskset and placed by Linux.
    Taskset,
    /// As many threads as CPUs, placed by Linux.
    FewerThreads,
    /// Packed with a fixed scheduling period of this length, ns.
    Fixed(u64),
    /// Packed by the PALM paper's rules.
    Palm,
    /// Packed as cox does by default.
    Ours,
}

impl How {
    fn packing(self) -> Packing {
        match self {
            How::Taskset | How::FewerThreads => Packing::Kernel,
            How::Fixed(period_ns) => {
                Packing::Policy(Settings { periods: Periods::Fixed(period_ns), always: true, ..Settings::default() })
            }
            How::Palm => Packing::Policy(Parts::default().settings()),
            How::Ours => Packing::Policy(Settings::default()),
        }
    }
}

/// The results of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// Elapsed time ÷ the time that the CPUs need for the work if no CPU is ever idle.
    pub slowdown: f64,
    /// CPU time of the simulated controller (the part of cox that assigns threads to CPUs), in percent of one CPU.
    pub own_percent: f64,
    /// Number of times per second that a thread was moved to another CPU.
    pub moves_per_s: f64,
}

impl Simulated {
    fn of(outcome: &Outcome, ideal_ns: f64) -> Simulated {
        let elapsed_ns = outcome.elapsed_ns as f64;
        Simulated {
            slowdown: elapsed_ns / ideal_ns,
            own_percent: 100.0 * outcome.own_ns as f64 / elapsed_ns,
            moves_per_s: 1e9 * outcome.totals.seen.moves as f64 / elapsed_ns,
        }
    }
}

/// Returns the cost of a tick (the work of the controller at the end of a CPU's scheduling period), ns: `(t0 - t1) ÷ (n0 - n1)`. Here, t is the
/// controller's CPU time per second, and n is the number of ticks per second on `cpus` CPUs, with each of two scheduling periods. Costs that do not
/// depend on the number of ticks cancel out. `own_percent` is the controller's CPU time with each period, in percent of one CPU.
pub fn tick_cost_ns(cpus: usize, periods_ns: (u64, u64), own_percent: (f64, f64)) -> f64 {
    let ticks_per_s = |period_ns: u64| cpus as f64 * 1e9 / period_ns as f64;
    let own_ns_per_s = |percent: f64| percent / 100.0 * 1e9;
    (own_ns_per_s(own_percent.0) - own_ns_per_s(own_percent.1))
        / (ticks_per_s(periods_ns.0) - ticks_per_s(periods_ns.1))
}

/// Returns the tick cost to set in the simulator, ns: `default_ns + live_ns - simulated_ns`, from 1 to 200 us. `live_ns` is the total cost of a tick
/// in real runs, including the moves of threads that the tick orders. `simulated_ns` is the same in a simulation with tick cost `default_ns`. With
/// the returned cost, the two totals are equal.
pub fn fitted_tick_ns(default_ns: u64, live_ns: f64, simulated_ns: f64) -> u64 {
    (default_ns as f64 + live_ns - simulated_ns).clamp(1_000.0, 200_000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::super::barriers::LINES;
    use super::*;

    #[test]
    fn a_line_is_simulated_with_the_work_it_does_live() {
        let line = LINES.iter().find(|line| line.name() == "3/2 spin 10 ms").unwrap();
        let model = Model::of_line(line, 1.0);
        let cpus = Cpus::equal("3/2", line.ratio);
        let program = model.program(&cpus, 3);
        assert_eq!((program.threads, program.work_ns, program.rounds), (3, 10_000_000, line.rounds(1.0)));
        let quick = Model { rounds: 5, ..model };
        let taskset = quick.run(&cpus, How::Taskset, Costs::default());
        assert!(taskset.slowdown >= 1.0 && taskset.own_percent == 0.0, "{taskset:?}");
        let fewer = quick.run(&cpus, How::FewerThreads, Costs::NONE);
        assert!((fewer.slowdown - 1.0).abs() < 1e-9, "{fewer:?}");
    }

    #[test]
    fn work_per_cpu_stays_the_same_and_slow_cpus_are_worth_less() {
        let model = Model { work: Work::PerCpu(1e6), rounds: 10, wait: SimWait::Spin, jitter: 0.0 };
        let all = Cpus::beyond_this_machine();
        let work: Vec<u64> = all.iter().map(|cpus| model.program(cpus, cpus.threads).work_ns).collect();
        assert_eq!(work, [750_000, 875_000, 937_500, 687_500]);
        assert_eq!(all[3].worth(), 11.0);
        let line = Model { work: Work::PerThread(1e6), ..model };
        assert!(all.iter().all(|cpus| line.program(cpus, cpus.threads).work_ns == 1_000_000));
        assert_eq!(line.program(&all[0], 3).work_ns, 1_333_333, "the same work by fewer threads");
    }

    #[test]
    fn ticks_are_fitted() {
        // 30 us a tick of two CPUs, and 1 % whatever the periods.
        let live_ns = tick_cost_ns(2, (250_000, 1_000_000), (25.0, 7.0));
        assert!((live_ns - 30_000.0).abs() < 1e-6, "{live_ns}");
        assert_eq!(fitted_tick_ns(15_000, 30_000.0, 20_000.0), 25_000);
        assert_eq!(fitted_tick_ns(15_000, 0.0, 20_000.0), 1_000, "noise makes no negative cost");
    }

    /// The fit brings the simulated controller to the cost that it was fitted to.
    #[test]
    fn a_fitted_machine_costs_what_was_asked() {
        let line = LINES.iter().find(|line| line.name() == "3/2 spin 10 ms").unwrap();
        let model = Model { rounds: 40, ..Model::of_line(line, 1.0) };
        let cpus = Cpus::equal("3/2", line.ratio);
        let cost_ns = |costs| {
            let own = |period_ns| model.run(&cpus, How::Fixed(period_ns), costs).own_percent;
            tick_cost_ns(2, (250_000, 1_000_000), (own(250_000), own(1_000_000)))
        };
        let default = Costs::default();
        let fitted = Costs { tick_ns: fitted_tick_ns(default.tick_ns, 30_000.0, cost_ns(default)), ..default };
        assert!((cost_ns(fitted) / 30_000.0 - 1.0).abs() < 0.1, "{}", cost_ns(fitted));
    }
}
