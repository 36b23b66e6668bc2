//! Weights from earlier instances of a loop: `awf`, and weighted blocks.
//!
//! π_i = Σ s·t_i(s) / Σ s·n_i(s) over the instances s = 1, 2, …, with the time t_i(s) that thread i needed for its
//! n_i(s) iterations. w_i = (1/π_i)·P / Σ_j (1/π_j). A thread without iterations so far gets the mean weight of the
//! others.
//!
//! Source: Banicescu, Velusamy and Devaprasad, "On the scalability of dynamic scheduling scientific applications with
//! adaptive weighted factoring", Cluster Computing 6(3), 2003. LB4OMP divides by the iterations of threads that had
//! none.

use crate::cpu_share::Share;
use crate::statistics::{Finished, Timing};

/// What is known of one thread, from all instances of one loop.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    timing: Timing,
    instances: f64,
    /// Σ s·t(s), nanoseconds.
    time_ns: f64,
    /// Σ s·n(s).
    iterations: f64,
    share: Share,
    /// The instance that is executed now.
    current: Finished,
}

impl History {
    /// Begins without an instance.
    #[must_use]
    pub fn new(timing: Timing) -> History {
        let current = Finished::default();
        History { timing, instances: 0.0, time_ns: 0.0, iterations: 0.0, share: Share::default(), current }
    }

    /// Continues with what is known of the thread's share of its CPU from other loops.
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// Returns the thread's share of its CPU.
    #[must_use]
    pub fn share(&self) -> Share {
        self.share
    }

    /// Adds a chunk to the instance that is executed now.
    pub fn add(&mut self, chunk: &Finished) {
        self.current.iterations = self.current.iterations.saturating_add(chunk.iterations);
        self.current.wall_ns += chunk.wall_ns;
        self.current.cpu_ns += chunk.cpu_ns;
    }

    /// Ends the instance.
    pub fn end_instance(&mut self) {
        let Finished { iterations, wall_ns, cpu_ns, .. } = std::mem::take(&mut self.current);
        self.instances += 1.0;
        self.share.add(cpu_ns, wall_ns);
        let time_ns = if self.timing == Timing::Wall { wall_ns } else { cpu_ns };
        if iterations > 0 && time_ns.is_finite() && time_ns > 0.0 {
            self.time_ns += self.instances * time_ns;
            self.iterations += self.instances * iterations as f64;
        }
    }

    /// Returns iterations per nanosecond; `None` if unknown. With [`Timing::Both`], that is the speed while the thread
    /// runs, times its share of the CPU.
    #[must_use]
    pub fn speed(&self) -> Option<f64> {
        let share = if self.timing == Timing::Both { self.share.get() } else { 1.0 };
        Some(self.iterations / self.time_ns * share).filter(|speed| speed.is_finite() && *speed > 0.0)
    }
}

/// Returns a weight for each thread; their mean is 1.
#[must_use]
pub fn weights(team: &[History]) -> Vec<f64> {
    let speeds: Vec<_> = team.iter().map(History::speed).collect();
    let count = speeds.iter().flatten().count();
    let mean = speeds.iter().flatten().sum::<f64>() / count as f64;
    speeds.iter().map(|speed| speed.map_or(1.0, |speed| speed / mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(history: &mut History, iterations: u64, wall_ns: f64, cpu_ns: f64) {
        history.add(&Finished { iterations, wall_ns, cpu_ns, dispatch_ns: 0.0 });
        history.end_instance();
    }

    #[test]
    fn later_instances_count_more() {
        let mut team = [History::new(Timing::Wall), History::new(Timing::Wall), History::new(Timing::Wall)];
        assert_eq!(weights(&team), [1.0; 3]);
        instance(&mut team[0], 10, 10.0, 0.0);
        instance(&mut team[0], 10, 40.0, 0.0);
        instance(&mut team[1], 10, 10.0, 0.0);
        // Thread 0: 30 weighted iterations in 90 ns, thread 1: 10 in 10, thread 2 is unknown.
        let speeds = [1.0 / 3.0, 1.0];
        let mean = (speeds[0] + speeds[1]) / 2.0;
        assert_eq!(weights(&team), [speeds[0] / mean, speeds[1] / mean, 1.0]);
    }

    /// A hog that stays: half of the CPU, at full speed.
    #[test]
    fn both_factors_are_kept_apart() {
        for (timing, expected) in [(Timing::Wall, 0.5), (Timing::Cpu, 1.0), (Timing::Both, 0.5)] {
            let mut team = [History::new(timing), History::new(timing)];
            for _ in 0..20 {
                instance(&mut team[0], 1000, 20e6, 10e6);
                instance(&mut team[1], 1000, 10e6, 10e6);
            }
            let weights = weights(&team);
            assert!((weights[0] / weights[1] - expected).abs() < 0.01, "{timing:?}: {weights:?}");
        }
    }
}
