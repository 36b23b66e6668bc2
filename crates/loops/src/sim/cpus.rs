//! CPUs and who else runs on them.

use random::Random;

/// Length of a slice of a co-runner that shares a CPU with a thread, nanoseconds.
const SLICE_NS: f64 = 3e6;

/// How often a burst hits each CPU, per second.
pub const BURSTS_PER_S: f64 = 8.0;
/// How long a burst takes, nanoseconds.
pub const BURST_NS: f64 = 4e6;

/// What runs on the CPUs beside the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoRunner {
    /// Nothing.
    None,
    /// Bursts of 4 ms, eight per second on each CPU, at random times.
    Bursts,
    /// A thread that always computes, on CPU 0.
    Stays,
    /// A thread that always computes and goes to a random CPU after each time of so many milliseconds.
    Wanders(u32),
}

/// A CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpu {
    /// Nanoseconds of work per nanosecond.
    pub speed: f64,
    /// When a co-runner runs, in ascending order, nanoseconds.
    taken: Vec<(f64, f64)>,
    /// When a co-runner is runnable, in ascending order, nanoseconds.
    wanted: Vec<(f64, f64)>,
}

/// The CPUs of a team.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// One for each thread.
    pub cpus: Vec<Cpu>,
}

impl Machine {
    /// Makes CPUs with these speeds and a co-runner, for a time of `length_ns`. After it, nothing else runs.
    #[must_use]
    pub fn new(speeds: &[f64], co_runner: CoRunner, length_ns: f64, seed: u64) -> Machine {
        let cpu = |speed: &f64| Cpu { speed: *speed, taken: Vec::new(), wanted: Vec::new() };
        let mut cpus: Vec<Cpu> = speeds.iter().map(cpu).collect();
        let mut random = Random::new(seed);
        match co_runner {
            CoRunner::None => {}
            CoRunner::Bursts => cpus.iter_mut().for_each(|cpu| cpu.bursts(length_ns, &mut random)),
            CoRunner::Stays => cpus[0].shares(random.unit() * SLICE_NS, length_ns),
            CoRunner::Wanders(stay_ms) => {
                let stay_ns = f64::from(stay_ms.max(1)) * 1e6;
                let mut at = 0.0;
                while at < length_ns {
                    let cpu = random.below(cpus.len());
                    cpus[cpu].shares(at, at + stay_ns);
                    at += stay_ns;
                }
            }
        }
        Machine { cpus }
    }
}

impl Cpu {
    fn bursts(&mut self, length_ns: f64, random: &mut Random) {
        let mut at = 0.0;
        while at < length_ns {
            at += -(1.0 - random.unit()).ln() / BURSTS_PER_S * 1e9;
            self.taken.push((at, at + BURST_NS));
            self.wanted.push((at, at + BURST_NS));
            at += BURST_NS;
        }
    }

    /// A co-runner and the thread have slices in turn.
    fn shares(&mut self, from_ns: f64, to_ns: f64) {
        self.wanted.push((from_ns, to_ns));
        let mut at = from_ns;
        while at < to_ns {
            self.taken.push((at, (at + SLICE_NS).min(to_ns)));
            at += 2.0 * SLICE_NS;
        }
    }

    /// Returns the first time from `at_ns` on at which the thread has the CPU.
    #[must_use]
    pub fn free_at(&self, at_ns: f64) -> f64 {
        covering(&self.taken, at_ns).map_or(at_ns, |(_, end)| end)
    }

    /// Returns true if a co-runner is runnable.
    #[must_use]
    pub fn is_wanted(&self, at_ns: f64) -> bool {
        covering(&self.wanted, at_ns).is_some()
    }

    /// Executes work from `at_ns` on, and returns when it is finished and the CPU time.
    #[must_use]
    pub fn run(&self, at_ns: f64, work_ns: f64) -> (f64, f64) {
        let cpu_ns = work_ns / self.speed;
        let mut at = self.free_at(at_ns);
        let mut left = cpu_ns;
        let next = self.taken.partition_point(|(from, _)| *from <= at);
        for (from, to) in &self.taken[next..] {
            if at + left <= *from {
                break;
            }
            left -= from - at;
            at = *to;
        }
        (at + left, cpu_ns)
    }
}

/// Returns the interval that contains `at`.
fn covering(intervals: &[(f64, f64)], at: f64) -> Option<(f64, f64)> {
    let after = intervals.partition_point(|(from, _)| *from <= at);
    after.checked_sub(1).map(|before| intervals[before]).filter(|(_, to)| *to > at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_the_co_runner() {
        let cpu = Cpu { speed: 2.0, taken: vec![(10.0, 13.0), (20.0, 23.0)], wanted: vec![(9.0, 23.0)] };
        assert_eq!(cpu.run(0.0, 10.0), (5.0, 5.0));
        assert_eq!(cpu.run(8.0, 10.0), (16.0, 5.0));
        assert_eq!(cpu.run(11.0, 10.0), (18.0, 5.0));
        assert_eq!(cpu.run(8.0, 22.0), (25.0, 11.0));
        assert_eq!((cpu.free_at(11.0), cpu.free_at(13.0)), (13.0, 13.0));
        assert!(cpu.is_wanted(15.0) && !cpu.is_wanted(8.0) && !cpu.is_wanted(23.0));
    }

    #[test]
    fn a_co_runner_that_stays_has_half_of_one_cpu() {
        let machine = Machine::new(&[1.0, 1.0], CoRunner::Stays, 600e6, 1);
        let share = machine.cpus[0].taken.iter().map(|(from, to)| to - from).sum::<f64>() / 600e6;
        assert!((share - 0.5).abs() < 0.01, "{share}");
        assert_eq!(machine.cpus[1].taken, []);
    }
}
