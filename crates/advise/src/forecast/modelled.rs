//! A forecast from an account of `cox run`, computed by a simulator.
//!
//! The account gives the amount of useful work, the number of threads and how they wait. If threads sleep, the length of phases follows from the
//! number of sleeps. If threads spin, the length can only be inferred from the slowdown of a run with more threads than CPUs. If the run had a CPU
//! for each thread, all lengths are possible, and the ranges are wide.

use ledger::Unsampled;

use super::measured::setting;
use super::{Basis, Choice, Forecast, Refusal, Way};
use crate::evidence::Evidence;

/// How threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Threads spin.
    Loops,
    /// Threads sleep.
    Asleep,
    /// Threads spin first, and then sleep.
    Both,
    /// Threads do not wait for one another before the end.
    Never,
}

/// What the model needs to know about a program, taken from the account of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// Number of worker threads.
    pub threads: u64,
    /// Number of CPUs that the run had.
    pub had_cpus: u64,
    /// Number of CPUs that the forecast is for.
    pub cpus: u64,
    /// Wall time of the run.
    pub elapsed_ns: u64,
    /// Useful CPU time of all threads.
    pub work_ns: u64,
    /// Work of the busiest thread relative to the average.
    pub inequality: f64,
    /// How threads wait.
    pub waits: Waits,
    /// Length of a phase (a thread's work between two barriers), in nanoseconds. If the account does not show the length, this lists all lengths that
    /// are possible.
    pub phases_ns: Vec<u64>,
    /// Whether the number of threads can be set: the program uses an OpenMP runtime or was given OMP_NUM_THREADS.
    pub accepts: bool,
}

/// Results of the simulator for one possible length of phases. Each is a simulated time divided by the ideal time, which no schedule on the same CPUs
/// can beat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// Simulated time ÷ ideal time if taskset restricts the program to the CPUs that the forecast is for.
    pub taskset: f64,
    /// Simulated time ÷ ideal time if cox packs the program.
    pub packed: f64,
    /// Simulated time ÷ ideal time if the program has only as many threads as CPUs.
    pub fewer_threads: f64,
    /// Simulated time ÷ ideal time if the kernel schedules the program on as many CPUs as the run in the account had.
    pub as_it_ran: f64,
}

/// Phase lengths that are simulated if threads wait by spinning, because the account does not show the real length. A phase is a thread's work
/// between two barriers. The shortest phases lose time mostly because of the kernel's tick; in the longest ones, threads spend hardly any time
/// waiting.
pub const POSSIBLE_NS: [u64; 11] =
    [20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000, 40_000_000];

/// Threads wait by spinning if more than this part of their run time is in spin loops. Samples of programs that do not spin show less.
const LOOPS: f64 = 0.005;

/// Above this part of run time in spin loops, threads wait by spinning, even if they also sleep.
const MOSTLY_LOOPS: f64 = 0.5;

/// Threads meet at barriers if each of them sleeps more often than this per second. Joins are rarer.
const SLEEPS_PER_S: f64 = 3.0;

/// A length of phases is possible if the slowdown simulated with it differs from the measured slowdown by at most this factor.
const LIKE: f64 = 1.25;

/// If packing is not faster than the kernel's scheduling by this factor, cox is assumed not to pack.
const WORTH: f64 = 1.03;

/// Largest relative difference between the simulator's times and those of live runs.
const MODEL: f64 = 0.15;

/// Assumed relative difference between two runs of the same program.
const AGAIN: f64 = 0.05;

