//! What `profile` measures: mean and deviation of an iteration, and the cost of a request.
//!
//! The schedule hands out single iterations (or a program's chunks), and each thread adds them to a profile of its
//! own. At the end, the profiles are merged, and become the [`Inputs`] of schedules that need them.

use crate::inputs::Inputs;
use crate::statistics::{Finished, Spread, Timing};

/// Samples of one loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Profile {
    iterations: Spread,
    requests: Spread,
}

impl Profile {
    /// Adds a chunk. Its time is wall time or CPU time.
    pub fn add(&mut self, chunk: &Finished, timing: Timing) {
        let time_ns = if timing == Timing::Wall { chunk.wall_ns } else { chunk.cpu_ns };
        self.iterations.add(chunk.iterations, time_ns);
        self.requests.add(1, chunk.dispatch_ns);
    }

    /// Adds the samples of another thread or instance.
    pub fn merge(&mut self, other: &Profile) {
        self.iterations.merge(&other.iterations);
        self.requests.merge(&other.requests);
    }

    /// Returns what is known. Values that cannot be used, as a mean of 0, are unknown.
    #[must_use]
    pub fn inputs(&self) -> Inputs {
        Inputs {
            mean_ns: self.iterations.mean_ns().filter(|mean| *mean > 0.0),
            deviation_ns: self.iterations.variance_ns2().map(f64::sqrt),
            overhead_ns: self.requests.mean_ns().filter(|overhead| *overhead > 0.0),
            weights: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_inputs() {
        let mut threads = [Profile::default(); 2];
        assert_eq!(threads[0].inputs(), Inputs::default());
        let chunk = |wall_ns, dispatch_ns| Finished { iterations: 1, wall_ns, cpu_ns: 1.0, dispatch_ns };
        threads[0].add(&chunk(1.5, 3.0), Timing::Wall);
        threads[1].add(&chunk(2.5, 5.0), Timing::Wall);
        let [mut all, other] = threads;
        all.merge(&other);
        let Inputs { mean_ns, deviation_ns, overhead_ns, .. } = all.inputs();
        assert_eq!((mean_ns, deviation_ns, overhead_ns), (Some(2.0), Some(0.5f64.sqrt()), Some(4.0)));
    }
}
