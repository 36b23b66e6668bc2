//! The loop that is simulated.

use random::Random;

use crate::inputs::Inputs;

/// Smallest time of an iteration, as a part of the mean.
const SHORTEST: f64 = 0.05;

/// A loop that a program executes several times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Iterations.
    pub trips: u64,
    /// Mean work of an iteration, nanoseconds on a CPU of speed 1.
    pub mean_ns: f64,
    /// Coefficient of variation of the work of an iteration.
    pub variation: f64,
    /// Number of instances.
    pub instances: u32,
    /// Time of a request, nanoseconds.
    pub request_ns: f64,
    /// Seed of the works.
    pub seed: u64,
}

/// The works of all instances.
pub(super) struct Sequence {
    load: Load,
    random: Random,
}

/// The work of the iterations of one instance.
pub(super) struct Works(Vec<f64>);

impl Load {
    /// Returns what a profile of this loop would find.
    #[must_use]
    pub fn inputs(&self) -> Inputs {
        Inputs {
            mean_ns: Some(self.mean_ns),
            deviation_ns: Some(self.mean_ns * self.variation),
            overhead_ns: Some(self.request_ns),
            weights: None,
        }
    }

    pub(super) fn works(&self) -> Sequence {
        Sequence { load: *self, random: Random::new(self.seed) }
    }
}

impl Sequence {
    pub(super) fn next_instance(&mut self) -> Works {
        let mut before = vec![0.0];
        let mut sum = 0.0;
        for _ in 0..self.load.trips {
            // Sum of uniform numbers: mean 0, variance 1.
            let normal = (0..3).map(|_| 2.0 * self.random.unit() - 1.0).sum::<f64>();
            sum += self.load.mean_ns * (1.0 + self.load.variation * normal).max(SHORTEST);
            before.push(sum);
        }
        Works(before)
    }
}

impl Works {
    pub(super) fn total_ns(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    pub(super) fn of(&self, iterations: &std::ops::Range<u64>) -> f64 {
        self.0[iterations.end as usize] - self.0[iterations.start as usize]
    }
}