impl Sketch {
    /// Computes what the model needs to know about a program from the account of a run.
    ///
    /// # Errors
    /// If the program has a CPU for each thread, so that there is nothing to pack, or if the account lacks the information.
    pub fn of(evidence: &Evidence<'_>, cpus: u64) -> Result<Sketch, Refusal> {
        let workers = &evidence.workers;
        let threads = workers.len() as u64;
        if evidence.facts.is_packed() {
            return Err(Refusal::Packed);
        }
        if evidence.account.lost.spoil_accounts() {
            return Err(Refusal::Lossy);
        }
        if threads <= 1 {
            return Err(Refusal::SingleThreaded);
        }
        if threads <= cpus {
            return Err(Refusal::NothingToPack { threads, cpus });
        }
        if !evidence.sees.spin {
            return Err(evidence.sees.unsampled.map_or(Refusal::Blind, |Unsampled::Noise| Refusal::Unsampled));
        }
        let run_ns = evidence.worker_sums.run_ns.max(1) as f64;
        let in_loops = evidence.worker_sums.spin_ns as f64 / run_ns;
        let mean_work_ns = workers.iter().map(|thread| thread.work_ns() as f64).sum::<f64>() / threads as f64;
        let sleeps = workers.iter().map(|thread| thread.switches_voluntary as f64).sum::<f64>() / threads as f64;
        let asleep = sleeps * 1e9 > evidence.wall_ns * SLEEPS_PER_S;
        let waits = match (in_loops > LOOPS, asleep) {
            _ if in_loops > MOSTLY_LOOPS => Waits::Loops,
            (true, false) => Waits::Loops,
            (false, true) => Waits::Asleep,
            (true, true) => Waits::Both,
            (false, false) => Waits::Never,
        };
        let phases_ns = match waits {
            Waits::Loops => POSSIBLE_NS.to_vec(),
            // At each barrier, n − 1 of the n threads sleep: all but the last one to arrive. So the number of barriers is
            // `sleeps × n ÷ (n − 1)`, where `sleeps` is the average number of sleeps of a thread.
            Waits::Asleep | Waits::Both => {
                let meetings = sleeps * threads as f64 / (threads - 1) as f64;
                vec![((mean_work_ns / meetings) as u64).max(1_000)]
            }
            Waits::Never => vec![(mean_work_ns as u64).max(1_000)],
        };
        let given = evidence.facts.variable("OMP_NUM_THREADS").is_some();
        let runtime = evidence.facts.openmp_runtime.is_some();
        Ok(Sketch {
            threads,
            had_cpus: (evidence.cpus.round() as u64).max(1),
            cpus,
            elapsed_ns: evidence.wall_ns as u64,
            work_ns: evidence.sums.work_ns(),
            inequality: evidence.inequality(),
            waits,
            phases_ns,
            accepts: given || runtime,
        })
    }

    /// Returns the lower bound of the time in ns: all useful work divided by the number of CPUs that the forecast is for.
    fn bound_ns(&self) -> f64 {
        self.work_ns as f64 / self.cpus as f64
    }

    /// Returns the slowdown of the run: its elapsed time ÷ its ideal time, which is the useful work divided by the number of CPUs that the threads
    /// could use at once.
    fn slowdown(&self) -> f64 {
        let at_once = self.had_cpus.min(self.threads) as f64;
        self.elapsed_ns as f64 * at_once / (self.work_ns as f64).max(1.0)
    }

    /// Returns the simulations that fit the run: their simulated slowdown is about as large as the slowdown of the run. If there are none, returns
    /// the nearest one. If the run had a CPU for each thread, returns all simulations: the run then had no slowdown that depends on the length of
    /// phases.
    fn likely<'s>(&self, simulated: &'s [Simulated]) -> Vec<&'s Simulated> {
        if self.threads <= self.had_cpus {
            return simulated.iter().collect();
        }
        let off = |simulated: &&Simulated| (simulated.as_it_ran / self.slowdown()).ln().abs();
        let like: Vec<&Simulated> = simulated.iter().filter(|one| off(one) <= LIKE.ln()).collect();
        if like.is_empty() {
            return simulated.iter().min_by(|a, b| off(a).total_cmp(&off(b))).into_iter().collect();
        }
        like
    }
}

/// Computes the forecast from the results of the simulator: `simulated` has one entry for each length in `sketch.phases_ns`.
#[must_use]
pub fn forecast(sketch: &Sketch, simulated: &[Simulated]) -> Forecast {
    let bound_ns = sketch.bound_ns();
    let likely = sketch.likely(simulated);
    let times = |slowdown: &dyn Fn(&Simulated) -> f64| {
        let all: Vec<f64> = likely.iter().map(|one| slowdown(one).max(1.0) * bound_ns).collect();
        let (least, most) = (all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(0.0, f64::max));
        // The phase lengths differ by orders of magnitude, so the geometric mean is used as the most likely time.
        [least / (1.0 + MODEL), (least * most).sqrt(), most * (1.0 + MODEL)]
    };
    let choice = |way, threads, times| Choice::new(way, threads, bound_ns, times, Basis::Modelled);
    let taskset_ns = times(&|one| one.taskset);
    let mut taskset = choice(Way::Taskset, sketch.threads, taskset_ns);
    if sketch.cpus == sketch.had_cpus {
        let elapsed_ns = sketch.elapsed_ns as f64;
        let times = [elapsed_ns / (1.0 + AGAIN), elapsed_ns, elapsed_ns * (1.0 + AGAIN)];
        taskset =
            Choice::new(Way::Taskset, sketch.threads, bound_ns, times, Basis::Measured).noting("the run as measured");
    }
    let mut fewer_ns = times(&|one| one.fewer_threads);
    fewer_ns[2] *= sketch.inequality;
    let fewer = choice(Way::FewerThreads, sketch.cpus, fewer_ns).noting(setting(sketch.accepts, sketch.cpus));
    let mut packing = choice(Way::Packing, sketch.threads, times(&|one| one.packed));
    if likely.iter().all(|one| one.packed * WORTH > one.taskset) {
        packing = Choice { way: Way::Packing, ..taskset.clone() }.noting("the kernel places the threads");
    }
    Forecast::new(sketch.threads, sketch.cpus, bound_ns, vec![fewer, taskset, packing])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch() -> Sketch {
        Sketch {
            threads: 3,
            had_cpus: 2,
            cpus: 2,
            elapsed_ns: 4_000_000_000,
            work_ns: 4_000_000_000,
            inequality: 1.0,
            waits: Waits::Loops,
            phases_ns: vec![1, 2, 3],
            accepts: false,
        }
    }

    fn simulated(taskset: f64, packed: f64) -> Simulated {
        Simulated { taskset, packed, fewer_threads: 1.0, as_it_ran: taskset }
    }

    fn choice(forecast: &Forecast, way: Way) -> &Choice {
        forecast.choices.iter().find(|choice| choice.way == way).unwrap()
    }

    /// The run took twice its ideal: only the second simulation is like it.
    #[test]
    fn the_run_itself_tells_which_phases_are_likely() {
        let forecast = forecast(&sketch(), &[simulated(8.0, 2.0), simulated(2.1, 1.25), simulated(1.3, 1.1)]);
        assert_eq!(forecast.bound_ns, 2_000_000_000);
        let packing = choice(&forecast, Way::Packing);
        assert_eq!(packing.time_ns, 2_500_000_000);
        assert!((packing.high_ns as f64 - 2.5e9 * (1.0 + MODEL)).abs() < 10.0);
        // Taskset on the CPUs that it had is what was measured.
        let taskset = choice(&forecast, Way::Taskset);
        assert_eq!((taskset.time_ns, taskset.basis), (4_000_000_000, Basis::Measured));
        assert_eq!(choice(&forecast, Way::FewerThreads).note.as_deref(), Some("if it accepts 2 threads"));
        let order: Vec<Way> = forecast.choices.iter().map(|choice| choice.way).collect();
        assert_eq!(order, [Way::FewerThreads, Way::Packing, Way::Taskset]);
    }

    #[test]
    fn with_a_cpu_for_each_thread_all_phases_are_possible() {
        let sketch = Sketch { had_cpus: 4, elapsed_ns: 1_400_000_000, ..sketch() };
        let forecast = forecast(&sketch, &[simulated(8.0, 2.0), simulated(2.0, 1.25)]);
        let taskset = choice(&forecast, Way::Taskset);
        assert_eq!((taskset.time_ns, taskset.basis), (8_000_000_000, Basis::Modelled));
        assert!(taskset.low_ns < 4_000_000_000 && taskset.high_ns > 16_000_000_000, "{taskset:?}");
    }

    #[test]
    fn when_no_simulation_is_like_the_run_the_nearest_counts() {
        let forecast = forecast(&sketch(), &[simulated(8.0, 2.5), simulated(5.0, 1.5)]);
        assert_eq!(choice(&forecast, Way::Packing).time_ns, 3_000_000_000);
    }

    #[test]
    fn what_packing_would_not_change_takes_what_it_took() {
        let forecast = forecast(&sketch(), &[simulated(2.0, 1.98)]);
        let packing = choice(&forecast, Way::Packing);
        assert_eq!((packing.time_ns, packing.basis), (4_000_000_000, Basis::Measured));
        assert_eq!(packing.note.as_deref(), Some("the kernel places the threads"));
    }
}
